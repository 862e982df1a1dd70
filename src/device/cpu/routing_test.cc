#include "device/cpu/routing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace weft {
namespace {

using ::testing::ElementsAre;

std::vector<ExpertChoice> choose(const std::vector<float>& logits, size_t used) {
  std::vector<ExpertChoice> choices(used);
  choose_experts(logits, choices);
  return choices;
}

std::vector<int32_t> chosen(const std::vector<float>& logits, size_t used) {
  std::vector<int32_t> experts;
  for (const ExpertChoice& choice : choose(logits, used)) experts.push_back(choice.expert);
  return experts;
}

TEST(ChooseExperts, TheLargestFirst) {
  EXPECT_THAT(chosen({0.5F, -1, 3, 2, -7, 2.5F}, 3), ElementsAre(2, 5, 3));
  EXPECT_THAT(chosen({-3, -1, -2}, 1), ElementsAre(1));
  EXPECT_THAT(chosen({1, 2, 3}, 3), ElementsAre(2, 1, 0));
}

TEST(ChooseExperts, OfEqualOnesTheFirst) {
  EXPECT_THAT(chosen({1, 1, 1, 1, 1}, 2), ElementsAre(0, 1));
  EXPECT_THAT(chosen({0, 4, 4, 0, 4}, 2), ElementsAre(1, 2));
  EXPECT_THAT(chosen({2, 1, 3, 1, 1}, 3), ElementsAre(2, 0, 1));
  EXPECT_THAT(chosen({0.0F, -0.0F, 0.0F}, 2), ElementsAre(0, 1));
}

TEST(ChooseExperts, WeightsAreTheSoftmaxOverAllScaledToOne) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 3);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> logits(128);
    for (float& logit : logits) logit = normal(random);
    double all = 0;
    for (const float logit : logits) all += std::exp(double{logit});
    const std::vector<ExpertChoice> choices = choose(logits, 8);
    double used = 0;
    for (const ExpertChoice& c : choices) {
      used += std::exp(double{logits[static_cast<size_t>(c.expert)]}) / all;
    }
    double sum = 0;
    for (const ExpertChoice& c : choices) {
      const double share = std::exp(double{logits[static_cast<size_t>(c.expert)]}) / all;
      EXPECT_NEAR(c.weight, share / used, 1e-6);
      sum += c.weight;
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
  // Logits whose exponential no float holds.
  EXPECT_FLOAT_EQ(choose({500, 500, -500}, 2)[0].weight, 0.5F);
}

TEST(ChooseExperts, WhatIsNotFiniteSpoilsTheRow) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (size_t at = 0; at < 5; ++at) {
      std::vector<float> logits = {1, 2, 3, 4, 5};
      logits[at] = bad;
      for (const ExpertChoice& choice : choose(logits, 2)) {
        EXPECT_TRUE(choice.expert >= 0 && choice.expert < 5);
        EXPECT_TRUE(std::isnan(choice.weight));
      }
    }
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(chosen({nan, nan, nan}, 2), ElementsAre(0, 1));
}

TEST(ExpertRowsTest, AnExpertsRowsLieTogetherAscending) {
  constexpr int kExperts = 7;
  constexpr int kUsed = 3;
  ExpertRows sorted(kExperts, kUsed, 40);
  std::mt19937 random(2);
  for (const size_t rows : {0, 1, 2, 40, 5}) {
    std::vector<ExpertChoice> choices;
    for (size_t r = 0; r < rows; ++r) {
      // Expert 6 gets none.
      const auto first = static_cast<int32_t>(random() % 6);
      for (int32_t rank = 0; rank < kUsed; ++rank) choices.push_back({(first + 2 * rank) % 6, 0});
    }
    sorted.sort(choices);
    ASSERT_EQ(sorted.rows().size(), choices.size());
    int32_t next = 0;
    int32_t last_expert = -1;
    int64_t largest = 0;
    for (const ExpertRows::Group& group : sorted.groups()) {
      EXPECT_GT(group.expert, last_expert);
      EXPECT_EQ(group.first, next);
      EXPECT_GT(group.rows, 0);
      for (int32_t i = 1; i < group.rows; ++i) {
        EXPECT_LT(sorted.rows()[static_cast<size_t>(next + i - 1)],
                  sorted.rows()[static_cast<size_t>(next + i)]);
      }
      next += group.rows;
      last_expert = group.expert;
      largest = std::max<int64_t>(largest, group.rows);
    }
    EXPECT_EQ(next, static_cast<int32_t>(choices.size()));
    EXPECT_EQ(sorted.largest(), largest);
    for (size_t pair = 0; pair < choices.size(); ++pair) {
      const int32_t place = sorted.places()[pair];
      EXPECT_EQ(sorted.rows()[static_cast<size_t>(place)], static_cast<int32_t>(pair / kUsed));
      for (const ExpertRows::Group& group : sorted.groups()) {
        const bool inside = place >= group.first && place < group.first + group.rows;
        EXPECT_EQ(inside, group.expert == choices[pair].expert);
      }
    }
  }
}

}  // namespace
}  // namespace weft
