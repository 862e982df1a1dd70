#include "time/quantum_steps.h"

#include <numeric>

namespace weft::timing {
namespace {

class Builder {
 public:
  Builder(OperatorTimes& times, const QuantumRows& rows, const FixedCosts& fixed)
      : times_(times), rows_(rows), fixed_(fixed) {}

  std::vector<Step> Build(const LayerRange& layers) {
    const auto& [begin, end, all] = layers;
    const int rows = rows_.rows();
    if (begin == 0) {
      Add("embed", begin, times_.Embed(rows));
    } else {
      Add("take up", begin, times_.CopyRows(rows));
    }
    steps_.back().time.seconds += fixed_.quantum;
    for (int layer = begin; layer < end; ++layer) {
      const bool keys_only = layer + 1 == all && rows_.outputs() < rows;
      keys_only ? LastLayer(layer) : Layer(layer, layer > begin, rows);
    }
    if (end < all) {
      Add("leave", end, times_.Norm(rows, true) + times_.CopyRows(rows));
    } else if (rows_.outputs() > 0) {
      Add("norm", end, times_.Norm(rows_.outputs(), true));
      Add("head", end, times_.Multiply(Matrix::kHead, rows_.outputs()));
      Add("sample", end, times_.Sample(rows_.outputs()));
    }
    return std::move(steps_);
  }

 private:
  void Add(const char* name, int layer, const OperatorTime& time) {
    steps_.push_back({name, layer, time, false, false});
  }

  void Layer(int layer, bool adds, int rows) {
    Add("norm", layer, times_.Norm(rows, adds));
    steps_.back().time.seconds += fixed_.layer;
    Add("qkv", layer, times_.Multiply(Matrix::kQkv, rows));
    Add("rotate, store", layer, times_.Store(rows, true, true));
    steps_.back().after_senders = true;
    for (const QuantumRows::Run& run : rows_.prompts)
      Add("attention of prompts", layer, times_.Prefill(run.first, run.rows));
    Single(layer, rows_.contexts);
    steps_.back().sends = true;
    Rest(layer, rows);
  }

  // Rows that do not reach the head only store their keys and values.
  void LastLayer(int layer) {
    const int rows = rows_.rows();
    const int outputs = rows_.outputs();
    Add("norm", layer, times_.Norm(rows, true));
    steps_.back().time.seconds += fixed_.layer;
    Add("qkv", layer, times_.Multiply(Matrix::kKeys, rows));
    Add("rotate, store", layer, times_.Store(rows, false, true));
    steps_.back().after_senders = true;
    if (outputs > 0) {
      Add("norm", layer, times_.CopyRows(outputs) + times_.Norm(outputs, false));
      Add("qkv", layer, times_.Multiply(Matrix::kQueries, outputs));
      Add("rotate, store", layer, times_.Store(outputs, true, false));
      Single(layer, rows_.output_contexts);
    }
    steps_.back().sends = true;
    if (outputs > 0) Rest(layer, outputs);
  }

  void Single(int layer, const std::vector<double>& contexts) {
    if (contexts.empty()) return;
    const double sum = std::accumulate(contexts.begin(), contexts.end(), 0.0);
    const auto rows = static_cast<int>(contexts.size());
    Add("attention of streams", layer, times_.Decode(rows, sum / rows));
  }

  void Rest(int layer, int rows) {
    Add("attention out", layer, times_.Multiply(Matrix::kOut, rows));
    Add("norm", layer, times_.Norm(rows, true));
    Add("gate, up", layer, times_.Multiply(Matrix::kGateUp, rows));
    Add("swiglu", layer, times_.SwiGlu(rows));
    Add("down", layer, times_.Multiply(Matrix::kDown, rows));
  }

  OperatorTimes& times_;
  const QuantumRows& rows_;
  const FixedCosts& fixed_;
  std::vector<Step> steps_;
};

}  // namespace

int QuantumRows::rows() const {
  auto rows = static_cast<int>(contexts.size());
  for (const Run& run : prompts) rows += run.rows;
  return rows;
}

QuantumRows rows_of(const Quantum& quantum) {
  QuantumRows rows;
  for (const Pass* pass : quantum.passes) {
    for (const Segment& segment : pass->segments) {
      const double end = segment.first_position + segment.rows;
      if (segment.rows == 1) {
        rows.contexts.push_back(end);
      } else {
        rows.prompts.push_back({segment.first_position, segment.rows});
      }
      if (segment.outputs == Outputs::kNone) continue;
      const int first = segment.outputs == Outputs::kAll ? 0 : segment.rows - 1;
      for (int row = first; row < segment.rows; ++row)
        rows.output_contexts.push_back(segment.first_position + row + 1);
    }
  }
  return rows;
}

std::vector<Step> steps_of(OperatorTimes& times, const QuantumRows& rows, const LayerRange& layers,
                           const FixedCosts& fixed) {
  return Builder(times, rows, fixed).Build(layers);
}

}  // namespace weft::timing
