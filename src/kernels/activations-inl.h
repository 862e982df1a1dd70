// Packing of activations, compiled for each target: normalization or SwiGLU, quantization and
// interleaving in one pass.

#if defined(WEFT_ACTIVATIONS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_ACTIVATIONS_INL_H
#undef WEFT_ACTIVATIONS_INL_H
#else
#define WEFT_ACTIVATIONS_INL_H
#endif

#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "kernels/activations.h"
#include "kernels/elements-inl.h"
#include "kernels/simd.h"

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using Floats = hn::Vec<FloatTag>;
constexpr int kFloatLanes = HWY_LANES(float);

// The first `count` floats at p, then zeros.
HWY_INLINE Floats load_some(const float* p, int64_t count) {
  HWY_ALIGN float padded[kFloatLanes] = {};
  std::memcpy(padded, p, static_cast<size_t>(count) * sizeof(float));
  return hn::Load(FloatTag(), padded);
}
HWY_INLINE Floats load_up_to(const float* p, int64_t count) {
  return count >= kFloatLanes ? hn::LoadU(FloatTag(), p) : load_some(p, count);
}

constexpr int kMaxTileRows = 12;

// One row of a RowSource, its operation applied as it is read.
class SourceRow {
 public:
  SourceRow() = default;
  SourceRow(const RowSource& source, int64_t row, int64_t inputs)
      : op_(source.op), x_(source.row(row)), weight_(source.weight), inputs_(inputs) {
    if (op_ == RowSource::Op::kRmsNorm) scale_ = norm_scale(source.eps);
  }

  // Writes `count` values from the i-th on; rounded up to whole vectors, with zeros beyond the end
  // of the row.
  void read(int64_t i, int64_t count, float* HWY_RESTRICT out) const {
    const FloatTag d;
    switch (op_) {
      case RowSource::Op::kPlain:
        return each(i, count, out, [](Floats x, int64_t, int64_t) { return x; });
      case RowSource::Op::kRmsNorm:
        return each(i, count, out, [&](Floats x, int64_t at, int64_t left) {
          return hn::Mul(hn::Mul(x, hn::Set(d, scale_)), load_up_to(weight_ + at, left));
        });
      case RowSource::Op::kSwiGlu:
        return each(i, count, out, [&](Floats gate, int64_t at, int64_t left) {
          const Floats up = load_up_to(x_ + inputs_ + at, left);
          const Floats divisor = hn::Add(hn::Set(d, 1.0F), hn::Exp(d, hn::Neg(gate)));
          return hn::Mul(hn::Div(gate, divisor), up);
        });
    }
  }

 private:
  template <class Op>
  HWY_INLINE void each(int64_t i, int64_t count, float* HWY_RESTRICT out, const Op& op) const {
    for (int64_t at = i; at < i + count; at += kFloatLanes, out += kFloatLanes) {
      const int64_t left = inputs_ - at;
      hn::Store(op(load_up_to(x_ + at, left), at, left), FloatTag(), out);
    }
  }

  float norm_scale(float eps) const {
    const FloatTag d;
    Floats squares = hn::Zero(d);
    for (int64_t i = 0; i < inputs_; i += kFloatLanes) {
      const Floats x = load_up_to(x_ + i, inputs_ - i);
      squares = hn::MulAdd(x, x, squares);
    }
    const float mean = hn::GetLane(hn::SumOfLanes(d, squares)) / static_cast<float>(inputs_);
    return 1.0F / std::sqrt(mean + eps);
  }

  RowSource::Op op_ = RowSource::Op::kPlain;
  const float* x_ = nullptr;
  const float* weight_ = nullptr;
  int64_t inputs_ = 0;
  float scale_ = 1;
};

// Values are read and quantized so many blocks at a time, so that scales are computed as vectors.
constexpr int kSegmentBlocks = 16;

// Scales of a segment's blocks and what to multiply its values by, from the blocks' largest
// magnitudes.
void block_scales(const float* maxima, float* HWY_RESTRICT scales, float* HWY_RESTRICT inverses) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  for (int i = 0; i < kSegmentBlocks; i += kFloatLanes) {
    const Floats maximum = hn::Load(d, maxima + i);
    const auto bits = hn::BitCast(di, hn::Mul(maximum, hn::Set(d, 1.0F / 127.0F)));
    const Floats scale = hn::BitCast(d, hn::And(bits, hn::Set(di, ~3)));
    const auto small = hn::Lt(maximum, hn::Set(d, kSmallestMaximum));
    hn::Store(hn::IfThenZeroElse(small, scale), d, scales + i);
    hn::Store(hn::IfThenZeroElse(small, hn::Div(hn::Set(d, 1.0F), scale)), d, inverses + i);
  }
}

// Writes what a tile holds of row r's block b beside its codes, which are there already.
void put_block_terms(const Q8Tile& tile, int64_t b, int64_t r, float scale) {
  std::byte* body = tile.body + b * tile.rows * kQ8BodyBytes;
  const auto* codes = reinterpret_cast<const uint8_t*>(body) + r * 32;
  auto* scales = reinterpret_cast<float*>(body + tile.rows * 32);
  scales[r] = scale;
  scales[tile.rows + r] = -kMagic * scale;

  const hn::FixedTag<uint8_t, 16> d8;
  const hn::FixedTag<uint64_t, 2> d64;
  int32_t sums[2];
  for (int half = 0; half < 2; ++half) {
    const auto shifted = hn::Xor(hn::LoadU(d8, codes + 16 * half), hn::Set(d8, 0x80));
    const auto eights = hn::SumsOf8(shifted);
    sums[half] = static_cast<int32_t>(hn::GetLane(hn::SumOfLanes(d64, eights))) - 16 * 128;
  }
  const int32_t sum = sums[0] + sums[1];
  const int64_t at = b * tile.rows + r;
  const int64_t at16 = 2 * b * tile.rows + r;
  for (int64_t k = 0; k < 3; ++k) tile.starts32(k)[at] = kMagicBits - kStartOffsets32[k] * sum;
  for (int64_t k = 0; k < 2; ++k) {
    tile.starts16(k)[at16] = kMagicBits - kStartOffsets16[k] * sums[0];
    tile.starts16(k)[at16 + tile.rows] = kMagicBits - kStartOffsets16[k] * sums[1];
  }
  tile.sums32()[at] = scale * static_cast<float>(sum);
  tile.sums16()[at16] = scale * static_cast<float>(sums[0]);
  tile.sums16()[at16 + tile.rows] = scale * static_cast<float>(sums[1]);
}

// Quantizes the row's blocks [first, first + count) into place r of the tile. Returns 0 times every
// value, added up.
Floats quantize_segment(const SourceRow& source, int64_t first, int64_t count, int64_t r,
                        const Q8Tile& tile) {
  const FloatTag d;
  const hn::Rebind<int8_t, FloatTag> di8;
  HWY_ALIGN float values[kSegmentBlocks * 32];
  HWY_ALIGN float maxima[kSegmentBlocks] = {};
  HWY_ALIGN float scales[kSegmentBlocks];
  HWY_ALIGN float inverses[kSegmentBlocks];
  source.read(first * 32, count * 32, values);
  Floats poison = hn::Zero(d);
  for (int64_t b = 0; b < count; ++b) {
    Floats largest = hn::Zero(d);
    for (int i = 0; i < 32; i += kFloatLanes) {
      const Floats x = hn::Load(d, values + b * 32 + i);
      largest = hn::Max(largest, hn::Abs(x));
      poison = hn::MulAdd(x, hn::Zero(d), poison);
    }
    maxima[b] = hn::GetLane(hn::MaxOfLanes(d, largest));
  }
  block_scales(maxima, scales, inverses);
  for (int64_t b = 0; b < count; ++b) {
    auto* codes =
        reinterpret_cast<int8_t*>(tile.body + (first + b) * tile.rows * kQ8BodyBytes) + r * 32;
    const Floats inverse = hn::Set(d, inverses[b]);
    for (int i = 0; i < 32; i += kFloatLanes) {
      const auto rounded = hn::NearestInt(hn::Mul(hn::Load(d, values + b * 32 + i), inverse));
      hn::StoreU(hn::DemoteTo(di8, rounded), di8, codes + i);
    }
    put_block_terms(tile, first + b, r, scales[b]);
  }
  return poison;
}

// A value of row r is not finite, so no output of the row may be: each block's scale becomes NaN.
void poison_row(const Q8Tile& tile, int64_t r) {
  for (int64_t b = 0; b < tile.blocks; ++b) {
    std::byte* body = tile.body + b * tile.rows * kQ8BodyBytes;
    reinterpret_cast<float*>(body + tile.rows * 32)[r] = std::numeric_limits<float>::quiet_NaN();
  }
}

// Segments outside and rows inside: a segment of all rows fits into L1, where rows interleave.
void quantize_tile(const SourceRow* rows, const Q8Tile& tile) {
  Floats poison[kMaxTileRows];
  for (int64_t r = 0; r < tile.rows; ++r) poison[r] = hn::Zero(FloatTag());
  for (int64_t b = 0; b < tile.blocks; b += kSegmentBlocks) {
    const int64_t count = std::min<int64_t>(tile.blocks - b, kSegmentBlocks);
    for (int64_t r = 0; r < tile.rows; ++r) {
      poison[r] = hn::Add(poison[r], quantize_segment(rows[r], b, count, r, tile));
    }
  }
  for (int64_t r = 0; r < tile.rows; ++r) {
    if (hn::GetLane(hn::SumOfLanes(FloatTag(), poison[r])) != 0) poison_row(tile, r);
  }
}

void interleave_tile(const SourceRow* rows, int64_t count, int64_t inputs, float* tile) {
  constexpr int64_t kRun = 16 * kFloatLanes;
  HWY_ALIGN float values[kRun];
  const int64_t padded = (inputs + 1) / 2 * 2;
  for (int64_t i = 0; i < padded; i += kRun) {
    const int64_t run = std::min(padded - i, kRun);
    for (int64_t r = 0; r < count; ++r) {
      rows[r].read(i, run, values);
      for (int64_t j = 0; j < run; ++j) tile[(i + j) * count + r] = values[j];
    }
  }
}

void interleave_pairs(const SourceRow* rows, int64_t count, int64_t inputs, uint32_t* tile) {
  constexpr int64_t kRun = 16 * kFloatLanes;
  const hn::RebindToUnsigned<FloatTag> du;
  HWY_ALIGN float values[kRun];
  HWY_ALIGN uint32_t rounded[kRun];
  const int64_t padded = (inputs + 1) / 2 * 2;
  for (int64_t i = 0; i < padded; i += kRun) {
    const int64_t run = std::min(padded - i, kRun);
    for (int64_t r = 0; r < count; ++r) {
      rows[r].read(i, run, values);
      for (int64_t j = 0; j < run; j += kFloatLanes) {
        hn::Store(bf16_in_upper_half(hn::Load(FloatTag(), values + j)), du, rounded + j);
      }
      for (int64_t j = 0; j < run; j += 2) {
        tile[(i + j) / 2 * count + r] = (rounded[j] >> 16) | (rounded[j + 1] & 0xFFFF0000U);
      }
    }
  }
}

void pack_tile(ActivationFormat format, const RowSource& source, TileRange range, int64_t inputs,
               std::byte* packed) {
  SourceRow rows[kMaxTileRows];
  for (int64_t r = 0; r < range.rows; ++r) rows[r] = SourceRow(source, range.row_begin + r, inputs);
  if (format == ActivationFormat::kQ8) {
    quantize_tile(rows, Q8Tile(packed, range, inputs / 32));
  } else if (format == ActivationFormat::kBF16) {
    interleave_pairs(rows, range.rows, inputs, bf16_tile(packed, range, inputs));
  } else {
    interleave_tile(rows, range.rows, inputs, f32_tile(packed, range, inputs));
  }
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif  // WEFT_SIMD_TARGET

#endif  // WEFT_ACTIVATIONS_INL_H
