// Packing of activations: rows that are picked from others, and what room they take.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/testing.h"

namespace weft {
namespace {

using testing::AlignedBytes;
using testing::random_floats;

constexpr int64_t kInputs = 160;
constexpr int64_t kStride = 2 * kInputs + 3;

std::vector<std::string> table_names() {
  std::vector<std::string> names;
  for (const KernelTable* table : available_kernels()) names.emplace_back(table->name);
  return names;
}

class PackedRowsTest
    : public ::testing::TestWithParam<std::tuple<std::string, DType, RowSource::Op>> {
 protected:
  const KernelTable& table() const { return **find_kernels(std::get<0>(GetParam())); }
  ActivationFormat format() const { return table().activation_format(std::get<1>(GetParam())); }
  RowSource source(const std::vector<float>& x, const std::vector<float>& weight) const {
    return {.op = std::get<2>(GetParam()),
            .x = x.data(),
            .stride = kStride,
            .weight = weight.data(),
            .eps = 1e-5F};
  }
  // The packed bytes; what packing does not write is the same pattern everywhere.
  std::vector<std::byte> pack(const RowSource& from, int64_t rows) const {
    const int64_t bytes = table().activation_bytes(format(), rows, kInputs);
    AlignedBytes packed(bytes);
    for (int64_t piece = table().activation_pieces(format(), rows); piece-- > 0;) {
      table().pack_activations(format(), from, rows, kInputs, piece, piece + 1, packed.data());
    }
    return {packed.data(), packed.data() + bytes};
  }
};

TEST_P(PackedRowsTest, PickedRowsArePackedAsIfTheyLayInOrder) {
  const std::vector<float> x = random_floats(20 * kStride, 1);
  const std::vector<float> weight = random_floats(kInputs, 2);
  const std::vector<int32_t> picked = {7, 0, 19, 19, 3, 12, 4, 5, 6, 18, 1, 2, 11, 0, 8};
  for (size_t count = 1; count <= picked.size(); ++count) {
    std::vector<float> gathered;
    for (size_t i = 0; i < count; ++i) {
      const auto row = x.begin() + picked[i] * kStride;
      gathered.insert(gathered.end(), row, row + kStride);
    }
    RowSource from = source(x, weight);
    from.rows = picked.data();
    const auto rows = static_cast<int64_t>(count);
    EXPECT_EQ(pack(from, rows), pack(source(gathered, weight), rows)) << count << " rows";
  }
}

TEST_P(PackedRowsTest, ManyRowsTakeNoMoreRoomThanOneByOne) {
  for (int64_t rows = 1; rows <= 100; ++rows) {
    EXPECT_LE(table().activation_bytes(format(), rows, kInputs),
              rows * table().activation_bytes(format(), 1, kInputs));
  }
}

std::string test_name(const ::testing::TestParamInfo<PackedRowsTest::ParamType>& info) {
  constexpr const char* kOps[] = {"Plain", "RmsNorm", "SwiGlu"};
  const auto& [table, type, op] = info.param;
  return table + "_" + std::string(dtype_info(type).name) + "_" + kOps[static_cast<size_t>(op)];
}

INSTANTIATE_TEST_SUITE_P(
    All, PackedRowsTest,
    ::testing::Combine(::testing::ValuesIn(table_names()),
                       ::testing::Values(DType::kF32, DType::kBF16, DType::kQ8_0),
                       ::testing::Values(RowSource::Op::kPlain, RowSource::Op::kRmsNorm,
                                         RowSource::Op::kSwiGlu)),
    test_name);

}  // namespace
}  // namespace weft
