#include <cmath>

#include "kernels/kernel_table.h"

namespace weft::ref {
namespace {

float max_value(const float* x, int64_t n) {
  float max = x[0];
  for (int64_t i = 1; i < n; ++i) {
    if (std::isnan(max)) return max;
    if (!(x[i] <= max)) max = x[i];
  }
  return max;
}

float sum_exp(const float* x, int64_t n, float max, float inv_temperature) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += std::exp((static_cast<double>(x[i]) - max) * inv_temperature);
  }
  return static_cast<float>(sum);
}

}  // namespace

void fill_logits(KernelTable& table) {
  table.max_value = max_value;
  table.sum_exp = sum_exp;
}

}  // namespace weft::ref
