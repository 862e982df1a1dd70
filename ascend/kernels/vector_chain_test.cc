// Operators that follow each other in one kernel, on rows that stay on their core, so that nothing
// but what an operator leaves behind orders them.

#include <gtest/gtest.h>

#include "embedding.h"
#include "norm.h"
#include "rotary_store.h"
#include "sample.h"
#include "swiglu.h"
#include "vector_testing.h"

namespace weft_ascend {
namespace {

using testing::Bench;
using testing::Random;

constexpr int32_t kRows = 7;
constexpr int32_t kWidth = 2064;

struct ChainArgs {
  EmbedArgs embed;
  AddNormArgs norm;
  SwiGluArgs swiglu;
  AddNormArgs again;
  CopyRowsArgs copy;
  SampleArgs sample;
};

void chain(ChainArgs args) {
  AscendC::TPipe pipe;
  const Team team = WholeLaunch();
  Embed(pipe, team, args.embed);
  AddNorm(pipe, team, args.norm);
  SwiGlu<half>(pipe, team, args.swiglu);
  AddNorm(pipe, team, args.again);
  CopyRows(pipe, team, args.copy);
  Sample(pipe, team, args.sample);
  Embed(pipe, team, args.embed);
}

struct ChainResult {
  std::vector<float> rows;
  std::vector<half> gated;
  std::vector<SampleResult> samples;
  std::vector<float> embedded;  // of the samples
};

ChainResult run_chain(uint64_t seed, int blocks) {
  Random random(3);
  constexpr size_t kValues = size_t{kRows} * kWidth;
  std::vector<int32_t> tokens;
  std::vector<SampleRow> params;
  for (int32_t r = 0; r < kRows; ++r) {
    tokens.push_back(-1 - r);
    params.push_back({r, r % 2 == 0 ? 0.0F : 1.0F, 9, 0.8F, -1e30F, random.uniform(), {}});
  }
  std::vector<int32_t> slots(size_t{kRows} * kSlotStride);
  for (int32_t r = 0; r < kRows; ++r) slots[static_cast<size_t>(r) * kSlotStride] = r;

  Bench bench(seed);
  const GM_ADDR hidden = bench.room<float>(kValues);
  const GM_ADDR normed = bench.room<half>(kValues);
  const GM_ADDR slot_tokens = bench.put(slots);
  ChainArgs args{};
  args.embed = {bench.put(tokens),
                slot_tokens,
                bench.put(random.halves(kWidth * kWidth)),
                hidden,
                kRows,
                kWidth};
  args.norm = {hidden,  bench.put(random.floats(kValues)),
               nullptr, bench.put(random.floats(kWidth)),
               normed,  kRows,
               kWidth,  kWidth,
               kWidth,  1e-5F};
  // A normed row is gate and up; a row's only piece stays on its core.
  args.swiglu = {normed, nullptr,   bench.room<half>(kValues / 2), kRows, kWidth / 2,
                 kWidth, kWidth / 2};
  args.again = args.norm;
  args.copy = {hidden, nullptr, bench.room<float>(kValues), kRows, kWidth};
  args.sample = {
      args.copy.out, bench.put(params), bench.room<SampleResult>(kRows), slot_tokens, kRows, kWidth,
      kWidth};
  bench.launch<&chain>(blocks, args);
  return {bench.get<float>(args.copy.out, kValues), bench.get<half>(args.swiglu.out, kValues / 2),
          bench.get<SampleResult>(args.sample.results, kRows), bench.get<float>(hidden, kValues)};
}

TEST(VectorChainTest, OperatorsFollowEachOtherInOneKernel) {
  const ChainResult first = run_chain(1, 1);
  for (const SampleResult& sample : first.samples) EXPECT_EQ(sample.finite, 1);
  for (int seed = 2; seed <= testing::Seeds(); ++seed) {
    const ChainResult other = run_chain(static_cast<uint64_t>(seed), 1 + seed % 3);
    ASSERT_TRUE(testing::same_bits(first.rows, other.rows)) << "seed " << seed;
    ASSERT_TRUE(testing::same_bits(first.gated, other.gated)) << "seed " << seed;
    ASSERT_TRUE(testing::same_bits(first.embedded, other.embedded)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weft_ascend
