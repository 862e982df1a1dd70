#pragma once
// Element types of weights, as GGUF files hold them. A quantized type stores blocks of
// `block_elems` values in `block_bytes` bytes; a plain type is a block of one.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weft {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
};
inline constexpr int kDTypeCount = 16;

struct DTypeInfo {
  std::string_view name;  // "Q4_K"
  int block_elems;
  int block_bytes;
};

const DTypeInfo& dtype_info(DType type);
std::optional<DType> dtype_from_name(std::string_view name);  // case-insensitive

// Bytes of a row of `elems` values; elems must be a multiple of the type's block.
int64_t row_bytes(DType type, int64_t elems);

}  // namespace weft
