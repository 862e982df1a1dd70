#pragma once
// A whole quantum on the clock: the layer program itself, as the card would run it, instead of its
// operators one by one. What the composition of operators is checked against, and where the costs
// between operators come from.

#include <array>

#include "time/model_shape.h"
#include "time/operator_bench.h"
#include "time/quantum_steps.h"

namespace weft::timing {

struct FullQuantum {
  int first = 0;    // positions of the sequence before
  int rows = 0;     // of a prompt, or 0
  int streams = 0;  // single rows
  int context = 0;  // positions that each of those looks at
};

// All layers of the shape, on so many cores of the bench's chip; with head and sampler if there are
// streams. A prompt's rows do not reach the head.
Recording record_quantum(OperatorBench& bench, const ModelShape& shape, int cores,
                         const FullQuantum& quantum);
// Two groups at once, each with its quantum: the first blocks of the launch and the others.
Recording record_groups(OperatorBench& bench, const ModelShape& shape,
                        const std::array<int, 2>& cores, const std::array<FullQuantum, 2>& quanta);
// The same as rows for steps_of.
QuantumRows rows_of(const FullQuantum& quantum);

// Of the team of `times`: what steps of one row through two and through three layers take beyond
// their operators.
FixedCosts measure_fixed_costs(OperatorTimes& times);

}  // namespace weft::timing
