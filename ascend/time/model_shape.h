#pragma once
// ModelShape: all that the time of a model depends on.

#include <cstdint>
#include <string>

#include "base/result.h"

namespace weft::timing {

struct ModelShape {
  std::string name;
  int layers = 0;
  int hidden = 0;
  int ffn = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int vocab = 0;
  bool qkv_bias = false;
  bool qk_norm = false;
  bool int8 = false;  // weights, with a half scale for each 32 inputs; not the embedding's

  int queries() const { return heads * head_dim; }
  int keys() const { return 2 * kv_heads * head_dim; }  // and values
  int qkv() const { return queries() + keys(); }
  // Multiply-adds of a row in a layer's matrices, and so their weights.
  double layer_weights() const {
    return static_cast<double>(hidden) * (qkv() + queries() + 3.0 * ffn);
  }
  double head_weights() const { return static_cast<double>(hidden) * vocab; }
  double weight_bytes() const { return int8 ? 1 + 2.0 / 32 : 2; }  // of one
  // Bytes of a position's keys and values in a layer, as halves.
  double key_bytes() const { return 2.0 * keys(); }
};

// An error names what of it the Ascend kernels do not have.
Status check_shape(const ModelShape& shape);

}  // namespace weft::timing
