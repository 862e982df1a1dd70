#include "device/cpu/routing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace weft {

void choose_experts(std::span<const float> logits, std::span<ExpertChoice> choices) {
  WEFT_CHECK(!choices.empty() && choices.size() <= logits.size(), "{} of {} experts",
             choices.size(), logits.size());
  // While the choices grow, `weight` is the logit.
  size_t count = 0;
  bool finite = true;
  for (size_t e = 0; e < logits.size(); ++e) {
    const float logit = logits[e];
    finite &= std::isfinite(logit);
    size_t at = count;
    while (at > 0 && logit > choices[at - 1].weight) --at;
    if (at == choices.size()) continue;
    count = std::min(count + 1, choices.size());
    for (size_t i = count - 1; i > at; --i) choices[i] = choices[i - 1];
    choices[at] = {static_cast<int32_t>(e), logit};
  }
  // The sum over all experts cancels.
  const float largest = choices[0].weight;
  float sum = 0;
  for (ExpertChoice& choice : choices) {
    choice.weight = std::exp(choice.weight - largest);
    sum += choice.weight;
  }
  if (!finite) sum = std::numeric_limits<float>::quiet_NaN();
  for (ExpertChoice& choice : choices) choice.weight /= sum;
}

ExpertRows::ExpertRows(int experts, int used, int64_t most_rows)
    : used_(used), counts_(static_cast<size_t>(experts)) {
  groups_.reserve(counts_.size());
  rows_.reserve(static_cast<size_t>(most_rows * used));
  places_.reserve(static_cast<size_t>(most_rows * used));
}

void ExpertRows::sort(std::span<const ExpertChoice> choices) {
  WEFT_CHECK(choices.size() <= rows_.capacity(), "{} pairs", choices.size());
  std::fill(counts_.begin(), counts_.end(), 0);
  for (const ExpertChoice& choice : choices) ++counts_[static_cast<size_t>(choice.expert)];
  groups_.clear();
  largest_ = 0;
  int32_t first = 0;
  for (size_t e = 0; e < counts_.size(); ++e) {
    const int32_t rows = counts_[e];
    counts_[e] = first;
    if (rows == 0) continue;
    groups_.push_back({static_cast<int32_t>(e), first, rows});
    largest_ = std::max<int64_t>(largest_, rows);
    first += rows;
  }
  rows_.resize(choices.size());
  places_.resize(choices.size());
  for (size_t pair = 0; pair < choices.size(); ++pair) {
    const int32_t place = counts_[static_cast<size_t>(choices[pair].expert)]++;
    rows_[static_cast<size_t>(place)] = static_cast<int32_t>(pair / static_cast<size_t>(used_));
    places_[pair] = place;
  }
}

}  // namespace weft
