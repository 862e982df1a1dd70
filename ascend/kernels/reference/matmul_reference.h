#pragma once
// The scalar reference of the matrix multiplications, and how far a kernel may be from it.

#include <cmath>
#include <cstdint>
#include <vector>

namespace weft_ascend::reference {

// out = in x weights^T in double, and for each element the sum of its products' magnitudes.
struct Products {
  std::vector<double> sums;        // [rows, outputs]
  std::vector<double> magnitudes;  // [rows, outputs]
};

// in [rows, inputs], weights [outputs, inputs]: values that half precision holds.
inline Products Multiply(const std::vector<float>& in, const std::vector<float>& weights,
                         int64_t rows, int64_t inputs, int64_t outputs) {
  Products products;
  products.sums.resize(static_cast<size_t>(rows * outputs));
  products.magnitudes.resize(products.sums.size());
  for (int64_t row = 0; row < rows; ++row) {
    const float* a = in.data() + row * inputs;
    for (int64_t output = 0; output < outputs; ++output) {
      const float* b = weights.data() + output * inputs;
      double sum = 0;
      double magnitude = 0;
      for (int64_t i = 0; i < inputs; ++i) {
        const double product = static_cast<double>(a[i]) * b[i];
        sum += product;
        magnitude += std::fabs(product);
      }
      products.sums[static_cast<size_t>(row * outputs + output)] = sum;
      products.magnitudes[static_cast<size_t>(row * outputs + output)] = magnitude;
    }
  }
  return products;
}

// The product of two halves has at most 22 significant bits: a float holds it. So only additions
// round, one for each product at the most, each by at most u = 2^-24 of its result. In whatever
// order n numbers are added, the error is at most n u / (1 - n u) times the sum of their
// magnitudes. That is one addition more than there are, which leaves room for the reference's own
// error of n 2^-53.
inline double FloatBound(int64_t inputs, double magnitude) {
  const double nu = static_cast<double>(inputs) * 0x1p-24;
  return nu / (1 - nu) * magnitude;
}

// Rounded to half once more: by half a unit in the last of 11 places, or of the least subnormal.
inline double HalfBound(int64_t inputs, double sum, double magnitude) {
  const double bound = FloatBound(inputs, magnitude);
  return bound + 0x1p-11 * (std::fabs(sum) + bound) + 0x1p-25;
}

}  // namespace weft_ascend::reference
