#include "cli/paired_ratio.h"

#include <algorithm>

#include "base/check.h"

namespace weft {
namespace {

// The largest k for which at least 95 % of the cases have the median between the k-th smallest and
// the k-th largest of n values (k from 0); 0 where even the range has less.
size_t interval_rank(size_t n) {
  double term = 1;  // the binomial probability of i values below the median, scaled by 2^n
  for (size_t i = 0; i < n; ++i) term /= 2;
  double below = 0;
  size_t rank = 0;
  for (size_t k = 0; k < n / 2; ++k) {
    below += term;
    if (2 * below > 0.05) break;
    rank = k;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  return rank;
}

}  // namespace

double median(std::vector<double> values) {
  WEFT_CHECK(!values.empty(), "the median of nothing");
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

PairedRatio paired_ratio(std::span<const double> ours, std::span<const double> theirs) {
  WEFT_CHECK(ours.size() == theirs.size() && !ours.empty(), "{} and {} values", ours.size(),
             theirs.size());
  std::vector<double> ratios;
  ratios.reserve(ours.size());
  for (size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / theirs[i]);
  std::sort(ratios.begin(), ratios.end());
  const size_t rank = interval_rank(ratios.size());
  return {median(ratios), ratios[rank], ratios[ratios.size() - 1 - rank]};
}

}  // namespace weft
