#pragma once
// The arithmetic behind the instructions. Every function gives the same bits on every CPU: where
// AVX2 and F16C exist they are used, and nothing is computed differently for it.

#include <bit>
#include <cstddef>
#include <cstdint>

#include "half.h"

namespace weft::twin {

void halves_to_floats(const half* from, float* to, size_t count);
void floats_to_halves(const float* from, half* to, size_t count);  // to nearest, ties to even

// c[m][n] (+)= a[m][k] * b, all of one Mmad. `a` [m][a_stride] floats (values of halves; a_stride a
// multiple of 16, zero from k on); `b` as in L0B: fractal (i, j) of k and n at (i * n_fractals + j)
// * 256, element (i, j) of a fractal at j * 16 + i; `c` as in L0C: strips of 16 columns, each
// m_rows (m rounded up to 16) rows of 16. Per element the products, exact as floats, are added up
// in ascending k in eight sums, s[k % 8]; the result is
//   ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7)),
// added to c or its initial value. So a row depends on nothing but itself, whatever m and n are.
struct Product {
  const float* a;
  const half* b;
  float* c;
  uint32_t m, n, k;
  uint32_t a_stride;
  bool init;
};
void multiply_add(const Product& product);

// e^value within one unit in the last place, exactly 1 at 0. In a loop the compiler vectorises it.
inline float exponential(float value) {
  constexpr float kMagic = 12582912.0f;  // adding it rounds to an integer in the lowest bits
  const float x = value > 89.0f ? 89.0f : value < -104.0f ? -104.0f : value;
  const float shifted = x * 1.44269504f + kMagic;
  const float whole = shifted - kMagic;
  const float r = (x - whole * 0.693359375f) - whole * -2.12194440e-4f;  // ln 2 in two parts
  float q = 0.0013926191022619605f;
  q = q * r + 0.008363185450434685f;
  q = q * r + 0.041666556149721146f;
  q = q * r + 0.16666576266288757f;
  q = q * r + 0.5f;
  const float power = (q * (r * r) + r) + 1.0f;
  // 2^whole in two factors, since one may be beyond the normal numbers.
  const uint32_t n = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kMagic);
  const auto half_n = static_cast<uint32_t>(static_cast<int32_t>(n) >> 1);
  const float first = std::bit_cast<float>((half_n + 127u) << 23);
  const float second = std::bit_cast<float>((n - half_n + 127u) << 23);
  return power * first * second;
}

// For tests: the plain loops even where the CPU has better instructions.
void use_plain_arithmetic(bool plain);

// Sum of a repeat's elements as the vector core adds them: neighbours, then neighbouring sums.
float tree_sum(const float* values, uint32_t count);

}  // namespace weft::twin
