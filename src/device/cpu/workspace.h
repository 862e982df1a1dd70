#pragma once
// Workspace: the memory that the steps of one quantum use, taken when it is made.

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "device/cpu/plan.h"
#include "device/executor.h"
#include "device/sampler.h"
#include "kernels/kernel_table.h"
#include "model/model.h"
#include "tensor/buffer.h"

namespace weft {

// Rows of logits that exist at once; a quantum with more outputs takes them in turns.
inline constexpr int kLogitRows = 64;

struct Workspace {
  static Result<Workspace> create(const Model& model, const Plan& plan, const KernelTable& kernels,
                                  const ExecutorLimits& limits, int threads);

  // A stream's rows [limits.rows, width]; null for those that the plan never stores.
  float* stream(Stream s) { return streams[static_cast<size_t>(s)].as<float>(); }

  std::array<Buffer, kStreams> streams;  // by Stream; kHidden: of all passes of the quantum
  Buffer output_hidden;                  // [limits.rows, hidden]: the rows that reach the head
  // Packed rows: those that the workers pack together, and those so few that each worker packs them
  // for itself.
  ActivationBuffers activations;
  std::vector<ActivationBuffers> own_activations;  // by worker
  Buffer logits;                                   // [logit_rows, vocab]
  int logit_rows = 0;
  std::vector<Sample> samples;                  // [limits.rows]
  std::vector<SamplerScratch> sampler_scratch;  // by worker
};

}  // namespace weft
