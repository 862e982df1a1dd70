#pragma once
// Numbers of the GGUF format that its reader and its writer share. Everything in a file is
// little-endian.

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace weft::gguf {

static_assert(std::endian::native == std::endian::little,
              "GGUF fields are read as they lie in the file");

inline constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
inline constexpr uint32_t kVersion = 3;         // version 2 has the same layout
inline constexpr uint64_t kDefaultAlignment = 32;
inline constexpr std::string_view kAlignmentKey = "general.alignment";

// Types of metadata values.
enum class ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// The number a file stores for each DType, in the order of DType.
inline constexpr std::array<uint32_t, kDTypeCount> kTensorTypes = {
    0,  1,  30,          // F32, F16, BF16
    2,  3,  6,  7,  8,   // Q4_0, Q4_1, Q5_0, Q5_1, Q8_0
    10, 11, 12, 13, 14,  // Q2_K to Q6_K
    20, 23, 39,          // IQ4_NL, IQ4_XS, MXFP4
};

inline uint32_t tensor_type(DType dtype) { return kTensorTypes[static_cast<size_t>(dtype)]; }

inline std::optional<DType> dtype_of(uint32_t tensor_type) {
  for (size_t i = 0; i < kTensorTypes.size(); ++i) {
    if (kTensorTypes[i] == tensor_type) return static_cast<DType>(i);
  }
  return std::nullopt;
}

// The name of a tensor type that the format knows and Weft does not read; "unknown" otherwise.
inline std::string_view unsupported_type_name(uint32_t tensor_type) {
  switch (tensor_type) {
    case 4:
      return "Q4_2";
    case 5:
      return "Q4_3";
    case 9:
      return "Q8_1";
    case 15:
      return "Q8_K";
    case 16:
      return "IQ2_XXS";
    case 17:
      return "IQ2_XS";
    case 18:
      return "IQ3_XXS";
    case 19:
      return "IQ1_S";
    case 21:
      return "IQ3_S";
    case 22:
      return "IQ2_S";
    case 24:
      return "I8";
    case 25:
      return "I16";
    case 26:
      return "I32";
    case 27:
      return "I64";
    case 28:
      return "F64";
    case 29:
      return "IQ1_M";
    case 34:
      return "TQ1_0";
    case 35:
      return "TQ2_0";
    case 40:
      return "NVFP4";
    default:
      return "unknown";
  }
}

inline bool valid_alignment(uint64_t alignment) {
  return alignment >= 8 && std::has_single_bit(alignment);
}

inline uint64_t align_up(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

}  // namespace weft::gguf
