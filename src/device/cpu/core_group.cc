#include "device/cpu/core_group.h"

#include <chrono>

namespace weft {

void CoreGroup::start(const Quantum& quantum) {
  runner_.prepare(quantum, cores());
  started_ = std::chrono::steady_clock::now();
  before_ = pool_->time(started_);
  running_ = true;
  pool_->start(runner_);
}

void CoreGroup::finish(Completion& completion) {
  pool_->join();
  running_ = false;
  const Quantum& quantum = runner_.quantum();
  for (const Pass* pass : quantum.passes) {
    if (runner_.ends_at_head()) {
      shared_.passes.drop(pass->id);
    } else {
      shared_.passes.leave(*pass, quantum.layer_end);
    }
  }
  const ThreadPool::Time time = pool_->time(pool_->end());
  completion.quantum = quantum.id;
  completion.start = started_;
  completion.end = pool_->end();
  completion.busy_core_seconds = seconds(time.operators - before_.operators);
  completion.barrier_core_seconds = seconds(time.barriers - before_.barriers);
  completion.status = {};
  collect_outputs(completion);
}

void CoreGroup::collect_outputs(Completion& completion) {
  const auto outputs = runner_.outputs();
  completion.outputs.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Batch::Output& output = outputs[i];
    const Sample& sample = runner_.sample(i);
    OutputRow& row = completion.outputs[i];
    row.pass = runner_.quantum().passes[static_cast<size_t>(output.pass)]->id;
    row.segment = output.segment;
    row.row = output.segment_row;
    row.token = sample.token;
    row.finite = sample.finite;
    row.logprob = sample.logprob;
    row.log_sum_exp = sample.log_sum_exp;
    row.top.assign(sample.top.begin(), sample.top.begin() + sample.top_count);
    if (output.target == kSample && sample.finite) {
      shared_.slots[static_cast<size_t>(output.slot)].accept(sample.token);
    }
  }
}

}  // namespace weft
