#pragma once
// Amounts of memory as people write them.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weft {

// "512M", "4G", "1.5GiB", "4096": K, M, G and T are powers of 1024.
Result<uint64_t> parse_bytes(std::string_view text);
std::string format_bytes(uint64_t bytes);  // "3.2 GiB"

}  // namespace weft
