#include "compute.h"

#include <algorithm>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#define WEFT_TWIN_AVX2 __attribute__((target("avx2,fma,f16c")))
#endif

namespace weft::twin {
namespace {

constexpr uint32_t kSide = 16;
constexpr uint32_t kColumns = 4;  // that are multiplied together

void to_floats(const half* from, float* to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = half_to_float(from[i].bits);
}
void to_halves(const float* from, half* to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i].bits = float_to_half(from[i]);
}

// One row of a times `columns` (at most 4) columns of floats.
void dot_columns(const float* a, const float* b, size_t b_stride, uint32_t depth, uint32_t columns,
                 float* sums) {
  for (uint32_t column = 0; column < columns; ++column) {
    float lanes[8] = {};
    const float* values = b + column * b_stride;
    for (uint32_t i = 0; i < depth; i += 8) {
      for (uint32_t lane = 0; lane < 8; ++lane) lanes[lane] += a[i + lane] * values[i + lane];
    }
    sums[column] = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
                   ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
  }
}
void rows_by_columns(const float* a, size_t a_stride, uint32_t rows, const float* b,
                     size_t b_stride, uint32_t depth, uint32_t columns, float* c, bool init) {
  for (uint32_t row = 0; row < rows; ++row) {
    float sums[kColumns];
    dot_columns(a + row * a_stride, b, b_stride, depth, columns, sums);
    for (uint32_t i = 0; i < columns; ++i) {
      float& out = c[row * kSide + i];
      out = init ? sums[i] : out + sums[i];
    }
  }
}

// Where four columns of the product lie.
struct Columns {
  Columns(const Product& product, uint32_t first)
      : count(std::min(kColumns, product.n - first)),
        fractal_stride(size_t{(product.n + kSide - 1) / kSide} * 256),
        b(product.b + size_t{first / kSide} * 256 + first % kSide * kSide),
        c(product.c + size_t{first / kSide} * ((product.m + kSide - 1) / kSide * kSide) * kSide +
          first % kSide) {}
  uint32_t count;
  size_t fractal_stride;  // from one fractal of k to the next
  const half* b;
  float* c;
};

// Columns as floats, one after the other. What lies beyond k is not part of the product.
std::vector<float>& column_buffer(const Product& product) {
  static thread_local std::vector<float> floats;
  floats.resize(size_t{kColumns} * product.a_stride);
  return floats;
}

void multiply_add_plain(const Product& product) {
  const uint32_t depth = product.a_stride;
  std::vector<float>& floats = column_buffer(product);
  for (uint32_t first = 0; first < product.n; first += kColumns) {
    const Columns columns(product, first);
    for (uint32_t column = 0; column < columns.count; ++column) {
      float* to = floats.data() + size_t{column} * depth;
      const half* from = columns.b + column * kSide;
      for (uint32_t i = 0; i < depth; i += kSide, from += columns.fractal_stride) {
        to_floats(from, to + i, kSide);
      }
      std::fill(to + product.k, to + depth, 0.0f);
    }
    rows_by_columns(product.a, depth, product.m, floats.data(), depth, depth, columns.count,
                    columns.c, product.init);
  }
}

#ifdef WEFT_TWIN_AVX2

WEFT_TWIN_AVX2 void to_floats_avx2(const half* from, float* to, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(bits));
  }
  to_floats(from + i, to + i, count - i);
}
WEFT_TWIN_AVX2 void to_halves_avx2(const float* from, half* to, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), bits);
  }
  to_halves(from + i, to + i, count - i);
}

// The lanes' sums of four columns: (s0 + s4, s1 + s5, ...) of each, then across.
WEFT_TWIN_AVX2 inline __m128 sum_lanes(const __m256* sums) {
  __m128 v[4];
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm_add_ps(_mm256_castps256_ps128(sums[i]), _mm256_extractf128_ps(sums[i], 1));
  }
  _MM_TRANSPOSE4_PS(v[0], v[1], v[2], v[3]);
  return _mm_add_ps(_mm_add_ps(v[0], v[2]), _mm_add_ps(v[1], v[3]));
}

// kRows rows by four columns. The products of halves are exact, so that a fused addition rounds as
// a separate one does.
template <int kRows>
WEFT_TWIN_AVX2 inline void tile_avx2(const float* a, size_t a_stride, const float* b,
                                     size_t b_stride, uint32_t depth, float* c, bool init) {
  __m256 sums[kRows][kColumns];
  for (auto& row : sums) {
    for (auto& sum : row) sum = _mm256_setzero_ps();
  }
  for (uint32_t i = 0; i < depth; i += 8) {
    __m256 values[kColumns];
    for (uint32_t j = 0; j < kColumns; ++j) values[j] = _mm256_loadu_ps(b + j * b_stride + i);
    for (int row = 0; row < kRows; ++row) {
      const __m256 left = _mm256_loadu_ps(a + static_cast<size_t>(row) * a_stride + i);
      for (uint32_t j = 0; j < kColumns; ++j) {
        sums[row][j] = _mm256_fmadd_ps(left, values[j], sums[row][j]);
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    float* out = c + static_cast<size_t>(row) * kSide;
    const __m128 sum = sum_lanes(sums[row]);
    _mm_storeu_ps(out, init ? sum : _mm_add_ps(_mm_loadu_ps(out), sum));
  }
}

WEFT_TWIN_AVX2 void rows_by_columns_avx2(const float* a, size_t a_stride, uint32_t rows,
                                         const float* b, size_t b_stride, uint32_t depth,
                                         uint32_t columns, float* c, bool init) {
  if (columns != kColumns) {
    return rows_by_columns(a, a_stride, rows, b, b_stride, depth, columns, c, init);
  }
  uint32_t row = 0;
  for (; row + 2 <= rows; row += 2) {
    tile_avx2<2>(a + row * a_stride, a_stride, b, b_stride, depth, c + size_t{row} * kSide, init);
  }
  if (row < rows) {
    tile_avx2<1>(a + row * a_stride, a_stride, b, b_stride, depth, c + size_t{row} * kSide, init);
  }
}

// One or two rows by four columns as they lie in L0B: not worth a copy as floats.
template <int kRows>
WEFT_TWIN_AVX2 inline void halves_tile_avx2(const Product& product, const Columns& columns) {
  __m256 sums[kRows][kColumns];
  for (auto& row : sums) {
    for (auto& sum : row) sum = _mm256_setzero_ps();
  }
  const half* b = columns.b;
  for (uint32_t i = 0; i < product.a_stride; i += kSide, b += columns.fractal_stride) {
    for (uint32_t part = 0; part < kSide; part += 8) {
      for (uint32_t j = 0; j < kColumns; ++j) {
        const auto* bits = reinterpret_cast<const __m128i*>(b + j * kSide + part);
        const __m256 value = _mm256_cvtph_ps(_mm_loadu_si128(bits));
        for (int row = 0; row < kRows; ++row) {
          const float* left = product.a + static_cast<size_t>(row) * product.a_stride + i + part;
          sums[row][j] = _mm256_fmadd_ps(_mm256_loadu_ps(left), value, sums[row][j]);
        }
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    float* out = columns.c + static_cast<size_t>(row) * kSide;
    const __m128 sum = sum_lanes(sums[row]);
    _mm_storeu_ps(out, product.init ? sum : _mm_add_ps(_mm_loadu_ps(out), sum));
  }
}

WEFT_TWIN_AVX2 void multiply_add_avx2(const Product& product) {
  const uint32_t depth = product.a_stride;
  std::vector<float>& floats = column_buffer(product);
  for (uint32_t first = 0; first < product.n; first += kColumns) {
    const Columns columns(product, first);
    if (columns.count == kColumns && product.k == depth && product.m <= 2) {
      product.m == 1 ? halves_tile_avx2<1>(product, columns)
                     : halves_tile_avx2<2>(product, columns);
      continue;
    }
    for (uint32_t column = 0; column < columns.count; ++column) {
      float* to = floats.data() + size_t{column} * depth;
      const half* from = columns.b + column * kSide;
      for (uint32_t i = 0; i < depth; i += kSide, from += columns.fractal_stride) {
        const auto* bits = reinterpret_cast<const __m128i*>(from);
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(bits)));
        _mm256_storeu_ps(to + i + 8, _mm256_cvtph_ps(_mm_loadu_si128(bits + 1)));
      }
      std::fill(to + product.k, to + depth, 0.0f);
    }
    rows_by_columns_avx2(product.a, depth, product.m, floats.data(), depth, depth, columns.count,
                         columns.c, product.init);
  }
}

#endif

struct Functions {
  decltype(&to_floats) floats = to_floats;
  decltype(&to_halves) halves = to_halves;
  void (*product)(const Product&) = multiply_add_plain;
};

Functions choose() {
  Functions functions;
#ifdef WEFT_TWIN_AVX2
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c")) {
    functions = {to_floats_avx2, to_halves_avx2, multiply_add_avx2};
  }
#endif
  return functions;
}

Functions functions = choose();

}  // namespace

void halves_to_floats(const half* from, float* to, size_t count) {
  functions.floats(from, to, count);
}
void floats_to_halves(const float* from, half* to, size_t count) {
  functions.halves(from, to, count);
}
void multiply_add(const Product& product) { functions.product(product); }
void use_plain_arithmetic(bool plain) { functions = plain ? Functions{} : choose(); }

float tree_sum(const float* values, uint32_t count) {
  float sums[128];
  if (count == 0) return 0;
  std::memcpy(sums, values, std::min(count, 128u) * sizeof(float));
  while (count > 1) {
    const uint32_t half_count = count / 2;
    for (uint32_t i = 0; i < half_count; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
    if (count % 2 != 0) sums[half_count] = sums[count - 1];
    count = (count + 1) / 2;
  }
  return sums[0];
}

}  // namespace weft::twin
