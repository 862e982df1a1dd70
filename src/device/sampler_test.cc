#include "device/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>

#include "device/philox.h"

namespace weft {
namespace {

using Tokens = std::vector<TokenId>;

struct History {
  Tokens prompt;
  Tokens output;
};

SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

// The order of sampling written down plainly, in double, by sorting everything.
class Reference {
 public:
  Reference(const std::vector<float>& logits, const SamplingParams& params, const History& history)
      : params_(params), x_(logits.begin(), logits.end()) {
    penalize(history);
    for (const auto& [token, bias] : params.logit_bias) x_[token] += bias;
    if (history.output.size() < static_cast<size_t>(params.min_tokens)) {
      for (const TokenId token : params.forbidden) x_[token] = -INFINITY;
    }
  }

  // Probabilities by id after all restrictions.
  std::vector<double> probabilities() const {
    const double max = *std::max_element(x_.begin(), x_.end());
    std::vector<size_t> order(x_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return x_[a] != x_[b] ? x_[a] > x_[b] : a < b; });
    std::vector<double> p(x_.size(), 0.0);
    size_t kept = params_.temperature == 0 ? 1 : order.size();
    if (params_.temperature == 0) {
      p[order[0]] = 1;
      return p;
    }
    const auto weight = [&](size_t i) {
      return std::exp((x_[order[i]] - max) / params_.temperature);
    };
    while (kept > 1 && params_.min_p > 0 && weight(kept - 1) < params_.min_p) --kept;
    if (params_.top_k > 0) kept = std::min(kept, static_cast<size_t>(params_.top_k));
    double total = 0;
    for (size_t i = 0; i < kept; ++i) total += weight(i);
    if (params_.top_p < 1) {
      double sum = 0;
      size_t n = 0;
      while (n < kept && sum < params_.top_p * total) sum += weight(n++);
      kept = std::max<size_t>(n, 1);
      total = sum;
    }
    for (size_t i = 0; i < kept; ++i) p[order[i]] = weight(i) / total;
    return p;
  }

  TokenId draw(double uniform) const {
    const std::vector<double> p = probabilities();
    double sum = 0;
    TokenId last = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      if (p[i] == 0) continue;
      last = static_cast<TokenId>(i);
      sum += p[i];
      if (sum > uniform) break;
    }
    return last;
  }

 private:
  void penalize(const History& history) {
    std::map<TokenId, int> outputs;
    for (const TokenId token : history.prompt) outputs[token] += 0;
    for (const TokenId token : history.output) outputs[token] += 1;
    for (const auto& [token, count] : outputs) {
      double& x = x_[token];
      x = x > 0 ? x / params_.repetition_penalty : x * params_.repetition_penalty;
      x -= params_.frequency_penalty * count + (count > 0 ? params_.presence_penalty : 0);
    }
  }

  SamplingParams params_;
  std::vector<double> x_;
};

class SamplerTest : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  SamplerState open(const SamplingParams& params, const History& history, uint64_t seed, int vocab,
                    uint32_t choice = 0) {
    SamplerState state;
    state.open({params, seed, choice, history.prompt, history.output}, vocab, 256);
    return state;
  }
  Sample sample(const std::vector<float>& logits, const SamplerState& state, int64_t position = 0,
                TokenId target = kSample) {
    SamplerScratch scratch(static_cast<int>(logits.size()));
    return sample_row(*GetParam(), logits, state, position, target, scratch);
  }
  TokenId pick(const std::vector<float>& logits, const SamplingParams& params,
               const History& history = {}) {
    return sample(logits, open(params, history, 1, static_cast<int>(logits.size()))).token;
  }

  std::mt19937_64 random_{12345};
  std::vector<float> random_logits(size_t n, double spread) {
    std::normal_distribution<double> normal(0, spread);
    std::vector<float> logits(n);
    for (float& x : logits) x = static_cast<float>(normal(random_));
    return logits;
  }
  double uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }
  int integer(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

  SamplingParams random_params(int vocab) {
    SamplingParams p;
    p.temperature = integer(8) == 0 ? 0.0F : static_cast<float>(0.1 + 2 * uniform());
    if (integer(2) == 0) p.top_k = 1 + integer(integer(2) == 0 ? 40 : 2 * vocab);
    if (integer(2) == 0) p.top_p = static_cast<float>(0.02 + 0.98 * uniform());
    if (integer(3) == 0) p.min_p = static_cast<float>(0.3 * uniform());
    if (integer(3) == 0) p.repetition_penalty = static_cast<float>(0.8 + uniform());
    if (integer(3) == 0) p.presence_penalty = static_cast<float>(2 * uniform() - 1);
    if (integer(3) == 0) p.frequency_penalty = static_cast<float>(2 * uniform() - 1);
    for (int i = integer(4); i > 0; --i) {
      p.logit_bias.emplace_back(integer(vocab), static_cast<float>(10 * uniform() - 5));
    }
    for (int i = integer(3); i > 0; --i) p.forbidden.push_back(integer(vocab));
    p.min_tokens = integer(10);
    return p;
  }
  History random_history(int vocab) {
    History history;
    for (int i = integer(30); i > 0; --i) history.prompt.push_back(integer(vocab));
    for (int i = integer(20); i > 0; --i) history.output.push_back(integer(std::min(vocab, 12)));
    return history;
  }
};

INSTANTIATE_TEST_SUITE_P(All, SamplerTest,
                         ::testing::ValuesIn(available_kernels().begin(),
                                             available_kernels().end()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST_P(SamplerTest, DrawsWhatThePlainDefinitionDraws) {
  for (int round = 0; round < 3000; ++round) {
    const int vocab = round % 100 == 0 ? 9000 + integer(1000) : 1 + integer(600);
    std::vector<float> logits = random_logits(static_cast<size_t>(vocab), 0.1 + 4 * uniform());
    if (round % 3 == 0) {  // many ties
      for (float& x : logits) x = std::round(x);
    }
    const SamplingParams params = random_params(vocab);
    const History history = random_history(vocab);
    const uint64_t seed = random_();
    const uint32_t choice = static_cast<uint32_t>(integer(4));
    const int position = integer(5000);
    const SamplerState state = open(params, history, seed, vocab, choice);
    const Reference reference(logits, params, history);
    const Sample got = sample(logits, state, position);
    ASSERT_TRUE(got.finite);
    ASSERT_EQ(got.token, reference.draw(sampling_uniform(seed, choice, position)))
        << "round " << round << " vocab " << vocab << " temperature " << params.temperature
        << " top_k " << params.top_k << " top_p " << params.top_p << " min_p " << params.min_p;
  }
}

TEST_P(SamplerTest, FrequenciesFollowTheProbabilities) {
  constexpr int kDraws = 20000;
  const std::vector<float> logits = random_logits(40, 1.5);
  SamplingParams variants[4];
  variants[1].top_k = 12;
  variants[2].top_p = 0.8F;
  variants[3].min_p = 0.1F;
  variants[3].temperature = 1.7F;
  for (const SamplingParams& params : variants) {
    const std::vector<double> p = Reference(logits, params, {}).probabilities();
    const SamplerState state = open(params, {}, 99, 40);
    std::vector<int> seen(40, 0);
    for (int i = 0; i < kDraws; ++i) ++seen[static_cast<size_t>(sample(logits, state, i).token)];
    double chi = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      if (p[i] == 0) {
        EXPECT_EQ(seen[i], 0);
      } else {
        chi += std::pow(seen[i] - kDraws * p[i], 2) / (kDraws * p[i]);
      }
    }
    EXPECT_LT(chi, 72.1);  // one in a thousand with 39 degrees of freedom
  }
}

TEST_P(SamplerTest, GreedyTakesTheLowestIdOfTheLargest) {
  EXPECT_EQ(pick({1, 5, 3, 5, 5}, greedy()), 1);
  EXPECT_EQ(pick({-7}, greedy()), 0);
  SamplingParams top_one;
  top_one.top_k = 1;
  EXPECT_EQ(pick({1, 5, 3, 5, 5}, top_one), 1);
  SamplingParams cold;
  cold.temperature = 1e-30F;
  EXPECT_EQ(pick({1, 2, 4, 3}, cold), 2);
}

TEST_P(SamplerTest, BiasForbiddenAndMinTokens) {
  SamplingParams params = greedy();
  params.logit_bias = {{0, 10.0F}, {77, 5.0F}, {-1, 5.0F}};  // ids that do not exist change nothing
  EXPECT_EQ(pick({1, 5, 3}, params), 0);
  params.forbidden = {0, 99};
  EXPECT_EQ(pick({1, 5, 3}, params), 0);
  params.min_tokens = 2;
  EXPECT_EQ(pick({1, 5, 3}, params), 1);
  EXPECT_EQ(pick({1, 5, 3}, params, {{}, {1}}), 1);
  EXPECT_EQ(pick({1, 5, 3}, params, {{}, {1, 1}}), 0);
}

TEST_P(SamplerTest, PenaltiesCountPromptAndOutput) {
  SamplingParams repetition = greedy();
  repetition.repetition_penalty = 2;
  EXPECT_EQ(pick({3, 2, -1}, repetition, {{0}, {}}), 1);
  EXPECT_EQ(pick({-3, -2, -2.5F}, repetition, {{}, {1}}), 2);
  SamplingParams presence = greedy();
  presence.presence_penalty = 1.5F;
  EXPECT_EQ(pick({3, 2}, presence, {{0}, {}}), 0);
  EXPECT_EQ(pick({3, 2}, presence, {{}, {0}}), 1);
  SamplingParams frequency = greedy();
  frequency.frequency_penalty = 0.4F;
  EXPECT_EQ(pick({3, 2}, frequency, {{}, {0, 0}}), 0);
  EXPECT_EQ(pick({3, 2}, frequency, {{}, {0, 0, 0}}), 1);

  // Counts grow as tokens are accepted.
  SamplerState state = open(frequency, {{}, {0, 0}}, 1, 2);
  EXPECT_EQ(state.last(), 0);
  state.accept(0);
  EXPECT_EQ(sample({3, 2}, state).token, 1);
}

TEST_P(SamplerTest, LogprobsAreOfTheModelsOwnDistribution) {
  const std::vector<float> logits = random_logits(500, 3);
  double sum = 0;
  for (const float x : logits) sum += std::exp(double{x});
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });

  SamplingParams params = greedy();
  params.logit_bias = {{order[30], 100.0F}};
  params.top_logprobs = 8;
  const SamplerState state = open(params, {}, 1, 500);
  const Sample drawn = sample(logits, state);
  EXPECT_EQ(drawn.token, order[30]);
  EXPECT_NEAR(drawn.log_sum_exp, std::log(sum), 1e-4);
  EXPECT_NEAR(drawn.logprob, logits[order[30]] - std::log(sum), 1e-4);
  ASSERT_EQ(drawn.top_count, 8);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(drawn.top[i].token, order[i]);
    EXPECT_NEAR(drawn.top[i].logprob, logits[order[i]] - std::log(sum), 1e-4);
  }
  // A target is reported whatever the sampler would have drawn.
  const Sample target = sample(logits, state, 0, 7);
  EXPECT_EQ(target.token, 7);
  EXPECT_NEAR(target.logprob, logits[7] - std::log(sum), 1e-4);
  EXPECT_EQ(target.top_count, 8);
}

TEST_P(SamplerTest, TopLogprobsBreakTiesByIdAndStopAtTheVocabulary) {
  SamplingParams params = greedy();
  params.top_logprobs = 20;
  const Sample few = sample({2, 1, 2, 1}, open(params, {}, 1, 4));
  ASSERT_EQ(few.top_count, 4);
  const TokenId expected[] = {0, 2, 1, 3};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(few.top[i].token, expected[i]);
  const std::vector<float> flat(3000, 1.0F);
  const Sample ties = sample(flat, open(params, {}, 1, 3000));
  ASSERT_EQ(ties.top_count, 20);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ties.top[static_cast<size_t>(i)].token, i);
  params.top_logprobs = 0;
  EXPECT_EQ(sample(flat, open(params, {}, 1, 3000)).top_count, 0);
}

TEST_P(SamplerTest, LogitsThatAreNoNumbersAreReported) {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  for (const float value : bad) {
    for (const size_t place : {0U, 17U, 299U}) {
      std::vector<float> logits = random_logits(300, 1);
      EXPECT_TRUE(sample(logits, open(greedy(), {}, 1, 300)).finite);
      logits[place] = value;
      EXPECT_FALSE(sample(logits, open(greedy(), {}, 1, 300)).finite);
      EXPECT_FALSE(sample(logits, open({}, {}, 1, 300), 0, 5).finite);
    }
  }
}

// Whatever the parameters are, a token of the vocabulary comes out.
TEST_P(SamplerTest, ParametersOutOfRangeDoNoHarm) {
  const float values[] = {std::numeric_limits<float>::quiet_NaN(), -1.0F, 0.0F, 1e-45F, 1.0F, 3e38F,
                          std::numeric_limits<float>::infinity()};
  const std::vector<float> logits = random_logits(50, 5);
  for (const float a : values) {
    for (const float b : values) {
      for (int field = 0; field < 36; ++field) {
        SamplingParams p;
        float* fields[] = {
            &p.temperature,      &p.top_p, &p.min_p, &p.repetition_penalty, &p.presence_penalty,
            &p.frequency_penalty};
        *fields[field % 6] = a;
        *fields[field / 6] = b;
        p.logit_bias = {{1, b}, {2, -b}};
        p.top_k = field - 5;
        const TokenId token = pick(logits, p, {{1, 2, 3}, {4, 4}});
        ASSERT_TRUE(token >= 0 && token < 50);
      }
    }
  }
}

}  // namespace
}  // namespace weft
