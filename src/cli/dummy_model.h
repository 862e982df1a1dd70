#pragma once
// A GGUF file of a known shape with random weights and a byte-level BPE vocabulary of the shape's
// size.

#include <string>
#include <vector>

#include "checkpoint/gguf_writer.h"
#include "cli/dummy_shapes.h"

namespace weft {

struct DummyModel {
  GgufWriter writer;
  std::vector<std::string>
      notes;  // where a weight has another type than asked for, and why: for the user
};

// Weight types follow llama.cpp's rules for the file type (in q4_0 and q4_k_m the head is Q6_K, in
// q4_k_m half of the value and down projections too). Rows that are not a multiple of 256 are Q5_0
// instead of Q4_K and Q8_0 instead of Q6_K.
DummyModel make_dummy_model(const DummySpec& spec);

}  // namespace weft
