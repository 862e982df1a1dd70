#pragma once
// Plan: a model's operations compiled into steps that a thread pool runs.
//
// Norms and SwiGLU vanish: they become what the multiplication after them does to each row as it
// packs its activations. The weights of one multiplication share their panels in one parallel loop,
// and the operations on a row's own heads and its place in the cache are one loop over rows.

#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "device/cpu/packed_weights.h"
#include "kernels/kernel_table.h"
#include "model/model.h"
#include "tensor/buffer.h"

namespace weft {

// Packed rows by index of their format in a step.
using ActivationBuffers = std::array<Buffer, 3>;
using Activations = std::array<std::byte*, 3>;
inline Activations starts(ActivationBuffers& buffers) {
  return {buffers[0].data(), buffers[1].data(), buffers[2].data()};
}

struct MultiplyStep {
  struct Product {
    PackedMatrix matrix;
    const float* bias = nullptr;
    int64_t column = 0;  // of its first output in the output row
    int64_t panels = 0;
    int format = 0;            // index in `formats`
    int64_t expert_bytes = 0;  // of experts: `matrix` is the first one's, so far apart they follow
  };

  RowSource::Op source = RowSource::Op::kPlain;
  Stream in = Stream::kHidden;
  const float* norm = nullptr;
  int64_t inputs = 0;
  int64_t outputs = 0;  // of all products
  std::array<Product, 3> products;
  int product_count = 0;
  std::array<ActivationFormat, 3> formats{};  // each once, however many products read it
  int format_count = 0;
  int64_t panels = 0;  // of all products
  Stream out = Stream::kHidden;
  bool add = false;

  // Packs the rows for every format: of their pieces the part-th of `parts` equal shares.
  void pack(const KernelTable& kernels, const RowSource& from, int64_t rows, int64_t part,
            int64_t parts, const Activations& packed) const;
  // Panels [panel_begin, panel_end), numbered through all products; `first` says where the first
  // output of each row goes. `expert` is 0 where there are none.
  void multiply(const KernelTable& kernels, int64_t expert, const Activations& packed, int64_t rows,
                int64_t panel_begin, int64_t panel_end, const MatmulOutput& first) const;
  // So few rows that packing their activations cannot be shared out.
  bool packs_in_one_piece(const KernelTable& kernels, int64_t rows) const;
};

struct RowStep {
  bool queries = true;  // which heads it is about
  bool keys = true;
  const float* query_norm = nullptr;
  const float* key_norm = nullptr;
  bool rope = false;
  bool store = false;
};

struct AttentionStep {};

// From here on only the rows that reach the head are left.
struct KeepOutputsStep {};

// What each row's experts give, added to kHidden. Both multiplications are those of one expert,
// whose number is added when they run (device/cpu/experts.h).
struct ExpertsStep {
  MultiplyStep gate_up;
  MultiplyStep down;
};

using Step = std::variant<MultiplyStep, RowStep, KeepOutputsStep, AttentionStep, ExpertsStep>;

struct Plan {
  std::vector<std::vector<Step>> layers;
  // The last layer where not all rows reach the head: the others have their keys and values stored
  // and nothing else, not even queries.
  std::vector<Step> last_layer_outputs;
  MultiplyStep head;  // of normed hidden rows; its output are the logits

  // Bytes for the activations of the format at `index` of any multiplication but experts', for
  // `rows` rows.
  int64_t activation_bytes(const KernelTable& kernels, int index, int64_t rows) const;
  // The most rows, up to `limit`, that any multiplication but experts' packs in one piece.
  int64_t one_piece_rows(const KernelTable& kernels, int64_t limit) const;

 private:
  template <class F>
  void each_multiplication(const F& f) const;
};

Plan make_plan(const Model& model, const PackedWeights& weights, const KernelTable& kernels);

}  // namespace weft
