#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rowwise.cc"
#include <algorithm>
#include <cmath>

#include "kernels/kernel_table.h"
#include "kernels/simd.h"

#include "kernels/tails-inl.h"

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<float> kTag;
using V = hn::Vec<decltype(kTag)>;
constexpr int kLanes = hn::MaxLanes(hn::ScalableTag<float>());

void head_norm(float* x, int heads, int head_dim, const float* weight, float eps) {
  for (int head = 0; head < heads; ++head, x += head_dim) {
    V squares = hn::Zero(kTag);
    for (int i = 0; i < head_dim; i += kLanes) {
      const V v = load_first(kTag, x + i, std::min(kLanes, head_dim - i));
      squares = hn::MulAdd(v, v, squares);
    }
    const float mean = hn::GetLane(hn::SumOfLanes(kTag, squares)) / static_cast<float>(head_dim);
    const V scale = hn::Set(kTag, 1 / std::sqrt(mean + eps));
    for (int i = 0; i < head_dim; i += kLanes) {
      const int n = std::min(kLanes, head_dim - i);
      const V v = hn::Mul(load_first(kTag, x + i, n), scale);
      store_first(hn::Mul(v, load_first(kTag, weight + i, n)), kTag, x + i, n);
    }
  }
}

struct Rotated {
  V a;
  V b;
};

HWY_INLINE Rotated rotate(V a, V b, V cos, V sin) {
  return {hn::MulSub(a, cos, hn::Mul(b, sin)), hn::MulAdd(a, sin, hn::Mul(b, cos))};
}

void rope_halves(float* x, const float* cos, const float* sin, int pairs) {
  for (int i = 0; i < pairs; i += kLanes) {
    const int n = std::min(kLanes, pairs - i);
    const Rotated r = rotate(load_first(kTag, x + i, n), load_first(kTag, x + pairs + i, n),
                             load_first(kTag, cos + i, n), load_first(kTag, sin + i, n));
    store_first(r.a, kTag, x + i, n);
    store_first(r.b, kTag, x + pairs + i, n);
  }
}

void rope_interleaved(float* x, const float* cos, const float* sin, int pairs) {
  HWY_ALIGN float both[2 * kLanes] = {};
  for (int i = 0; i < pairs; i += kLanes) {
    const int n = std::min(kLanes, pairs - i);
    std::copy_n(x + 2 * i, 2 * n, both);
    V a;
    V b;
    hn::LoadInterleaved2(kTag, both, a, b);
    const Rotated r = rotate(a, b, load_first(kTag, cos + i, n), load_first(kTag, sin + i, n));
    hn::StoreInterleaved2(r.a, r.b, kTag, both);
    std::copy_n(both, 2 * n, x + 2 * i);
  }
}

void rope(float* x, int heads, int head_dim, int position, const RopeTable& table) {
  const float* cos = table.cos + int64_t{position} * table.pairs;
  const float* sin = table.sin + int64_t{position} * table.pairs;
  for (int head = 0; head < heads; ++head, x += head_dim) {
    if (table.interleaved) {
      rope_interleaved(x, cos, sin, table.pairs);
    } else {
      rope_halves(x, cos, sin, table.pairs);
    }
  }
}

}  // namespace

void fill_rowwise(KernelTable& table) {
  table.head_norm = head_norm;
  table.rope = rope;
}

}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif
