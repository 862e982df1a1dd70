#include "device/cpu/cpu_executor.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/cpu.h"
#include "base/log.h"
#include "device/cpu/core_group.h"
#include "device/cpu/packed_weights.h"
#include "device/cpu/quantum_runner.h"
#include "device/cpu/shared_state.h"
#include "device/cpu/thread_pool.h"
#include "device/executor_limits.h"

namespace weft {
namespace {

class CpuExecutor final : public Executor {
 public:
  static Result<std::unique_ptr<Executor>> create(const Model& model, const Checkpoint& checkpoint,
                                                  const CpuOptions& options,
                                                  const std::function<void(double)>& progress);

  const ExecutorLimits& limits() const override { return shared_->limits; }
  int layers() const override { return shared_->model.config.layers; }
  int vocab() const override { return shared_->model.config.vocab; }
  int cores(Group group) const override;
  std::string description() const override { return description_; }

  void open_slot(SlotId slot, const SlotInit& init) override;
  void close_slot(SlotId slot) override;
  void start(Group group, const Quantum& quantum) override;
  bool wait(TimePoint deadline, Completion& completion) override;
  void drop_pass(PassId pass) override;
  void drop_rows(PassId pass, int64_t first, int64_t count) override;
  CoreTime core_time() const override;
  TimePoint last_layer_end() const override {
    return TimePoint(Duration(shared_->last_layer_end.load(std::memory_order_relaxed)));
  }

 private:
  // Which groups the cores serve: they change over when a quantum starts.
  enum class Regime : uint8_t { kWhole, kSplit };

  CpuExecutor() = default;

  Status make_groups(const CpuOptions& options, std::unique_ptr<ThreadPool> pool);
  std::optional<CoreGroup>& group(Group g) { return groups_[static_cast<size_t>(g)]; }
  const std::optional<CoreGroup>& group(Group g) const { return groups_[static_cast<size_t>(g)]; }
  bool running(Group g) const { return group(g) && group(g)->running(); }
  bool named_by_running(PassId pass) const;
  void check_passes(const Quantum& quantum) const;
  bool is_sent(BoardId board, const Quantum& by) const;
  void enter(Regime regime);
  CoreGroup* first_done();

  std::vector<int> cpus_;  // to pin to; empty: not at all
  bool pinned_ = false;
  std::string description_;

  std::unique_ptr<SharedState> shared_;
  std::unique_ptr<QuantumRunner> runner_;  // of kAll and kPrefill, which never run at once
  std::unique_ptr<QuantumRunner> decode_runner_;
  WaitCounter finished_;  // quanta of kPrefill and kDecode
  Duration wait_spin_{};
  std::array<std::optional<CoreGroup>, kGroups> groups_;

  Regime regime_ = Regime::kWhole;
  TimePoint regime_since_{};
  Duration unused_{};  // core time that no group has had
};

Status check_split(const CpuOptions& options) {
  const int prefill = options.prefill_threads;
  const int decode = options.decode_threads;
  if (prefill == 0 && decode == 0) return {};
  if (prefill >= 1 && decode >= 1 && int64_t{prefill} + decode <= options.threads) return {};
  return Error{
      ErrorKind::kInvalidArgument,
      fmt::format("{} prefill and {} decode cores: each needs at least 1, and together they "
                  "have to fit into {} threads",
                  prefill, decode, options.threads)};
}

std::string describe(const CpuOptions& options) {
  std::string text =
      fmt::format("cpu {}, {} thread{}, kv {}", options.kernels->name, options.threads,
                  options.threads == 1 ? "" : "s", kv_type_name(options.kv_type));
  if (options.prefill_threads > 0) {
    text += fmt::format(", split prefill {} decode {}", options.prefill_threads,
                        options.decode_threads);
  }
  return text;
}

Result<std::unique_ptr<Executor>> CpuExecutor::create(const Model& model,
                                                      const Checkpoint& checkpoint,
                                                      const CpuOptions& options,
                                                      const std::function<void(double)>& progress) {
  WEFT_CHECK(options.kernels != nullptr);
  WEFT_RETURN_IF_ERROR(
      check_limits(options.limits,
                   static_cast<double>(kv_block_bytes(model, *options.kernels, options.kv_type))));
  WEFT_RETURN_IF_ERROR(check_split(options));
  std::unique_ptr<CpuExecutor> executor(new CpuExecutor());
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
  WEFT_ASSIGN(std::unique_ptr<ThreadPool> pool, ThreadPool::create(options.threads, e.cpus_));
  WEFT_ASSIGN(e.shared_, SharedState::create(model, checkpoint, options, *pool, progress));
  WEFT_RETURN_IF_ERROR(e.make_groups(options, std::move(pool)));
  e.description_ = describe(options);
  return std::unique_ptr<Executor>(std::move(executor));
}

Status CpuExecutor::make_groups(const CpuOptions& options, std::unique_ptr<ThreadPool> pool) {
  WEFT_ASSIGN(runner_, QuantumRunner::create(*shared_, options.threads));
  group(Group::kAll).emplace(std::move(pool), *shared_, *runner_);
  if (options.prefill_threads > 0) {
    const std::span cpus(cpus_);
    const auto decode = static_cast<size_t>(options.decode_threads);
    const auto prefill = static_cast<size_t>(options.prefill_threads);
    WEFT_ASSIGN(decode_runner_, QuantumRunner::create(*shared_, options.decode_threads));
    WEFT_ASSIGN(auto decode_pool,
                ThreadPool::create(options.decode_threads, cpus.empty() ? cpus : cpus.first(decode),
                                   &finished_));
    WEFT_ASSIGN(
        auto prefill_pool,
        ThreadPool::create(options.prefill_threads,
                           cpus.empty() ? cpus : cpus.subspan(decode, prefill), &finished_));
    group(Group::kDecode).emplace(std::move(decode_pool), *shared_, *decode_runner_);
    group(Group::kPrefill).emplace(std::move(prefill_pool), *shared_, *runner_);
    // Where every core has a worker, one who spins would be in its way.
    const bool spare = options.prefill_threads + options.decode_threads <
                       static_cast<int>(std::thread::hardware_concurrency());
    wait_spin_ = std::chrono::microseconds(spare ? 50 : 0);
  }
  regime_since_ = std::chrono::steady_clock::now();
  for (const Group g : {Group::kPrefill, Group::kDecode}) {
    if (group(g)) group(g)->pause(regime_since_);
  }
  return {};
}

int CpuExecutor::cores(Group g) const { return group(g) ? group(g)->cores() : 0; }

void CpuExecutor::open_slot(SlotId slot, const SlotInit& init) {
  WEFT_CHECK(slot >= 0 && slot < limits().slots, "slot {}", slot);
  shared_->slots[static_cast<size_t>(slot)].open(init, vocab(), limits().context);
}

void CpuExecutor::close_slot(SlotId slot) {
  WEFT_CHECK(slot >= 0 && slot < limits().slots, "slot {}", slot);
}

bool CpuExecutor::named_by_running(PassId pass) const {
  return std::any_of(groups_.begin(), groups_.end(), [pass](const auto& g) {
    if (!g || !g->running()) return false;
    const auto& passes = g->quantum()->passes;
    return std::any_of(passes.begin(), passes.end(),
                       [pass](const Pass* named) { return named->id == pass; });
  });
}

void CpuExecutor::drop_pass(PassId pass) {
  WEFT_CHECK(pass >= 0 && pass < limits().passes && !named_by_running(pass), "pass {}", pass);
  shared_->passes.drop(pass);
}

void CpuExecutor::drop_rows(PassId pass, int64_t first, int64_t count) {
  WEFT_CHECK(pass >= 0 && pass < limits().passes && !named_by_running(pass), "pass {}", pass);
  shared_->passes.drop_rows(pass, first, count);
}

// Whether the layers that `by` reads are sent already, or by a quantum that runs or by itself.
bool CpuExecutor::is_sent(BoardId board, const Quantum& by) const {
  const auto sends = [&](const Quantum& quantum) {
    return quantum.layer_end >= by.layer_end &&
           std::any_of(quantum.passes.begin(), quantum.passes.end(),
                       [board](const Pass* pass) { return pass->sends == board; });
  };
  if (shared_->board.recv(board) >= by.layer_end || sends(by)) return true;
  return std::any_of(groups_.begin(), groups_.end(),
                     [&](const auto& g) { return g && g->running() && sends(*g->quantum()); });
}

void CpuExecutor::check_passes(const Quantum& q) const {
  WEFT_CHECK(!q.passes.empty(), "a quantum of no pass");
  WEFT_CHECK(q.layer_begin >= 0 && q.layer_begin < q.layer_end && q.layer_end <= layers(),
             "layers {} to {} of {}", q.layer_begin, q.layer_end, layers());
  for (const Pass* pass : q.passes) {
    WEFT_CHECK(pass->id >= 0 && pass->id < limits().passes, "pass {}", pass->id);
    WEFT_CHECK(!named_by_running(pass->id), "pass {} is run by another group", pass->id);
    WEFT_CHECK(shared_->passes.stands_at(*pass, q.layer_begin),
               "pass {} of {} rows does not stand at layer {}", pass->id, pass->rows(),
               q.layer_begin);
    for (const BoardId board : {pass->sends, pass->follows}) {
      WEFT_CHECK(board >= kNoBoard && board < limits().passes, "board {}", board);
    }
    WEFT_CHECK(pass->follows == kNoBoard || is_sent(pass->follows, q),
               "pass {} follows board {}, to which nobody sends layer {}", pass->id, pass->follows,
               q.layer_end - 1);
  }
}

void CpuExecutor::start(Group g, const Quantum& quantum) {
  WEFT_CHECK(group(g) && !running(g), "group {} is busy or does not exist", static_cast<int>(g));
  WEFT_CHECK(g == Group::kAll ? !running(Group::kPrefill) && !running(Group::kDecode)
                              : !running(Group::kAll),
             "all cores and a part of them cannot run at once");
  if (!cpus_.empty() && !pinned_) {
    pinned_ = true;
    if (const Status status = pin_this_thread(cpus_[0]); !status.ok()) {
      spdlog::warn("{}", status.error().message);
    }
  }
  check_passes(quantum);
  enter(g == Group::kAll ? Regime::kWhole : Regime::kSplit);
  group(g)->start(quantum);
}

void CpuExecutor::enter(Regime regime) {
  if (regime == regime_) return;
  const TimePoint now = std::chrono::steady_clock::now();
  const int split = cores(Group::kPrefill) + cores(Group::kDecode);
  if (regime == Regime::kSplit) {
    group(Group::kAll)->pause(now);
    group(Group::kPrefill)->resume(now);
    group(Group::kDecode)->resume(now);
  } else {
    group(Group::kPrefill)->pause(now);
    group(Group::kDecode)->pause(now);
    group(Group::kAll)->resume(now);
    unused_ += (cores(Group::kAll) - split) * (now - regime_since_);
  }
  regime_ = regime;
  regime_since_ = now;
}

CoreGroup* CpuExecutor::first_done() {
  CoreGroup* first = nullptr;
  for (const Group g : {Group::kPrefill, Group::kDecode}) {
    if (!running(g) || !group(g)->done()) continue;
    if (first == nullptr || group(g)->end() < first->end()) first = &*group(g);
  }
  return first;
}

bool CpuExecutor::wait(TimePoint deadline, Completion& completion) {
  if (running(Group::kAll)) {
    group(Group::kAll)->finish(completion);
    return true;
  }
  WEFT_CHECK(running(Group::kPrefill) || running(Group::kDecode), "wait() without a quantum");
  for (;;) {
    const uint32_t seen = finished_.value();
    if (CoreGroup* const done = first_done(); done != nullptr) {
      done->finish(completion);
      return true;
    }
    if (!finished_.wait_past(seen, wait_spin_, deadline)) return false;
  }
}

CoreTime CpuExecutor::core_time() const {
  const TimePoint now = std::chrono::steady_clock::now();
  ThreadPool::Time total;
  total.idle = unused_;
  for (const auto& g : groups_) {
    if (g) total += g->time(now);
  }
  if (regime_ == Regime::kSplit) {
    const int split = cores(Group::kPrefill) + cores(Group::kDecode);
    total.idle += (cores(Group::kAll) - split) * (now - regime_since_);
  }
  return {seconds(total.operators), seconds(total.barriers), seconds(total.idle)};
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
