#pragma once
// The experts of one layer: each one's rows are gathered, multiplied and added up again.
//
// The (row, expert) pairs are sorted by expert, so that an expert's weights are read once for all
// of its rows. One loop runs over the panels of all experts that have rows, and one more adds up
// what each row's experts gave, in the order in which the router chose them: neither the other rows
// nor the number of threads changes a bit.

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/cpu/plan.h"
#include "device/cpu/routing.h"
#include "device/cpu/thread_pool.h"
#include "device/executor.h"
#include "kernels/kernel_table.h"
#include "model/model.h"
#include "tensor/buffer.h"

namespace weft {

class Experts {
 public:
  // Takes all memory for batches within the limits; none for a plan without experts.
  static Result<Experts> create(const ModelConfig& config, const Plan& plan,
                                const KernelTable& kernels, const ExecutorLimits& limits,
                                int threads);

  struct Operands {
    const float* logits = nullptr;  // of the router, [rows, experts]
    RowSource in;                   // [rows, hidden]
    float* out = nullptr;           // [rows, hidden], added to
    int64_t rows = 0;
  };
  // Called by every worker of a job.
  void run(ThreadPool::Worker& worker, const ExpertsStep& step, const Operands& operands);

 private:
  // What each worker has for itself.
  struct Own {
    std::vector<ExpertChoice> choices;
    ExpertRows sorted;
    ActivationBuffers activations;
  };

  std::span<const ExpertChoice> route(ThreadPool::Worker& worker, const Operands& operands);
  void multiply(ThreadPool::Worker& worker, const MultiplyStep& step, const RowSource& pairs,
                float* out);
  void pack_together(ThreadPool::Worker& worker, const MultiplyStep& step, const RowSource& pairs);
  Activations shared_activations(const MultiplyStep& step, const ExpertRows::Group& group);
  void add_up(ThreadPool::Worker& worker, std::span<const ExpertChoice> choices,
              const Operands& operands);

  const KernelTable* kernels_ = nullptr;
  int experts_ = 0;
  int used_ = 0;
  int hidden_ = 0;
  std::vector<ExpertChoice> choices_;  // [limits.rows, used]
  std::vector<Own> own_;               // by worker
  // By pair, in the order of the experts.
  ActivationBuffers activations_;
  Buffer gate_up_;  // [limits.rows * used, 2 * expert_ffn]
  Buffer down_;     // [limits.rows * used, hidden]
};

}  // namespace weft
