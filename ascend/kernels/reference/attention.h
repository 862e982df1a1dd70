#pragma once
// Attention in scalar code: what the kernels are compared with.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace weft_ascend::reference {

// One row of queries of one head over the keys that it sees.
struct AttentionRow {
  std::vector<double> out;    // [head_dim]
  std::vector<double> bound;  // [head_dim] how far the kernels' half result may be from it
};

// query [head_dim], keys and values [positions, head_dim]: the values of halves. All positions are
// seen.
//
// The bound, to first order. Let w be the exact weights, L their sum (at least 1, the maximum's),
// A = sum w |v| / L.
//
// - A score is a sum of head_dim exact products in float: its error is at most head_dim units of
//   Q = scale * sum |q k|, and one more for the scaling. Subtracting the maximum adds a unit of the
//   difference, at most 2 Q; so do the segments' rescalings, whose differences add up to no more
//   than that. Each exp, of the weight and of each segment's rescaling, adds its own error and the
//   product's rounding. A weight is thus off by E relative, in the numerator and in the sum alike,
//   which moves the result by at most 2 E A.
// - The numerator's weights are rounded to half: kHalfUnit A, or kHalfStep for each tiny one.
// - Sums in float: 64 products in a tile, which the cube adds up before it adds them to those of
//   the segment's tiles before, and two roundings a segment. The weights' sum has fewer.
// - The result is rounded to half.
inline AttentionRow Attention(const std::vector<float>& query, const std::vector<float>& keys,
                              const std::vector<float>& values, int32_t positions, double scale) {
  constexpr double kFloatUnit = 0x1p-24;  // half a unit in a float's last place, relative
  constexpr double kHalfUnit = 0x1p-11;
  constexpr double kHalfStep = 0x1p-25;  // half the distance of the smallest halves
  constexpr double kExpError = 0x1p-22;  // of the vector cores' exp, relative
  constexpr int32_t kTile = 64;
  constexpr int32_t kSegmentTiles = 8;

  const auto head_dim = static_cast<int32_t>(query.size());
  std::vector<double> weights(positions);
  double maximum = -INFINITY;
  double greatest = 0;  // Q
  for (int32_t key = 0; key < positions; ++key) {
    double score = 0;
    double magnitude = 0;
    for (int32_t i = 0; i < head_dim; ++i) {
      const double product = static_cast<double>(query[i]) * keys[key * head_dim + i];
      score += product;
      magnitude += std::abs(product);
    }
    weights[key] = score * scale;
    maximum = std::max(maximum, weights[key]);
    greatest = std::max(greatest, magnitude * scale);
  }
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - maximum);

  const int32_t tiles = std::min(positions / kTile + 1, kSegmentTiles);  // of a segment
  const int32_t segments = positions / (kSegmentTiles * kTile) + 1;
  const double weight_error =
      (head_dim + 5) * kFloatUnit * greatest + (segments + 1) * (kExpError + 2 * kFloatUnit);
  const double sum_error = 2 * (kTile + tiles + 2 * segments + 1) * kFloatUnit;

  AttentionRow row;
  for (int32_t i = 0; i < head_dim; ++i) {
    double out = 0;
    double magnitude = 0;
    double tiny = 0;
    for (int32_t key = 0; key < positions; ++key) {
      const double value = values[key * head_dim + i];
      out += weights[key] * value;
      magnitude += weights[key] * std::abs(value);
      tiny += std::abs(value);
    }
    out /= sum;
    magnitude /= sum;
    const double before_rounding =
        (2 * weight_error + kHalfUnit + sum_error) * magnitude + kHalfStep * tiny / sum;
    row.out.push_back(out);
    // 1.01: what is of second order.
    row.bound.push_back(1.01 * (before_rounding + kHalfUnit * std::abs(out)) + kHalfStep);
  }
  return row;
}

}  // namespace weft_ascend::reference
