#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/logits.cc"
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/kernel_table.h"
#include "kernels/simd.h"

#include "kernels/exp-inl.h"

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<float> kTag;
using V = hn::Vec<decltype(kTag)>;
constexpr int64_t kLanes = hn::MaxLanes(hn::ScalableTag<float>());
constexpr int kChains = 4;  // independent, to hide the latency of one step

// Calls step(values, chain) for all vectors of x in one fixed order; lanes after the end hold
// `padding`.
template <class Step>
HWY_INLINE void each_vector(const float* x, int64_t n, float padding, Step step) {
  int64_t i = 0;
  for (; i + kChains * kLanes <= n; i += kChains * kLanes) {
    for (int chain = 0; chain < kChains; ++chain)
      step(hn::LoadU(kTag, x + i + chain * kLanes), chain);
  }
  for (int chain = 0; i < n; i += kLanes, ++chain) {
    HWY_ALIGN float last[kLanes];
    const int64_t left = std::min(n - i, kLanes);
    std::copy_n(x + i, left, last);
    std::fill(last + left, last + kLanes, padding);
    step(hn::Load(kTag, last), chain);
  }
}

float max_value(const float* x, int64_t n) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  V max[kChains];
  V nan[kChains];  // zero, or NaN once a value was: Max itself may forget one
  for (int c = 0; c < kChains; ++c) {
    max[c] = hn::Set(kTag, kLowest);
    nan[c] = hn::Zero(kTag);
  }
  each_vector(x, n, kLowest, [&](V v, int c) {
    max[c] = hn::Max(max[c], v);
    nan[c] = hn::IfThenElse(hn::IsNaN(v), v, nan[c]);
  });
  const V all = hn::Max(hn::Max(max[0], max[1]), hn::Max(max[2], max[3]));
  const V nans = hn::Add(hn::Add(nan[0], nan[1]), hn::Add(nan[2], nan[3]));
  const float sum_of_nans = hn::GetLane(hn::SumOfLanes(kTag, nans));
  return std::isnan(sum_of_nans) ? sum_of_nans : hn::GetLane(hn::MaxOfLanes(kTag, all));
}

float sum_exp_of_piece(const float* x, int64_t n, V max, V factor) {
  V sum[kChains];
  for (V& s : sum) s = hn::Zero(kTag);
  each_vector(x, n, -std::numeric_limits<float>::infinity(), [&](V v, int c) {
    sum[c] = hn::Add(sum[c], exp2_nonpositive(kTag, hn::Mul(hn::Sub(v, max), factor)));
  });
  const V all = hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
  return hn::GetLane(hn::SumOfLanes(kTag, all));
}

float sum_exp(const float* x, int64_t n, float max, float inv_temperature) {
  constexpr int64_t kPiece =
      2048;  // short enough that a large term does not swallow many small ones
  const V maximum = hn::Set(kTag, max);
  const V factor = hn::Set(kTag, inv_temperature * kLog2E);
  double sum = 0;
  for (int64_t i = 0; i < n; i += kPiece) {
    sum += sum_exp_of_piece(x + i, std::min(kPiece, n - i), maximum, factor);
  }
  return static_cast<float>(sum);
}

}  // namespace

void fill_logits(KernelTable& table) {
  table.max_value = max_value;
  table.sum_exp = sum_exp;
}

}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif
