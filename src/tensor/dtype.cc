#include "tensor/dtype.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/check.h"

namespace weft {
namespace {

// Block sizes of the GGUF format.
constexpr std::array<DTypeInfo, kDTypeCount> kInfo = {{
    {"F32", 1, 4},
    {"F16", 1, 2},
    {"BF16", 1, 2},
    {"Q4_0", 32, 18},
    {"Q4_1", 32, 20},
    {"Q5_0", 32, 22},
    {"Q5_1", 32, 24},
    {"Q8_0", 32, 34},
    {"Q2_K", 256, 84},
    {"Q3_K", 256, 110},
    {"Q4_K", 256, 144},
    {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},
    {"IQ4_NL", 32, 18},
    {"IQ4_XS", 256, 136},
    {"MXFP4", 32, 17},
}};

}  // namespace

const DTypeInfo& dtype_info(DType type) { return kInfo[static_cast<size_t>(type)]; }

std::optional<DType> dtype_from_name(std::string_view name) {
  const auto same = [&](std::string_view other) {
    return std::equal(
        name.begin(), name.end(), other.begin(), other.end(),
        [](unsigned char a, unsigned char b) { return std::toupper(a) == std::toupper(b); });
  };
  for (int i = 0; i < kDTypeCount; ++i) {
    if (same(kInfo[static_cast<size_t>(i)].name)) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int64_t row_bytes(DType type, int64_t elems) {
  const DTypeInfo& info = dtype_info(type);
  WEFT_CHECK(elems % info.block_elems == 0, "{} values are not whole blocks of {}", elems,
             info.name);
  return elems / info.block_elems * info.block_bytes;
}

}  // namespace weft
