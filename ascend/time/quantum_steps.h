#pragma once
// QuantumSteps: a quantum as the operators that the layer program runs for it, with what each
// takes.

#include <vector>

#include "device/executor.h"
#include "time/operator_times.h"

namespace weft::timing {

// An operator, or a part of a quantum that waits for none.
struct Step {
  const char* name = "";
  int layer = 0;
  OperatorTime time;
  bool after_senders = false;  // begins when the passes that this one follows have sent the layer
  bool sends = false;          // the layer, at its end
};

// Costs that are no operator's: of a quantum on the device, and of each of its layers.
struct FixedCosts {
  double quantum = 0;
  double layer = 0;
};

// Rows of a quantum, as its time depends on them.
struct QuantumRows {
  struct Run {
    int first = 0;
    int rows = 0;
  };
  std::vector<Run> prompts;
  std::vector<double> contexts;         // of single rows: positions that each looks at
  std::vector<double> output_contexts;  // the same of rows that reach the head, where it ends there

  int rows() const;
  int outputs() const { return static_cast<int>(output_contexts.size()); }
};
QuantumRows rows_of(const Quantum& quantum);

// Layers [begin, end) of a model.
struct LayerRange {
  int begin = 0;
  int end = 0;
  int all = 0;  // that the model has
};

std::vector<Step> steps_of(OperatorTimes& times, const QuantumRows& rows, const LayerRange& layers,
                           const FixedCosts& fixed);

}  // namespace weft::timing
