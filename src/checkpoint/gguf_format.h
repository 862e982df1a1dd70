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
  struct Named {
    uint32_t type;
    std::string_view name;
  };
  constexpr std::array<Named, 18> kNames = {{
      {4, "Q4_2"},
      {5, "Q4_3"},
      {9, "Q8_1"},
      {15, "Q8_K"},
      {16, "IQ2_XXS"},
      {17, "IQ2_XS"},
      {18, "IQ3_XXS"},
      {19, "IQ1_S"},
      {21, "IQ3_S"},
      {22, "IQ2_S"},
      {24, "I8"},
      {25, "I16"},
      {26, "I32"},
      {27, "I64"},
      {28, "F64"},
      {29, "IQ1_M"},
      {34, "TQ1_0"},
      {35, "TQ2_0"},
  }};
  for (const Named& named : kNames) {
    if (named.type == tensor_type) return named.name;
  }
  return "unknown";
}

inline bool valid_alignment(uint64_t alignment) {
  return alignment >= 8 && std::has_single_bit(alignment);
}

inline uint64_t align_up(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

}  // namespace weft::gguf
