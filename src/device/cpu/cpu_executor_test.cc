// The executor's arithmetic: the tiny models against what independent implementations computed,
// with every table that this CPU runs.

#include "device/cpu/cpu_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "device/cpu/test_driver.h"

namespace weft {
namespace {

using test::Driver;
using test::DriverOptions;
using test::Expected;
using test::Logits;
using test::same_bits;
using test::Tokens;

using Case = std::tuple<std::string, std::string>;  // kernels, model

class TinyModelTest : public ::testing::TestWithParam<Case> {
 protected:
  std::string kernels() const { return std::get<0>(GetParam()); }
  std::string model() const { return std::get<1>(GetParam()); }
  DriverOptions options(int threads = 2) const {
    return {.kernels = kernels(), .threads = threads};
  }
};

INSTANTIATE_TEST_SUITE_P(All, TinyModelTest,
                         ::testing::Combine(::testing::ValuesIn(test::kernel_names()),
                                            ::testing::Values("llama", "llama3-rope", "qwen2",
                                                              "qwen3", "qwen3moe", "mixtral")),
                         [](const auto& info) {
                           std::string name =
                               std::get<0>(info.param) + "_" + std::get<1>(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(TinyModelTest, LogitsAtEveryPosition) {
  const Expected expected(model());
  Driver driver(model(), options());
  auto sequence = driver.open(2);
  const auto logits = driver.all_logits(sequence, expected.prompt, expected.prompt.size());
  ASSERT_EQ(logits.size() * logits[0].size(), expected.logits.size());
  double worst = 0;
  for (size_t i = 0; i < expected.logits.size(); ++i) {
    const float got = logits[i / logits[0].size()][i % logits[0].size()];
    worst = std::max(worst, double{std::abs(got - expected.logits[i])});
  }
  EXPECT_LT(worst, 1e-3);
}

TEST_P(TinyModelTest, GreedyTokens) {
  const Expected expected(model());
  Driver driver(model(), options(1));
  auto sequence = driver.open(0);
  EXPECT_EQ(driver.generate(sequence, expected.prompt, 48), expected.greedy);
}

TEST_P(TinyModelTest, AnyChunksGiveTheSameBits) {
  const Expected expected(model());
  Tokens tokens = expected.prompt;
  tokens.insert(tokens.end(), expected.greedy.begin(), expected.greedy.end());
  Driver driver(model(), options(1));
  auto whole = driver.open(0);
  const auto reference = driver.all_logits(whole, tokens, tokens.size());
  for (const size_t chunk : {1, 7, 64}) {
    auto sequence = driver.open(static_cast<SlotId>(chunk % Driver::kSlots));
    EXPECT_TRUE(same_bits(driver.all_logits(sequence, tokens, chunk), reference)) << chunk;
  }
  // A prompt's chunk computes the whole last layer for its last row only.
  auto sequence = driver.open(5);
  driver.run({Driver::rows(sequence, std::span(tokens).first(50), Outputs::kNone)});
  driver.run({Driver::rows(sequence, std::span(tokens).subspan(50), Outputs::kLast)});
  EXPECT_TRUE(same_bits({driver.logits(0)}, {reference.back()}));
}

TEST_P(TinyModelTest, SequencesDoNotFeelEachOther) {
  const Expected expected(model());
  Driver driver(model(), options());
  auto alone = driver.open(0);
  std::vector<Tokens> prompts;
  std::vector<Tokens> wanted;
  std::vector<Logits> wanted_logits;
  for (int i = 0; i < 5; ++i) {
    prompts.emplace_back(expected.prompt.begin() + i * 11, expected.prompt.end());
    alone = driver.open(0);
    wanted.push_back(driver.generate(alone, prompts.back(), 12));
    wanted_logits.push_back(driver.logits(0));
  }
  EXPECT_EQ(wanted[0], Tokens(expected.greedy.begin(), expected.greedy.begin() + 12));

  // All at once: prompts in one pass with the first decode rows of those that came before.
  std::vector<test::Sequence> sequences;
  sequences.reserve(5);
  std::vector<Tokens> got(5);
  for (size_t i = 0; i < 5; ++i) sequences.push_back(driver.open(static_cast<SlotId>(i + 1)));
  for (size_t step = 0; step < 16; ++step) {
    std::vector<Segment> segments;
    std::vector<size_t> owners;
    for (size_t i = 0; i < 5; ++i) {
      if (step < i || step >= i + 12) continue;
      owners.push_back(i);
      segments.push_back(step == i ? Driver::rows(sequences[i], prompts[i], Outputs::kLast)
                                   : Driver::next(sequences[i]));
    }
    const auto outputs = driver.run(segments);
    ASSERT_EQ(outputs.size(), owners.size());
    for (size_t o = 0; o < owners.size(); ++o) {
      EXPECT_EQ(outputs[o].segment, static_cast<int>(o));
      got[owners[o]].push_back(outputs[o].token);
      if (step == owners[o] + 11) {
        EXPECT_TRUE(same_bits({driver.logits(o)}, {wanted_logits[owners[o]]}));
      }
    }
  }
  EXPECT_EQ(got, wanted);
}

// How far rows of logits are from the expected ones, relative to these.
struct Distance {
  double whole = 0;   // of all rows
  double median = 0;  // of the rows
};
Distance distance(const std::vector<Logits>& logits, const Logits& expected) {
  const size_t vocab = logits[0].size();
  double squares = 0;
  double reference = 0;
  std::vector<double> rows;
  for (size_t row = 0; row < logits.size(); ++row) {
    double row_squares = 0;
    double row_reference = 0;
    for (size_t i = 0; i < vocab; ++i) {
      const float want = expected[row * vocab + i];
      row_squares += std::pow(double{logits[row][i]} - want, 2);
      row_reference += std::pow(double{want}, 2);
    }
    rows.push_back(std::sqrt(row_squares / row_reference));
    squares += row_squares;
    reference += row_reference;
  }
  std::nth_element(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(rows.size() / 2),
                   rows.end());
  return {std::sqrt(squares / reference), rows[rows.size() / 2]};
}

// Where two experts nearly tie, a little noise takes the other one: such rows may be far off, the
// others may not.
void expect_close(const std::vector<Logits>& logits, const Expected& expected, bool experts,
                  double bound) {
  const Distance d = distance(logits, expected.logits);
  EXPECT_LT(experts ? d.median : d.whole, bound);
  EXPECT_LT(d.whole, 0.25);
}

TEST_P(TinyModelTest, QuantizedWeightsStayClose) {
  const Expected expected(model());
  DriverOptions quantized = options();
  quantized.file = "q8_0.gguf";
  Driver driver(model(), quantized);
  auto sequence = driver.open(0);
  const auto logits = driver.all_logits(sequence, expected.prompt, 64);
  expect_close(logits, expected, driver.model().config.experts > 0, 0.05);
  const auto vocab = static_cast<ptrdiff_t>(logits[0].size());
  int agree = 0;
  for (size_t row = 0; row < logits.size(); ++row) {
    const auto want = expected.logits.begin() + static_cast<ptrdiff_t>(row) * vocab;
    agree += std::max_element(want, want + vocab) - want ==
             std::max_element(logits[row].begin(), logits[row].end()) - logits[row].begin();
  }
  EXPECT_GT(agree, 80);
}

TEST_P(TinyModelTest, CacheTypesStayClose) {
  const Expected expected(model());
  for (const KvType type : {KvType::kF16, KvType::kBF16, KvType::kQ8_0}) {
    SCOPED_TRACE(kv_type_name(type));
    DriverOptions narrow = options();
    narrow.kv_type = type;
    Driver driver(model(), narrow);
    auto sequence = driver.open(0);
    const bool experts = driver.model().config.experts > 0;
    expect_close(driver.all_logits(sequence, expected.prompt, 40), expected, experts,
                 type == KvType::kF16 ? 0.002
                 : experts            ? 0.05
                                      : 0.03);
  }
}

}  // namespace
}  // namespace weft
