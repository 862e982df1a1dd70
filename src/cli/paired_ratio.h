#pragma once
// Two programs measured in turn on one noisy machine: the ratio of each round's pair, and how far
// to trust its median.

#include <span>
#include <vector>

namespace weft {

double median(std::vector<double> values);  // of at least one

// The median of the ratios and an interval that holds the true median with at least 95 % (by order
// statistics, which assume nothing about the noise; with fewer than 6 pairs it is the whole range).
struct PairedRatio {
  double median = 0;
  double low = 0;
  double high = 0;
};
PairedRatio paired_ratio(std::span<const double> ours,
                         std::span<const double> theirs);  // equally many, at least one

}  // namespace weft
