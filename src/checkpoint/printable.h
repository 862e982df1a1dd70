#pragma once
// Text from a file, made fit for one line of a message.

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

// `text` with control characters and bytes that are not UTF-8 as escapes ("\n", "\xff"), cut after
// about `max_bytes` bytes of it, never inside a character; what was cut shows as "...".
std::string printable(std::string_view text, size_t max_bytes = 64);

}  // namespace weft
