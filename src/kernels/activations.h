#pragma once
// How the SIMD tables lay out activations: rows are dealt into tiles of nearly equal size, and a
// tile is what one call of a matrix kernel multiplies. Inside a tile rows are interleaved, so that
// a kernel reads one stream.
//
// kF32, a tile of R rows:   float [inputs, rounded up to 2][R]
// kBF16, a tile of R rows:  bf16 [inputs / 2, rounded up][R][2], rounded to the nearest, ties to
// even kQ8,  a tile of R rows, for each block of 32 inputs b:
//   body       [b] { int8 values [R][32]; float scale [R]; float bias [R] }, bias = -kMagic * scale
//   starts     [kind][b] int32 [R]        or [b][2][R] where a kind has groups of 16
//   sums       [b] float [R], then [b] float [2][R]: scale * (sum of the block's, of each half's
//   values)
//
// The integer accumulator of a block begins at its start, kMagicBits - offset * (sum of the
// values): the bits of the float kMagic, less what the weights' offset adds to the dot product.
// When the dot product is complete, the register read as a float is exactly kMagic + dot, and one
// fused multiply-add with bias gives scale * dot: no conversion, no correction. Scales keep two
// bits free at the end, so bias is exact. A row with a value that is not finite, or beyond 2^100 so
// that bias may overflow, gives outputs that are not finite.

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.h"

namespace weft {

inline constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: floats near it are integers
inline constexpr int32_t kMagicBits = 0x4b400000;
// A block whose largest magnitude is below this counts as zero: its scale would be no normal float.
inline constexpr float kSmallestMaximum = 1e-30F;

// Offsets that weights come with (QuantFormat::offset): of groups of 32 and, two starts a block,
// of 16.
inline constexpr int kStartOffsets32[] = {8, 16, 128};
inline constexpr int kStartOffsets16[] = {4, 32};
inline constexpr int kStarts = 3 + 2 * 2;
inline constexpr int kQ8BodyBytes = 32 + 2 * 4;  // of a row in a block
inline constexpr int kQ8RowBytes = kQ8BodyBytes + kStarts * 4 + 3 * 4;

struct TileRange {
  int64_t row_begin = 0;
  int64_t rows = 0;
};

// `rows` rows in tiles of at most `most` rows.
class Tiling {
 public:
  Tiling(int64_t rows, int64_t most) : most_(most), count_((rows + most - 1) / most) {
    if (count_ == 0) return;
    size_ = rows / count_;
    larger_ = rows % count_;
  }

  int64_t most() const { return most_; }
  int64_t count() const { return count_; }
  TileRange tile(int64_t index) const {
    return {index * size_ + (index < larger_ ? index : larger_), size_ + (index < larger_ ? 1 : 0)};
  }

 private:
  int64_t most_;
  int64_t count_;
  int64_t size_ = 0;    // rows of a tile
  int64_t larger_ = 0;  // so many tiles, the first ones, have one row more
};

// The parts of one kQ8 tile of `rows` rows and `blocks` blocks that begins at row `row_begin`.
struct Q8Tile {
  std::byte* body = nullptr;
  int64_t rows = 0;
  int64_t blocks = 0;

  Q8Tile(std::byte* packed, TileRange range, int64_t blocks)
      : body(packed + range.row_begin * blocks * kQ8RowBytes), rows(range.rows), blocks(blocks) {}

  int32_t* starts() const {
    return reinterpret_cast<int32_t*>(body + rows * blocks * kQ8BodyBytes);
  }
  // The starts of kind `index` in kStartOffsets32 or kStartOffsets16.
  int32_t* starts32(int64_t index) const { return starts() + index * rows * blocks; }
  int32_t* starts16(int64_t index) const { return starts() + (3 + 2 * index) * rows * blocks; }
  float* sums32() const { return reinterpret_cast<float*>(starts() + kStarts * rows * blocks); }
  float* sums16() const { return sums32() + rows * blocks; }
};

inline float* f32_tile(std::byte* packed, TileRange range, int64_t inputs) {
  return reinterpret_cast<float*>(packed) + range.row_begin * ((inputs + 1) / 2 * 2);
}

// Pairs of bf16, each in a 32-bit word, the first in its lower half.
inline uint32_t* bf16_tile(std::byte* packed, TileRange range, int64_t inputs) {
  return reinterpret_cast<uint32_t*>(packed) + range.row_begin * ((inputs + 1) / 2);
}

inline int64_t packed_activation_bytes(ActivationFormat format, int64_t rows, int64_t inputs) {
  if (format == ActivationFormat::kQ8) return rows * (inputs / 32) * kQ8RowBytes;
  const int64_t pairs = rows * ((inputs + 1) / 2);
  return pairs * (format == ActivationFormat::kBF16 ? 4 : 8);
}

}  // namespace weft
