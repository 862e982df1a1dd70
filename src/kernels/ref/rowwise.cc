#include <cmath>

#include "kernels/kernel_table.h"

namespace weft::ref {
namespace {

void head_norm(float* x, int heads, int head_dim, const float* weight, float eps) {
  for (int head = 0; head < heads; ++head, x += head_dim) {
    double squares = 0;
    for (int i = 0; i < head_dim; ++i) squares += static_cast<double>(x[i]) * x[i];
    const auto scale = static_cast<float>(1 / std::sqrt(squares / head_dim + eps));
    for (int i = 0; i < head_dim; ++i) x[i] = x[i] * scale * weight[i];
  }
}

void rope(float* x, int heads, int head_dim, int position, const RopeTable& table) {
  const float* cos = table.cos + int64_t{position} * table.pairs;
  const float* sin = table.sin + int64_t{position} * table.pairs;
  for (int head = 0; head < heads; ++head, x += head_dim) {
    for (int i = 0; i < table.pairs; ++i) {
      float& a = x[table.interleaved ? 2 * i : i];
      float& b = x[table.interleaved ? 2 * i + 1 : i + table.pairs];
      const float rotated_a = a * cos[i] - b * sin[i];
      const float rotated_b = a * sin[i] + b * cos[i];
      a = rotated_a;
      b = rotated_b;
    }
  }
}

}  // namespace

void fill_rowwise(KernelTable& table) {
  table.head_norm = head_norm;
  table.rope = rope;
}

}  // namespace weft::ref
