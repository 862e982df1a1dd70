#include "device/ascend/ascend_executor.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "device/ascend/acl_device.h"
#include "device/ascend/ascend_model.h"
#include "device/ascend/group_run.h"
#include "device/ascend/layer_roles.h"
#include "device/ascend/pass_ledger.h"
#include "device/ascend/resident.h"
#include "device/ascend/slot_samplers.h"

namespace weft {

namespace {

TimePoint now() { return std::chrono::steady_clock::now(); }

class AscendExecutor final : public Executor {
 public:
  AscendExecutor(const Model& model, const AscendOptions& options)
      : config_(model.config),
        options_(options),
        limits_(options.device_limits()),
        samplers_(*options.host_kernels, limits_, config_.vocab),
        passes_(limits_.passes, config_.layers),
        created_(now()),
        last_layer_end_(created_.time_since_epoch().count()) {}
  ~AscendExecutor() override;

  Status load(const Model& model, const std::vector<LayerRoles>& layers,
              const Checkpoint& checkpoint, const std::function<void(double)>& progress);

  const ExecutorLimits& limits() const override { return limits_; }
  int layers() const override { return config_.layers; }
  int vocab() const override { return config_.vocab; }
  int cores(Group group) const override { return options_.cores_of(group); }
  std::string description() const override { return options_.describe(); }

  void open_slot(SlotId slot, const SlotInit& init) override;
  void close_slot(SlotId slot) override;
  void start(Group group, const Quantum& quantum) override;
  bool wait(TimePoint deadline, Completion& completion) override;
  void drop_pass(PassId pass) override;
  void drop_rows(PassId pass, int64_t first, int64_t count) override;
  CoreTime core_time() const override;
  TimePoint last_layer_end() const override {
    return TimePoint(Duration(last_layer_end_.load(std::memory_order_relaxed)));
  }

 private:
  GroupRun& run(Group group) { return *runs_[static_cast<size_t>(group)]; }
  const GroupRun* active(Group group) const {
    const auto& r = runs_[static_cast<size_t>(group)];
    return r && r->active() ? &*r : nullptr;
  }
  template <class Predicate>
  bool any_active(Predicate predicate) const {
    return std::any_of(runs_.begin(), runs_.end(),
                       [&](const auto& r) { return r && r->active() && predicate(*r); });
  }

  void check_start(Group group, const Quantum& quantum) const;
  bool named_by_running(PassId pass) const;
  bool is_sent(BoardId board, const Quantum& by) const;
  Status publish_held();
  bool step_groups(Completion& completion);
  void lose(const std::string& what);
  void complete(GroupRun& run, Completion& completion);
  void share_time(const GroupRun& run, Completion& completion);

  const ModelConfig config_;
  const AscendOptions options_;
  const ExecutorLimits limits_;
  std::unique_ptr<AclDevice> device_;

  std::unique_ptr<AscendModel> model_;
  std::unique_ptr<Resident> resident_;

  // The engine thread's.
  SlotSamplers samplers_;
  PassLedger passes_;
  std::array<std::optional<GroupRun>, kGroups> runs_;

  const TimePoint created_;
  CoreTime time_;  // of completed quanta; idle is what is left
  std::atomic<Duration::rep> last_layer_end_;
};

AscendExecutor::~AscendExecutor() {
  for (auto& r : runs_) {
    if (r && r->active()) r->cancel();
  }
  resident_.reset();
}

// --- what the device is made of

Status AscendExecutor::load(const Model& model, const std::vector<LayerRoles>& layers,
                            const Checkpoint& checkpoint,
                            const std::function<void(double)>& progress) {
  WEFT_ASSIGN(device_, AclDevice::create(options_.ordinal, options_.kernels));
  WEFT_ASSIGN(model_, AscendModel::create(model, layers, checkpoint, options_.weights,
                                          {.limits = limits_,
                                           .cores = options_.cores,
                                           .workspaces = options_.split() ? 2 : 1},
                                          progress));
  const ResidentOptions resident = resident_options(options_, device_->time_limit());
  WEFT_ASSIGN(resident_,
              Resident::create(*device_, resident, model_->address(), model_->workspaces()));
  for (const Group group : {Group::kAll, Group::kPrefill, Group::kDecode}) {
    if (cores(group) == 0) continue;
    runs_[static_cast<size_t>(group)].emplace(
        group, limits_, GroupRun::Parts{options_, config_, *model_, *resident_, samplers_});
  }
  return {};
}

// --- slots and passes

void AscendExecutor::open_slot(SlotId slot, const SlotInit& init) { samplers_.open(slot, init); }

void AscendExecutor::close_slot(SlotId slot) {
  WEFT_CHECK(slot >= 0 && slot < limits_.slots, "slot {}", slot);
}

bool AscendExecutor::named_by_running(PassId pass) const {
  return any_active([pass](const GroupRun& run) {
    const auto& passes = run.quantum().passes;
    return std::any_of(passes.begin(), passes.end(),
                       [pass](const Pass* named) { return named->id == pass; });
  });
}

void AscendExecutor::drop_pass(PassId pass) {
  WEFT_CHECK(pass >= 0 && pass < limits_.passes && !named_by_running(pass), "pass {}", pass);
  passes_.drop(pass);
}

void AscendExecutor::drop_rows(PassId pass, int64_t first, int64_t count) {
  WEFT_CHECK(pass >= 0 && pass < limits_.passes && !named_by_running(pass), "pass {}", pass);
  const int64_t rows = passes_.rows(pass);
  WEFT_CHECK(first >= 0 && count >= 0 && first + count <= rows, "rows {} to {} of {} in pass {}",
             first, first + count, rows, pass);
  const Status status = model_->drop_rows(pass, rows, first, count);
  if (!status.ok()) lose(status.error().message);
  passes_.drop_rows(pass, count);
}

// --- a quantum

bool AscendExecutor::is_sent(BoardId board, const Quantum& by) const {
  const auto sends = [&](const Quantum& quantum) {
    return quantum.layer_end >= by.layer_end &&
           std::any_of(quantum.passes.begin(), quantum.passes.end(),
                       [board](const Pass* pass) { return pass->sends == board; });
  };
  if (passes_.is_sent(board, by.layer_end) || sends(by)) return true;
  return any_active([&](const GroupRun& run) { return sends(run.quantum()); });
}

void AscendExecutor::check_start(Group group, const Quantum& q) const {
  WEFT_CHECK(cores(group) > 0 && active(group) == nullptr, "group {} is busy or does not exist",
             static_cast<int>(group));
  WEFT_CHECK(group == Group::kAll
                 ? active(Group::kPrefill) == nullptr && active(Group::kDecode) == nullptr
                 : active(Group::kAll) == nullptr,
             "all cores and a part of them cannot run at once");
  WEFT_CHECK(!q.passes.empty(), "a quantum of no pass");
  WEFT_CHECK(q.layer_begin >= 0 && q.layer_begin < q.layer_end && q.layer_end <= layers(),
             "layers {} to {} of {}", q.layer_begin, q.layer_end, layers());
  for (const Pass* pass : q.passes) {
    WEFT_CHECK(pass->id >= 0 && pass->id < limits_.passes, "pass {}", pass->id);
    WEFT_CHECK(!named_by_running(pass->id), "pass {} is run by another group", pass->id);
    WEFT_CHECK(passes_.stands_at(*pass, q.layer_begin),
               "pass {} of {} rows does not stand at layer {}", pass->id, pass->rows(),
               q.layer_begin);
    for (const BoardId board : {pass->sends, pass->follows}) {
      WEFT_CHECK(board >= kNoBoard && board < limits_.passes, "board {}", board);
    }
    WEFT_CHECK(pass->follows == kNoBoard || is_sent(pass->follows, q),
               "pass {} follows board {}, to which nobody sends layer {}", pass->id, pass->follows,
               q.layer_end - 1);
  }
}

void AscendExecutor::start(Group group, const Quantum& quantum) {
  check_start(group, quantum);
  passes_.begin(quantum);
  Status status = run(group).prepare(quantum, passes_.boards(), now());
  if (status.ok()) status = publish_held();
  if (!status.ok()) lose(status.error().message);
}

// Quanta go to the launch that runs. Where that is due to end they are held until nothing runs on
// it, however busy the groups are.
Status AscendExecutor::publish_held() {
  if (!any_active([](const GroupRun& run) { return run.live(); })) {
    WEFT_RETURN_IF_ERROR(resident_->begin(passes_.flags(), now()));
  } else if (resident_->due(now())) {
    return {};
  }
  for (auto& r : runs_) {
    if (r && r->held()) WEFT_RETURN_IF_ERROR(r->publish(now()));
  }
  return {};
}

bool AscendExecutor::wait(TimePoint deadline, Completion& completion) {
  WEFT_CHECK(any_active([](const GroupRun&) { return true; }), "wait() without a quantum");
  for (;;) {
    if (any_active([](const GroupRun& run) { return run.held(); })) {
      if (const Status status = publish_held(); !status.ok()) lose(status.error().message);
    }
    if (resident_->running()) {
      const Result<bool> layer_ended = resident_->look();
      if (!layer_ended.ok()) {
        lose(layer_ended.error().message);
      } else if (*layer_ended) {
        last_layer_end_.store(now().time_since_epoch().count(), std::memory_order_relaxed);
      }
    }
    if (step_groups(completion)) return true;
    if (now() >= deadline) return false;
  }
}

// Completes a quantum that has ended, or that the launch took with it.
bool AscendExecutor::step_groups(Completion& completion) {
  for (const Group group : {Group::kAll, Group::kDecode, Group::kPrefill}) {
    if (active(group) == nullptr) continue;
    GroupRun& r = run(group);
    bool ended = false;
    if (r.reached()) {
      const Result<bool> done = r.finish_turn();
      if (!done.ok()) lose(done.error().message);
      ended = done.ok() && *done;
    }
    if (ended || r.failure()) {
      complete(r, completion);
      return true;
    }
  }
  return false;
}

// --- ends

// Ends the launch, and with it the quanta that run, but for those that were done before. The next
// one launches anew; caches, passes and slots are as the completed quanta left them.
void AscendExecutor::lose(const std::string& what) {
  std::string cause = what;
  if (resident_->running()) {
    std::string found;
    resident_->fail(found);
    if (!found.empty()) cause = std::move(found);
  }
  spdlog::error("the launch on the device is lost: {}", cause);
  for (auto& r : runs_) {
    if (r) r->lose(cause);
  }
}

void AscendExecutor::complete(GroupRun& run, Completion& completion) {
  completion.quantum = run.quantum().id;
  completion.start = run.started();
  completion.end = now();
  share_time(run, completion);
  completion.status = {};
  if (const auto& failure = run.failure()) completion.status = Error{ErrorKind::kIo, *failure};
  // Also after a fault the passes stand where the quantum was to bring them, since the engine then
  // drops them; what they hold means nothing.
  passes_.end(run.quantum());
  run.end(completion.outputs);
}

// The device knows how its cycles were shared out, the host how long it took.
void AscendExecutor::share_time(const GroupRun& run, Completion& completion) {
  const double total = cores(run.group()) * seconds(completion.end - completion.start);
  double operators = 0;
  double barriers = 0;
  for (const int ring : run.rings()) {
    if (!run.live()) break;
    const auto cycles = resident_->spent(ring);
    if (!cycles.ok()) {
      lose(cycles.error().message);
      break;
    }
    operators += static_cast<double>(cycles->operators);
    barriers += static_cast<double>(cycles->barriers);
  }
  const double waited = operators + barriers > 0 ? barriers / (operators + barriers) : 0;
  completion.busy_core_seconds = total * (1 - waited);
  completion.barrier_core_seconds = total * waited;
  time_.operators += completion.busy_core_seconds;
  time_.barriers += completion.barrier_core_seconds;
}

CoreTime AscendExecutor::core_time() const {
  CoreTime time = time_;
  const TimePoint until = now();
  double known = options_.cores * seconds(until - created_) - time.operators - time.barriers;
  for (const Group group : {Group::kAll, Group::kPrefill, Group::kDecode}) {
    if (const GroupRun* r = active(group)) known -= cores(group) * seconds(until - r->started());
  }
  time.idle = std::max(0.0, known);
  return time;
}

}  // namespace

Result<uint64_t> ascend_weight_bytes(const Model& model, AscendWeights weights) {
  WEFT_ASSIGN(const std::vector<LayerRoles> layers, read_layer_roles(model));
  return DeviceWeights::bytes(model, layers, weights);
}

Result<std::unique_ptr<Executor>> make_ascend_executor(
    const Model& model, const Checkpoint& checkpoint, const AscendOptions& options,
    const std::function<void(double)>& progress) {
  WEFT_CHECK(options.host_kernels != nullptr);
  WEFT_ASSIGN(const std::vector<LayerRoles> layers, read_layer_roles(model));
  WEFT_RETURN_IF_ERROR(options.check(ascend_kv_block_bytes(model)));
  auto executor = std::make_unique<AscendExecutor>(model, options);
  WEFT_RETURN_IF_ERROR(executor->load(model, layers, checkpoint, progress));
  return std::unique_ptr<Executor>(std::move(executor));
}

}  // namespace weft
