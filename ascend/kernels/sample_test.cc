#include "sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "device/sampler.h"
#include "kernels/kernel_table.h"
#include "vector_testing.h"

namespace weft_ascend {
namespace {

using testing::Bench;
using testing::Random;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int32_t kSlots = 80;  // at least the rows of a batch
constexpr int32_t kOwnSlot = -2;

SampleRow row_of(const weft::SamplingParams& params, double uniform, int32_t slot = kOwnSlot) {
  SampleRow row{};
  row.slot = slot;
  row.inverse_temperature = params.temperature > 0 ? 1 / params.temperature : 0;
  row.top_k = params.top_k;
  row.top_p = params.top_p;
  row.floor = params.min_p > 0 ? params.temperature * std::log(params.min_p) : -kInfinity;
  // Rounded down, to stay below 1.
  row.uniform = static_cast<float>(std::floor(uniform * 0x1p24) * 0x1p-24);
  return row;
}

// How far a mass may be from the true one, in shares of it.
double mass_error(size_t vocab) {
  const double tiles = std::ceil(static_cast<double>(vocab) / 4096);
  return (20 + 2 * std::log(static_cast<double>(vocab)) + tiles) * 0x1p-24;
}

struct Batch {
  int32_t vocab = 0;
  std::vector<float> logits;  // [rows, stride()]
  std::vector<SampleRow> rows;

  explicit Batch(int32_t size) : vocab(size) {}
  size_t stride() const { return static_cast<size_t>(RoundUp(vocab, 16)); }
  void add(const std::vector<float>& row, const SampleRow& params) {
    rows.push_back(params);
    if (params.slot == kOwnSlot) rows.back().slot = static_cast<int32_t>(rows.size()) - 1;
    logits.insert(logits.end(), row.begin(), row.end());
    logits.resize(rows.size() * stride(), 1e30F);  // behind the row: not to be looked at
  }
  std::span<const float> row(size_t r) const {
    return testing::row_of(logits, r, stride(), static_cast<size_t>(vocab));
  }
};

struct Sampled {
  std::vector<SampleResult> results;
  std::vector<int32_t> slots;
};

Sampled run(const Batch& batch, uint64_t seed = 1, int blocks = 1) {
  Bench bench(seed);
  const SampleArgs args{.logits = bench.put(batch.logits),
                        .params = bench.put(batch.rows),
                        .results = bench.room<SampleResult>(batch.rows.size()),
                        .slot_tokens = bench.put(std::vector<int32_t>(kSlots * kSlotStride, -7)),
                        .rows = static_cast<int32_t>(batch.rows.size()),
                        .vocab = batch.vocab,
                        .stride = static_cast<int32_t>(batch.stride())};
  bench.run<&Sample>(blocks, args);
  return {bench.get<SampleResult>(args.results, batch.rows.size()),
          bench.get<int32_t>(args.slot_tokens, kSlots * kSlotStride)};
}

reference::Sampling sampling_of(const SampleRow& row) {
  return {.inverse_temperature = row.inverse_temperature,
          .top_k = row.top_k,
          .top_p = row.top_p,
          .floor = row.floor,
          .uniform = double{row.uniform}};
}

// Each row's token against the reference's; returns how many were too close to an edge to tell.
int expect_tokens(const Batch& batch, const Sampled& sampled) {
  int unsure = 0;
  for (size_t r = 0; r < batch.rows.size(); ++r) {
    const reference::Drawn drawn = reference::sample(batch.row(r), sampling_of(batch.rows[r]));
    EXPECT_EQ(sampled.results[r].finite, 1) << "row " << r;
    if (drawn.edge <= 2 * mass_error(static_cast<size_t>(batch.vocab))) {
      ++unsure;
      continue;
    }
    EXPECT_EQ(sampled.results[r].token, drawn.token)
        << "row " << r << " of " << batch.vocab << ", top_k " << batch.rows[r].top_k << ", top_p "
        << batch.rows[r].top_p << ", uniform " << batch.rows[r].uniform << ", kept " << drawn.kept;
  }
  return unsure;
}

weft::SamplingParams params(float temperature, int top_k = 0, float top_p = 1, float min_p = 0) {
  weft::SamplingParams p;
  p.temperature = temperature;
  p.top_k = top_k;
  p.top_p = top_p;
  p.min_p = min_p;
  return p;
}

TEST(SampleTest, GreedyTakesTheLowestOfTheLargest) {
  for (const int32_t vocab : {1, 7, 8, 63, 64, 65, 4095, 4096, 4097, 12289, 151936}) {
    Random random(static_cast<uint64_t>(vocab));
    Batch batch(vocab);
    std::vector<int32_t> expected;
    for (int i = 0; i < 4; ++i) {
      std::vector<float> logits = random.floats(static_cast<size_t>(vocab), 3);
      const int32_t token = random.below(vocab);
      logits[static_cast<size_t>(token)] = 100;
      const int32_t later = token + random.below(vocab - token);
      logits[static_cast<size_t>(later)] = 100;
      expected.push_back(token);
      batch.add(logits, row_of(params(0), 0));
    }
    const Sampled sampled = run(batch, 1, 2);
    for (size_t r = 0; r < expected.size(); ++r) {
      EXPECT_EQ(sampled.results[r].token, expected[r]) << vocab;
      EXPECT_EQ(sampled.results[r].finite, 1) << vocab;
    }
  }
}

TEST(SampleTest, GreedyAmongNegativeLogits) {
  Batch batch(70);
  std::vector<float> logits(70, -50.0F);
  logits[67] = -49.0F;
  batch.add(logits, row_of(params(0), 0));
  EXPECT_EQ(run(batch).results[0].token, 67);
}

TEST(SampleTest, SaysWhichRowsAreNotFinite) {
  Batch batch(4100);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {kInfinity, -kInfinity, nan, 0.0F}) {
    for (const size_t at : {size_t{0}, size_t{4095}, size_t{4099}}) {
      std::vector<float> logits = Random(at).floats(4100);
      logits[at] = bad;
      batch.add(logits, row_of(params(at == 0 ? 0.0F : 0.7F, 5, 0.9F), 0.5));
    }
  }
  const Sampled sampled = run(batch, 1, 2);
  for (size_t r = 0; r < 12; ++r) {
    EXPECT_EQ(sampled.results[r].finite, r < 9 ? 0 : 1) << r;
    EXPECT_TRUE(r >= 9 || sampled.results[r].token == 0) << r;
  }
}

TEST(SampleTest, DrawsFromAllTokens) {
  int unsure = 0;
  for (const int32_t vocab : {1, 5, 64, 65, 200, 4097, 9000}) {
    Random random(static_cast<uint64_t>(vocab));
    Batch batch(vocab);
    for (int i = 0; i < 12; ++i) {
      batch.add(random.floats(static_cast<size_t>(vocab), 2),
                row_of(params(0.5F + 0.1F * static_cast<float>(i)), random.uniform()));
    }
    unsure += expect_tokens(batch, run(batch, 1, 3));
  }
  EXPECT_LE(unsure, 8);
}

TEST(SampleTest, CutsByTopKTopPAndFloor) {
  int unsure = 0;
  int rows = 0;
  for (const int32_t vocab : {2, 65, 300, 4095, 4160, 12300}) {
    Random random(static_cast<uint64_t>(vocab));
    Batch batch(vocab);
    for (const int top_k : {0, 1, 2, 40, 5000}) {
      for (const float top_p : {1.0F, 0.95F, 0.5F, 1e-6F}) {
        for (const float min_p : {0.0F, 0.02F}) {
          batch.add(random.floats(static_cast<size_t>(vocab), 2),
                    row_of(params(0.8F, top_k, top_p, min_p), random.uniform()));
          ++rows;
        }
      }
    }
    unsure += expect_tokens(batch, run(batch, 1, 3));
  }
  EXPECT_LE(unsure, rows / 20);
}

TEST(SampleTest, CutsALargeVocabulary) {
  constexpr int32_t kVocab = 151936;
  Random random(9);
  Batch batch(kVocab);
  batch.add(random.floats(kVocab, 3), row_of(params(0.7F, 40, 0.9F), 0.4));
  batch.add(random.floats(kVocab, 3), row_of(params(0.7F, 0, 0.9F), 0.6));
  batch.add(random.floats(kVocab, 3), row_of(params(1.0F), 0.8));
  EXPECT_LE(expect_tokens(batch, run(batch, 1, 2)), 1);
}

// Few different logits, so that cuts go through tokens of one logit; zeros of both signs are one.
TEST(SampleTest, TiesAreCutByAscendingId) {
  int unsure = 0;
  for (const int32_t vocab : {100, 4500, 9000}) {
    Random random(static_cast<uint64_t>(vocab));
    Batch batch(vocab);
    for (const int levels : {1, 3}) {
      for (const int top_k : {0, 3, 64, 4200}) {
        for (const float top_p : {1.0F, 0.7F, 0.013F}) {
          std::vector<float> logits(static_cast<size_t>(vocab));
          for (float& x : logits) {
            x = static_cast<float>(random.below(levels)) * (random.below(2) == 0 ? -0.5F : 0.5F);
          }
          batch.add(logits, row_of(params(0.8F, top_k, top_p), random.uniform()));
        }
      }
    }
    unsure += expect_tokens(batch, run(batch, 1, 3));
  }
  EXPECT_LE(unsure, 12);  // of 72: thousands of tokens of one weight have as many boundaries
}

TEST(SampleTest, ExtremeUniformsAndTemperaturesStayAmongTheTokens) {
  Random random(3);
  Batch batch(5000);
  for (const double uniform : {0.0, 1 - 0x1p-53}) {
    for (const float temperature : {1e-6F, 1e-3F, 1.0F, 100.0F}) {
      batch.add(random.floats(5000, 4), row_of(params(temperature, 0, 0.9F), uniform));
      batch.add(random.floats(5000, 1e30F), row_of(params(temperature, 50), uniform));
    }
  }
  expect_tokens(batch, run(batch, 1, 3));
}

// Against the host's own sampler, with the uniform numbers that it draws itself.
TEST(SampleTest, AgreesWithTheHostsSampler) {
  constexpr int32_t kVocab = 9001;
  Random random(17);
  const weft::KernelTable& kernels = *weft::find_kernels("ref").value();
  Batch batch(kVocab);
  std::vector<weft::TokenId> expected;
  weft::SamplerScratch scratch(kVocab);
  for (int i = 0; i < 60; ++i) {
    const weft::SamplingParams p =
        params(i % 7 == 0 ? 0.0F : 0.3F + 0.2F * static_cast<float>(i % 5), i % 3 == 0 ? 40 : 0,
               i % 2 == 0 ? 0.9F : 1.0F, i % 4 == 0 ? 0.05F : 0.0F);
    weft::SamplerState state;
    weft::SlotInit init;
    init.sampling = p;
    init.seed = static_cast<uint64_t>(i);
    state.open(init, kVocab, 64);
    const std::vector<float> logits = random.floats(kVocab, 3);
    batch.add(logits, row_of(p, state.uniform(i)));
    expected.push_back(weft::sample_row(kernels, logits, state, i, weft::kSample, scratch).token);
  }
  const Sampled sampled = run(batch, 1, 3);
  int unsure = 0;
  for (size_t r = 0; r < expected.size(); ++r) {
    const reference::Drawn drawn = reference::sample(batch.row(r), sampling_of(batch.rows[r]));
    if (drawn.edge <= 2 * mass_error(kVocab)) {
      ++unsure;
    } else {
      EXPECT_EQ(sampled.results[r].token, expected[r]) << r;
    }
  }
  EXPECT_LE(unsure, 2);
}

TEST(SampleTest, ASampleBecomesItsSlotsLastToken) {
  Random random(6);
  Batch batch(100);
  for (const int32_t slot : {4, -1, 0, 2}) {
    batch.add(random.floats(100, 3), row_of(params(1.0F), random.uniform(), slot));
  }
  const Sampled sampled = run(batch, 1, 2);
  std::vector<int32_t> expected(kSlots * kSlotStride, -7);
  expected[4 * kSlotStride] = sampled.results[0].token;
  expected[0] = sampled.results[2].token;
  expected[2 * kSlotStride] = sampled.results[3].token;
  EXPECT_EQ(sampled.slots, expected);
}

Batch mixed_batch(int32_t vocab, int rows) {
  Random random(8);
  Batch batch(vocab);
  for (int i = 0; i < rows; ++i) {
    batch.add(
        random.floats(static_cast<size_t>(vocab), 3),
        row_of(params(i % 4 == 3 ? 0.0F : 0.9F, i % 3 == 0 ? 30 : 0, i % 2 == 0 ? 0.9F : 1.0F),
               random.uniform()));
  }
  return batch;
}

bool same_results(const std::vector<SampleResult>& a, const std::vector<SampleResult>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
}

TEST(SampleTest, ARowsResultDependsOnTheRowAlone) {
  const Batch batch = mixed_batch(4200, 7);
  const std::vector<SampleResult> all = run(batch).results;
  for (const int blocks : {2, 3}) EXPECT_TRUE(same_results(run(batch, 2, blocks).results, all));
  for (size_t r = 0; r < batch.rows.size(); ++r) {
    Batch one(batch.vocab);
    const std::span<const float> logits = batch.row(r);
    one.add({logits.begin(), logits.end()}, batch.rows[r]);
    EXPECT_TRUE(same_results(run(one, 3).results, {all[r]})) << r;
  }
}

TEST(SampleTest, TheOrderOfExecutionDoesNotMatter) {
  const Batch batch = mixed_batch(8300, 6);
  const std::vector<SampleResult> first = run(batch).results;
  for (int seed = 2; seed <= testing::Seeds(); ++seed) {
    ASSERT_TRUE(same_results(run(batch, static_cast<uint64_t>(seed), 1 + seed % 3).results, first))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace weft_ascend
