#pragma once
// For tests: random weights in a shape that loads in milliseconds.

#include "cli/load_model.h"

namespace weft {

inline LoadOptions small_model() {
  LoadOptions load;
  load.dummy.emplace();
  DummyShape& shape = load.dummy->shape;
  shape = *find_dummy_shape("smollm2-135m");
  shape.layers = 2;
  shape.hidden = 64;
  shape.ffn = 128;
  shape.heads = 2;
  shape.kv_heads = 1;
  shape.head_dim = 32;
  shape.vocab = 1200;
  shape.context = 512;
  load.threads = 1;
  load.kv_type = "f16";
  load.max_sequences = 1;
  return load;
}

}  // namespace weft
