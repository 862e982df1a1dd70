#pragma once
// The arithmetic behind the instructions. Every function gives the same bits on every CPU: where
// AVX2 and F16C exist they are used, and nothing is computed differently for it.

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

// For tests: the plain loops even where the CPU has better instructions.
void use_plain_arithmetic(bool plain);

// Sum of a repeat's elements as the vector core adds them: neighbours, then neighbouring sums.
float tree_sum(const float* values, uint32_t count);

}  // namespace weft::twin
