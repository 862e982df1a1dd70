#include "device/cpu/plan.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"

namespace weft {
namespace {

// Which rows of a layer are computed to its end.
enum class Kept : uint8_t { kAll, kOutputs };

// Compiles one list of operations.
class Compiler {
 public:
  Compiler(const PackedWeights& weights, const KernelTable& kernels, Kept kept = Kept::kAll)
      : weights_(weights), kernels_(kernels), kept_(kept) {
    for (size_t s = 0; s < kStreams; ++s) sources_[s].in = static_cast<Stream>(s);
  }

  std::vector<Step> compile(std::span<const Op> ops) {
    for (const Op& op : ops) add(op);
    return std::move(steps_);
  }

 private:
  // How a stream's rows come about: as they lie in `in`, or by an operation on those.
  struct Source {
    RowSource::Op op = RowSource::Op::kPlain;
    Stream in = Stream::kHidden;
    const float* norm = nullptr;
    bool stale = false;  // `in` has changed since
  };
  Source& source(Stream stream) { return sources_[static_cast<size_t>(stream)]; }

  void add(const Op& op) {
    switch (op.kind) {
      case OpKind::kRmsNorm:
        source(op.out) = {RowSource::Op::kRmsNorm, op.in, weights_.vector(op.weights[0]), false};
        break;
      case OpKind::kSwiGlu:
        source(op.out) = {RowSource::Op::kSwiGlu, op.in, nullptr, false};
        break;
      case OpKind::kLinear:
        if (kept_ == Kept::kOutputs && op.out == Stream::kQkv) {
          add_keys_and_values(op);
        } else {
          add_linear(op);
        }
        break;
      case OpKind::kHeadNorm: {
        RowStep& step = row_step();
        WEFT_CHECK(!step.rope && !step.store, "heads are normed before anything reads them");
        step.query_norm = weights_.vector(op.weights[0]);
        step.key_norm = weights_.vector(op.weights[1]);
        break;
      }
      case OpKind::kRope:
        WEFT_CHECK(!row_step().store, "keys are rotated before they are stored");
        row_step().rope = true;
        break;
      case OpKind::kStoreKv:
        row_step().store = true;
        break;
      case OpKind::kAttention:
        if (kept_ == Kept::kOutputs) keep_outputs();
        steps_.emplace_back(AttentionStep{});
        break;
      case OpKind::kExperts:
        add_experts(op);
        break;
    }
  }

  RowStep& row_step() {
    if (steps_.empty() || !std::holds_alternative<RowStep>(steps_.back())) {
      steps_.emplace_back(RowStep{});
    }
    return std::get<RowStep>(steps_.back());
  }

  void add_linear(const Op& op) {
    MultiplyStep step = reading(op.in);
    step.out = op.out;
    WEFT_CHECK(step.in != step.out, "a multiplication cannot write what it reads");
    step.add = op.add;
    for (size_t i = 0; i < op.weights.size() && op.weights[i] != WeightId::kNone; ++i) {
      add_product(step, op.weights[i], weights_.vector(op.biases[i]));
    }
    changed(op.out);
    steps_.emplace_back(step);
  }

  // The queries are put off until it is known which rows are kept.
  void add_keys_and_values(const Op& op) {
    MultiplyStep step = reading(op.in);
    step.out = op.out;
    queries_ = step;
    add_product(queries_, op.weights[0], weights_.vector(op.biases[0]));
    step.outputs = queries_.outputs;  // in front of the keys
    for (size_t i = 1; i < 3; ++i) {
      add_product(step, op.weights[i], weights_.vector(op.biases[i]));
    }
    changed(op.out);
    steps_.emplace_back(step);
  }

  void keep_outputs() {
    RowStep& keys = row_step();
    WEFT_CHECK(queries_.product_count == 1 && keys.store,
               "attention follows the storing of keys and values");
    RowStep rows = keys;
    keys.queries = false;
    rows.keys = false;
    rows.store = false;
    steps_.emplace_back(KeepOutputsStep{});
    steps_.emplace_back(queries_);
    steps_.emplace_back(rows);
  }

  void add_experts(const Op& op) {
    ExpertsStep step;
    step.gate_up = reading(op.in);
    for (size_t i = 0; i < 2; ++i) add_product(step.gate_up, op.weights[i], nullptr);
    step.down.source = RowSource::Op::kSwiGlu;
    add_product(step.down, op.weights[2], nullptr);
    step.down.out = op.out;
    step.down.add = op.add;
    WEFT_CHECK(op.out == Stream::kHidden && op.add, "experts add to the residual stream");
    changed(op.out);
    steps_.emplace_back(step);
  }

  // A multiplication of the rows of `stream`, without its weights.
  MultiplyStep reading(Stream stream) {
    const Source& from = source(stream);
    WEFT_CHECK(!from.stale, "an operation reads a norm of what has changed since");
    WEFT_CHECK(from.in != Stream::kNormed && from.in != Stream::kFfn,
               "an operation reads a stream before it is made");
    MultiplyStep step;
    step.source = from.op;
    step.in = from.in;
    step.norm = from.norm;
    return step;
  }

  // Its outputs follow those of the products before it.
  void add_product(MultiplyStep& step, WeightId weight, const float* bias) {
    const PackedMatrix matrix = weights_.matrix(weight);
    MultiplyStep::Product& product = step.products[static_cast<size_t>(step.product_count++)];
    step.inputs = matrix.inputs;
    product.matrix = matrix;
    product.bias = bias;
    product.column = step.outputs;
    product.panels = (matrix.outputs + kernels_.panel_outputs - 1) / kernels_.panel_outputs;
    product.format = format_index(step, kernels_.activation_format(matrix.type));
    product.expert_bytes = weights_.expert_bytes(weight);
    step.outputs += matrix.outputs;
    step.panels += product.panels;
  }

  void changed(Stream stream) {
    for (Source& s : sources_) s.stale |= s.op != RowSource::Op::kPlain && s.in == stream;
  }

  static int format_index(MultiplyStep& step, ActivationFormat format) {
    int i = 0;
    while (i < step.format_count && step.formats[static_cast<size_t>(i)] != format) ++i;
    if (i == step.format_count) step.formats[static_cast<size_t>(step.format_count++)] = format;
    return i;
  }

  const PackedWeights& weights_;
  const KernelTable& kernels_;
  const Kept kept_;
  MultiplyStep queries_;  // put off
  std::array<Source, kStreams> sources_;
  std::vector<Step> steps_;
};

}  // namespace

Plan make_plan(const Model& model, const PackedWeights& weights, const KernelTable& kernels) {
  Plan plan;
  for (const std::vector<Op>& layer : model.layers) {
    plan.layers.push_back(Compiler(weights, kernels).compile(layer));
  }
  plan.last_layer_outputs = Compiler(weights, kernels, Kept::kOutputs).compile(model.layers.back());
  Op norm{.kind = OpKind::kRmsNorm, .in = Stream::kHidden, .out = Stream::kNormed};
  norm.weights[0] = model.final_norm;
  // Logits are no stream; whoever runs this step says where they go.
  Op head{.kind = OpKind::kLinear, .in = Stream::kNormed, .out = Stream::kNormed};
  head.weights[0] = model.head;
  plan.head = std::get<MultiplyStep>(Compiler(weights, kernels).compile(std::array{norm, head})[0]);
  return plan;
}

void MultiplyStep::pack(const KernelTable& kernels, const RowSource& from, int64_t rows,
                        int64_t part, int64_t parts, const Activations& packed) const {
  for (size_t f = 0; f < static_cast<size_t>(format_count); ++f) {
    const int64_t pieces = kernels.activation_pieces(formats[f], rows);
    const int64_t begin = pieces * part / parts;
    const int64_t end = pieces * (part + 1) / parts;
    if (begin == end) continue;
    kernels.pack_activations(formats[f], from, rows, inputs, begin, end, packed[f]);
  }
}

void MultiplyStep::multiply(const KernelTable& kernels, int64_t expert, const Activations& packed,
                            int64_t rows, int64_t panel_begin, int64_t panel_end,
                            const MatmulOutput& first) const {
  int64_t first_panel = 0;
  for (size_t i = 0; i < static_cast<size_t>(product_count); ++i) {
    const Product& product = products[i];
    const int64_t from = std::max(panel_begin - first_panel, int64_t{0});
    const int64_t to = std::min(panel_end - first_panel, product.panels);
    first_panel += product.panels;
    if (from >= to) continue;
    PackedMatrix matrix = product.matrix;
    matrix.data += expert * product.expert_bytes;
    MatmulOutput target = first;
    target.out += product.column;
    target.bias = product.bias;
    kernels.matmul(matrix, packed[static_cast<size_t>(product.format)], rows, from, to, target);
  }
}

bool MultiplyStep::packs_in_one_piece(const KernelTable& kernels, int64_t rows) const {
  return std::all_of(formats.begin(), formats.begin() + format_count, [&](ActivationFormat format) {
    return kernels.activation_pieces(format, rows) == 1;
  });
}

template <class F>
void Plan::each_multiplication(const F& f) const {
  f(head);
  const auto each = [&f](const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      if (const auto* multiply = std::get_if<MultiplyStep>(&step)) f(*multiply);
    }
  };
  for (const std::vector<Step>& layer : layers) each(layer);
  each(last_layer_outputs);
}

int64_t Plan::activation_bytes(const KernelTable& kernels, int index, int64_t rows) const {
  int64_t bytes = 0;
  each_multiplication([&](const MultiplyStep& step) {
    if (index >= step.format_count) return;
    const ActivationFormat format = step.formats[static_cast<size_t>(index)];
    bytes = std::max(bytes, kernels.activation_bytes(format, rows, step.inputs));
  });
  return bytes;
}

int64_t Plan::one_piece_rows(const KernelTable& kernels, int64_t limit) const {
  int64_t most = 0;
  each_multiplication([&](const MultiplyStep& step) {
    while (most < limit && step.packs_in_one_piece(kernels, most + 1)) ++most;
  });
  return most;
}

}  // namespace weft
