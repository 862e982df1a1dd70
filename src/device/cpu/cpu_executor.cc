#include "device/cpu/cpu_executor.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/cpu.h"
#include "base/log.h"
#include "device/cpu/packed_weights.h"
#include "device/cpu/quantum_runner.h"
#include "device/cpu/thread_pool.h"
#include "device/sampler.h"

namespace weft {
namespace {

class CpuExecutor final : public Executor {
 public:
  static Result<std::unique_ptr<Executor>> create(const Model& model, const Checkpoint& checkpoint,
                                                  const CpuOptions& options,
                                                  const std::function<void(double)>& progress);
  ~CpuExecutor() override {
    if (running_) pool_->join();
  }
  CpuExecutor(const CpuExecutor&) = delete;
  CpuExecutor& operator=(const CpuExecutor&) = delete;

  const ExecutorLimits& limits() const override { return options_.limits; }
  int layers() const override { return model_.config.layers; }
  int vocab() const override { return model_.config.vocab; }
  int cores(Group group) const override { return group == Group::kAll ? pool_->threads() : 0; }
  std::string description() const override {
    return fmt::format("cpu {}, {} thread{}, kv {}", kernels_.name, pool_->threads(),
                       pool_->threads() == 1 ? "" : "s", kv_type_name(options_.kv_type));
  }

  void open_slot(SlotId slot, const SlotInit& init) override;
  void close_slot(SlotId slot) override;
  void start(Group group, const Quantum& quantum) override;
  bool wait(TimePoint deadline, Completion& completion) override;
  void drop_pass(PassId pass) override;
  void drop_rows(PassId pass, int64_t first, int64_t count) override;
  TimePoint last_layer_end() const override { return runner_->last_layer_end(); }

 private:
  struct OpenPass {
    int next_layer = 0;
    int64_t rows = 0;
  };

  CpuExecutor(const Model& model, CpuOptions options)
      : model_(model), options_(std::move(options)), kernels_(*options_.kernels) {}

  void check_passes(const Quantum& q) const;
  Duration busy() const;
  void collect_outputs(Completion& completion);

  const Model& model_;
  const CpuOptions options_;
  const KernelTable& kernels_;
  std::unique_ptr<ThreadPool> pool_;
  std::vector<int> cpus_;  // to pin to; empty: not at all
  bool pinned_ = false;

  std::optional<QuantumRunner> runner_;
  std::vector<SamplerState> slots_;
  std::vector<OpenPass> passes_;

  bool running_ = false;
  TimePoint started_{};
  Duration busy_before_{};
};

// Holds the limits to a range in which no size of a buffer can overflow.
Status check_limits(const ExecutorLimits& limits, double bytes_per_block) {
  struct Limit {
    const char* name;
    int value;
    int max;
  };
  const Limit all[] = {
      {"slots", limits.slots, 1 << 16},
      {"passes", limits.passes, 1 << 16},
      {"rows", limits.rows, 1 << 24},
      {"output rows", limits.output_rows, 1 << 24},
      {"context positions", limits.context, 1 << 24},
      {"KV blocks", limits.blocks, INT32_MAX},
  };
  for (const Limit& limit : all) {
    if (limit.value < 1 || limit.value > limit.max) {
      return Error{ErrorKind::kInvalidArgument, fmt::format("{} {}: it has to be from 1 to {}",
                                                            limit.value, limit.name, limit.max)};
    }
  }
  if (bytes_per_block * limits.blocks > 0x1p46) {
    return Error{ErrorKind::kExhausted,
                 fmt::format("{} KV blocks of {:.0f} bytes are more than a process can address",
                             limits.blocks, bytes_per_block)};
  }
  return {};
}

Result<std::unique_ptr<Executor>> CpuExecutor::create(const Model& model,
                                                      const Checkpoint& checkpoint,
                                                      const CpuOptions& options,
                                                      const std::function<void(double)>& progress) {
  const ExecutorLimits& limits = options.limits;
  WEFT_CHECK(options.kernels != nullptr);
  WEFT_RETURN_IF_ERROR(check_limits(
      limits, static_cast<double>(kv_block_bytes(model, *options.kernels, options.kv_type))));
  std::unique_ptr<CpuExecutor> executor(new CpuExecutor(model, options));
  CpuExecutor& e = *executor;
  if (options.pin) {
    e.cpus_ = read_cpu_topology().cores;
    if (e.cpus_.size() < static_cast<size_t>(options.threads)) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("cannot pin {} threads: this process may use {} cores",
                               options.threads, e.cpus_.size())};
    }
    e.cpus_.resize(static_cast<size_t>(std::max(options.threads, 0)));
  }
  WEFT_ASSIGN(e.pool_, ThreadPool::create(options.threads, e.cpus_));
  WEFT_ASSIGN(PackedWeights weights,
              PackedWeights::pack(model, checkpoint, e.kernels_, *e.pool_, progress));
  e.runner_.emplace(model, options, std::move(weights));
  WEFT_RETURN_IF_ERROR(e.runner_->allocate(options));
  e.slots_.resize(static_cast<size_t>(limits.slots));
  e.passes_.resize(static_cast<size_t>(limits.passes));
  return std::unique_ptr<Executor>(std::move(executor));
}

void CpuExecutor::open_slot(SlotId slot, const SlotInit& init) {
  WEFT_CHECK(slot >= 0 && slot < limits().slots, "slot {}", slot);
  slots_[static_cast<size_t>(slot)].open(init, vocab(), limits().context);
}

void CpuExecutor::close_slot(SlotId slot) {
  WEFT_CHECK(slot >= 0 && slot < limits().slots, "slot {}", slot);
}

void CpuExecutor::drop_pass(PassId pass) {
  WEFT_CHECK(pass >= 0 && pass < limits().passes, "pass {}", pass);
  passes_[static_cast<size_t>(pass)] = {};
}

void CpuExecutor::drop_rows(PassId pass, int64_t first, int64_t count) {
  WEFT_CHECK(pass >= 0 && pass < limits().passes, "pass {}", pass);
  OpenPass& open = passes_[static_cast<size_t>(pass)];
  WEFT_CHECK(first >= 0 && count >= 0 && first + count <= open.rows, "rows {} to {} of {}", first,
             first + count, open.rows);
  runner_->drop_rows(pass, first, count, open.rows);
  open.rows -= count;
}

Duration CpuExecutor::busy() const {
  Duration total{};
  for (int i = 0; i < pool_->threads(); ++i) total += pool_->busy(i);
  return total;
}

void CpuExecutor::check_passes(const Quantum& q) const {
  WEFT_CHECK(!q.passes.empty(), "a quantum of no pass");
  WEFT_CHECK(q.layer_begin >= 0 && q.layer_begin < q.layer_end && q.layer_end <= layers(),
             "layers {} to {} of {}", q.layer_begin, q.layer_end, layers());
  for (const Pass* pass : q.passes) {
    WEFT_CHECK(pass->id >= 0 && pass->id < limits().passes, "pass {}", pass->id);
    WEFT_CHECK(pass->sends == kNoBoard && pass->follows == kNoBoard, "there is no board yet");
    const OpenPass& open = passes_[static_cast<size_t>(pass->id)];
    WEFT_CHECK(
        q.layer_begin == 0 || (open.next_layer == q.layer_begin && open.rows == pass->rows()),
        "pass {} of {} rows stands at layer {}, not {}", pass->id, open.rows, open.next_layer,
        q.layer_begin);
  }
}

void CpuExecutor::start(Group group, const Quantum& quantum) {
  WEFT_CHECK(cores(group) > 0 && !running_, "group {} is busy or does not exist",
             static_cast<int>(group));
  started_ = std::chrono::steady_clock::now();
  if (!cpus_.empty() && !pinned_) {
    pinned_ = true;
    if (const Status status = pin_this_thread(cpus_[0]); !status.ok()) {
      spdlog::warn("{}", status.error().message);
    }
  }
  check_passes(quantum);
  runner_->prepare(quantum, slots_);
  busy_before_ = busy();
  running_ = true;
  pool_->start(*runner_);
}

bool CpuExecutor::wait(TimePoint /*deadline*/, Completion& completion) {
  WEFT_CHECK(running_, "wait() without a started quantum");
  pool_->join();
  running_ = false;
  const Quantum& quantum = runner_->quantum();
  for (const Pass* pass : quantum.passes) {
    OpenPass& open = passes_[static_cast<size_t>(pass->id)];
    open = runner_->ends_at_head() ? OpenPass{} : OpenPass{quantum.layer_end, pass->rows()};
  }
  completion.quantum = quantum.id;
  completion.start = started_;
  completion.busy_core_seconds = seconds(busy() - busy_before_);
  collect_outputs(completion);
  completion.status = {};
  completion.end = std::chrono::steady_clock::now();
  return true;
}

void CpuExecutor::collect_outputs(Completion& completion) {
  const auto outputs = runner_->outputs();
  completion.outputs.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Batch::Output& output = outputs[i];
    const Sample& sample = runner_->sample(i);
    OutputRow& row = completion.outputs[i];
    row.pass = runner_->quantum().passes[static_cast<size_t>(output.pass)]->id;
    row.segment = output.segment;
    row.row = output.segment_row;
    row.token = sample.token;
    row.finite = sample.finite;
    row.logprob = sample.logprob;
    row.log_sum_exp = sample.log_sum_exp;
    row.top.assign(sample.top.begin(), sample.top.begin() + sample.top_count);
    if (output.target == kSample && sample.finite) {
      slots_[static_cast<size_t>(output.slot)].accept(sample.token);
    }
  }
}

}  // namespace

int64_t kv_block_bytes(const Model& model, const KernelTable& kernels, KvType type) {
  const KvLayout layout{type, model.config.kv_heads, model.config.head_dim};
  return kernels.kv_block_bytes(layout) * model.config.layers;
}

int64_t packed_weight_bytes(const Model& model, const KernelTable& kernels) {
  return PackedWeights::bytes(model, kernels);
}

Result<std::unique_ptr<Executor>> make_cpu_executor(const Model& model,
                                                    const Checkpoint& checkpoint,
                                                    const CpuOptions& options,
                                                    const std::function<void(double)>& progress) {
  return CpuExecutor::create(model, checkpoint, options, progress);
}

}  // namespace weft
