#include "embedding.h"

#include <gtest/gtest.h>

#include "vector_testing.h"

namespace weft_ascend {
namespace {

using testing::Bench;
using testing::Random;

struct EmbedCase {
  int32_t rows;
  int32_t width;
};

std::vector<float> embed(const EmbedCase& c, uint64_t seed, int blocks) {
  constexpr int32_t kVocab = 11;
  constexpr int32_t kSlots = 5;
  Random random(7);
  const std::vector<half> table = random.halves(kVocab * static_cast<size_t>(c.width));
  std::vector<int32_t> slots(kSlots * kSlotStride, -12345);
  for (int32_t s = 0; s < kSlots; ++s) slots[static_cast<size_t>(s) * kSlotStride] = 2 * s + 1;
  std::vector<int32_t> tokens;
  tokens.reserve(static_cast<size_t>(c.rows));
  for (int32_t r = 0; r < c.rows; ++r) {
    tokens.push_back(r % 3 == 1 ? -1 - random.below(kSlots) : random.below(kVocab));
  }

  Bench bench(seed);
  const size_t values = static_cast<size_t>(c.rows) * static_cast<size_t>(c.width);
  const EmbedArgs args{.tokens = bench.put(tokens),
                       .slot_tokens = bench.put(slots),
                       .table = bench.put(table),
                       .out = bench.room<float>(values),
                       .rows = c.rows,
                       .width = c.width};
  bench.run<&Embed>(blocks, args);
  const std::vector<float> out = bench.get<float>(args.out, values);

  std::vector<float> expected;
  for (const int32_t token : tokens) {
    const int32_t id = token >= 0 ? token : slots[static_cast<size_t>(-1 - token) * kSlotStride];
    const auto row = table.begin() + int64_t{id} * c.width;
    expected.insert(expected.end(), row, row + c.width);
  }
  EXPECT_TRUE(testing::same_bits(out, expected)) << c.rows << " x " << c.width;
  return out;
}

TEST(EmbedTest, WidensTheRowsOfTokensAndOfSlots) {
  for (const int32_t rows : {1, 2, 6, 7, 65, 300}) {
    for (const int blocks : {1, 2, 3}) embed({rows, 48}, 1, blocks);
  }
  for (const int32_t width : {16, 4080, 4096, 4112, 8192, 8208}) embed({3, width}, 2, 2);
}

TEST(EmbedTest, TheOrderOfExecutionDoesNotMatter) {
  for (int seed = 1; seed <= testing::Seeds(); ++seed) {
    embed({5, 4112}, static_cast<uint64_t>(seed), 1 + seed % 3);
  }
}

void copy_rows(int32_t rows, int32_t width, bool from, uint64_t seed, int blocks) {
  Random random(static_cast<uint64_t>(rows * width));
  const int32_t space = 2 * rows + 3;
  const size_t values = static_cast<size_t>(space) * static_cast<size_t>(width);
  const std::vector<float> in = random.floats(values);
  const std::vector<float> before = random.floats(values);
  const std::vector<int32_t> sources = random.places(static_cast<size_t>(rows), space);

  Bench bench(seed);
  const CopyRowsArgs args{.in = bench.put(in),
                          .from = from ? bench.put(sources) : nullptr,
                          .out = bench.put(before),
                          .rows = rows,
                          .width = width};
  bench.run<&CopyRows>(blocks, args);

  std::vector<float> expected = before;
  for (int32_t r = 0; r < rows; ++r) {
    const int32_t source = from ? sources[static_cast<size_t>(r)] : r;
    std::copy_n(in.begin() + source * width, width, expected.begin() + r * width);
  }
  EXPECT_TRUE(testing::same_bits(bench.get<float>(args.out, values), expected))
      << rows << " x " << width;
}

TEST(CopyRowsTest, TakesRowsInOrderOrByIndex) {
  for (const int32_t rows : {1, 2, 5, 64, 258}) {
    for (const int blocks : {1, 2, 3}) copy_rows(rows, 32, rows % 2 == 0, 1, blocks);
  }
  for (const int32_t width : {16, 8176, 8192, 8208, 16400}) {
    copy_rows(3, width, true, 2, 1);
    copy_rows(7, width, false, 3, 2);
  }
}

TEST(CopyRowsTest, TheOrderOfExecutionDoesNotMatter) {
  for (int seed = 1; seed <= testing::Seeds(); ++seed) {
    copy_rows(5, 8208, true, static_cast<uint64_t>(seed), 1 + seed % 3);
  }
}

}  // namespace
}  // namespace weft_ascend
