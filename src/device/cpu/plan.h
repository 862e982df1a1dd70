#pragma once
// Plan: a model's operations compiled into steps that a thread pool runs.
//
// Norms and SwiGLU vanish: they become what the multiplication after them does to each row as it
// packs its activations. The weights of one multiplication share their panels in one parallel loop,
// and the operations on a row's own heads and its place in the cache are one loop over rows.

#include <array>
#include <cstdint>
#include <variant>
#include <vector>

#include "device/cpu/packed_weights.h"
#include "kernels/kernel_table.h"
#include "model/model.h"

namespace weft {

struct MultiplyStep {
  struct Product {
    PackedMatrix matrix;
    const float* bias = nullptr;
    int64_t column = 0;  // of its first output in the output row
    int64_t panels = 0;
    int format = 0;  // index in `formats`
  };

  RowSource::Op source = RowSource::Op::kPlain;
  Stream in = Stream::kHidden;
  const float* norm = nullptr;
  int64_t inputs = 0;
  std::array<Product, 3> products;
  int product_count = 0;
  std::array<ActivationFormat, 3> formats{};  // each once, however many products read it
  int format_count = 0;
  int64_t panels = 0;  // of all products
  Stream out = Stream::kHidden;
  bool add = false;

  // So few rows that packing their activations cannot be shared out.
  bool packs_in_one_piece(const KernelTable& kernels, int64_t rows) const;
};

struct RowStep {
  const float* query_norm = nullptr;
  const float* key_norm = nullptr;
  bool rope = false;
  bool store = false;
};

struct AttentionStep {};

using Step = std::variant<MultiplyStep, RowStep, AttentionStep>;

struct Plan {
  std::vector<std::vector<Step>> layers;
  MultiplyStep head;  // of normed hidden rows; its output are the logits

  // Bytes for the activations of the format at `index` of any multiplication, for `rows` rows.
  int64_t activation_bytes(const KernelTable& kernels, int index, int64_t rows) const;
  // The most rows, up to `limit`, that any multiplication packs in one piece.
  int64_t one_piece_rows(const KernelTable& kernels, int64_t limit) const;

 private:
  template <class F>
  void each_multiplication(const F& f) const;
};

Plan make_plan(const Model& model, const PackedWeights& weights, const KernelTable& kernels);

}  // namespace weft
