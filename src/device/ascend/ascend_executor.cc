#include "device/ascend/ascend_executor.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "device/ascend/acl_device.h"
#include "device/ascend/ascend_model.h"
#include "device/ascend/layer_roles.h"
#include "device/ascend/pass_ledger.h"
#include "device/ascend/quantum_tables.h"
#include "device/ascend/resident.h"
#include "device/sampler.h"

namespace weft {

using weft_ascend::kRings;
using weft_ascend::SampleResult;
using weft_ascend::TeamKind;

namespace {

constexpr int kTileRows = 64;
constexpr int64_t kNotPublished = std::numeric_limits<int64_t>::max();

TimePoint now() { return std::chrono::steady_clock::now(); }

// The rings that a group's quanta go into.
std::span<const int> rings_of(Group group, bool split) {
  static constexpr std::array<int, 2> kBoth = {0, 1};
  if (!split || group == Group::kPrefill) return std::span(kBoth).first(1);
  return group == Group::kDecode ? std::span(kBoth).last(1) : std::span(kBoth);
}

class AscendExecutor final : public Executor {
 public:
  AscendExecutor(const Model& model, const AscendOptions& options)
      : config_(model.config),
        options_(options),
        limits_(options.limits),
        slots_(static_cast<size_t>(limits_.slots)),
        token_on_device_(slots_.size()),
        passes_(limits_.passes, config_.layers),
        scratch_(model.config.vocab),
        created_(now()),
        last_layer_end_(created_.time_since_epoch().count()) {
    limits_.tile_rows = kTileRows;
    limits_.output_rows = std::min(limits_.output_rows, limits_.rows);
  }
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
  // What a group runs.
  struct Running {
    explicit Running(const ExecutorLimits& limits) : tables(limits) {}
    bool active = false;
    Quantum quantum;
    QuantumTables tables;
    DeviceMemory memory;  // of the tables
    std::array<int64_t, kRings> numbers{};
    int turn = 0;  // of the head
    TimePoint started{};
    bool reached = false;                // done before the launch was lost
    std::optional<std::string> failure;  // why the launch was lost before
    std::vector<OutputRow> outputs;

    // On the device now.
    bool live() const { return active && !reached && !failure; }
  };

  Running& running(Group group) { return *running_[static_cast<size_t>(group)]; }
  const Running* active(Group group) const {
    const auto& r = running_[static_cast<size_t>(group)];
    return r && r->active ? &*r : nullptr;
  }
  static int workspace_of(Group group) { return group == Group::kDecode ? 1 : 0; }

  void check_start(Group group, const Quantum& quantum) const;
  bool named_by_running(PassId pass) const;
  bool is_sent(BoardId board, const Quantum& by) const;
  Status prepare(Group group, const Quantum& quantum);
  Status publish(Group group);
  Result<bool> finish_turn(Group group);
  Status draw(Group group, int first, int count);
  OutputRow host_row(const QuantumTables::Output& output, std::span<const float> logits);
  void note_progress(const std::array<Resident::Progress, kRings>& progress);
  bool reached(Group group) const;
  bool step_groups(Completion& completion);
  void lose(const std::string& what);
  void complete(Group group, Status status, Completion& completion);
  void share_time(Group group, TimePoint end, Completion& completion);

  const ModelConfig config_;
  const AscendOptions options_;
  ExecutorLimits limits_;
  std::unique_ptr<AclDevice> device_;

  std::unique_ptr<AscendModel> model_;
  std::unique_ptr<Resident> resident_;

  // The engine thread's.
  std::vector<SamplerState> slots_;
  std::vector<uint8_t> token_on_device_;  // by slot: its last token is in slot_tokens_
  PassLedger passes_;
  std::array<std::optional<Running>, kGroups> running_;
  std::array<Resident::Progress, kRings> progress_{};
  std::array<Resident::Cycles, kRings> cycles_{};  // of the epoch, as known last
  SamplerScratch scratch_;
  std::vector<float> logits_;
  std::vector<SampleResult> results_;

  const TimePoint created_;
  CoreTime time_;  // of completed quanta; idle is what is left
  std::atomic<Duration::rep> last_layer_end_;
};

AscendExecutor::~AscendExecutor() {
  for (const auto& r : running_) {
    if (!r || !r->active) continue;
    // Not begun yet, it is skipped.
    (void)running_[static_cast<size_t>(&r - running_.data())]->memory.write_value(0, int32_t{0});
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
  running_[static_cast<size_t>(Group::kAll)].emplace(limits_);
  if (options_.split()) {
    running_[static_cast<size_t>(Group::kPrefill)].emplace(limits_);
    running_[static_cast<size_t>(Group::kDecode)].emplace(limits_);
  }
  ResidentOptions resident;
  resident.blocks = {options_.split() ? options_.prefill_cores : options_.cores,
                     options_.decode_cores};
  resident.boards = limits_.passes;
  resident.epoch_quanta = options_.epoch_quanta;
  resident.spin_cap = options_.spin_cap;
  WEFT_ASSIGN(resident_,
              Resident::create(*device_, resident, model_->address(), model_->workspaces()));
  return {};
}

// --- slots and passes

void AscendExecutor::open_slot(SlotId slot, const SlotInit& init) {
  WEFT_CHECK(slot >= 0 && slot < limits_.slots, "slot {}", slot);
  slots_[static_cast<size_t>(slot)].open(init, vocab(), limits_.context);
  token_on_device_[static_cast<size_t>(slot)] = 0;
}

void AscendExecutor::close_slot(SlotId slot) {
  WEFT_CHECK(slot >= 0 && slot < limits_.slots, "slot {}", slot);
}

bool AscendExecutor::named_by_running(PassId pass) const {
  return std::any_of(running_.begin(), running_.end(), [pass](const auto& r) {
    if (!r || !r->active) return false;
    const auto& passes = r->quantum.passes;
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
  return std::any_of(running_.begin(), running_.end(),
                     [&](const auto& r) { return r && r->active && sends(r->quantum); });
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
  Running& r = running(group);
  r.started = now();
  r.outputs.clear();
  r.turn = 0;
  r.numbers.fill(kNotPublished);
  r.reached = false;
  r.failure.reset();
  Status status = prepare(group, quantum);
  r.active = true;
  if (status.ok()) status = publish(group);
  if (!status.ok()) lose(status.error().message);
}

Status AscendExecutor::prepare(Group group, const Quantum& quantum) {
  Running& r = running(group);
  r.quantum = quantum;
  r.tables.fill(quantum, static_cast<TeamKind>(group),
                {.slots = slots_,
                 .token_on_device = token_on_device_,
                 .boards = passes_.boards(),
                 .layers = layers(),
                 .vocab = vocab(),
                 .head_rows = limits_.output_rows});
  WEFT_RETURN_IF_ERROR(model_->ensure_partials(
      workspace_of(group), r.tables.partial_bytes(config_.heads, config_.head_dim)));
  if (r.memory.size() < r.tables.bytes()) {
    WEFT_ASSIGN(r.memory, DeviceMemory::allocate(2 * r.tables.bytes(), "a quantum's tables"));
  }
  WEFT_RETURN_IF_ERROR(r.memory.write(0, r.tables.at(r.memory.address())));
  const bool alone = std::none_of(running_.begin(), running_.end(),
                                  [](const auto& other) { return other && other->live(); });
  if (!alone) return {};
  WEFT_ASSIGN(const bool launched, resident_->begin(passes_.flags(), r.started));
  if (launched) {
    progress_ = {};
    cycles_ = {};
  }
  return {};
}

Status AscendExecutor::publish(Group group) {
  Running& r = running(group);
  r.numbers.fill(kNotPublished);
  for (const int ring : rings_of(group, options_.split())) {
    WEFT_ASSIGN(r.numbers[static_cast<size_t>(ring)],
                resident_->publish(ring, static_cast<TeamKind>(group), r.memory.address()));
  }
  return {};
}

bool AscendExecutor::reached(Group group) const {
  const Running* r = active(group);
  if (r == nullptr || !r->live()) return r != nullptr && r->reached;
  for (const int ring : rings_of(group, options_.split())) {
    const auto index = static_cast<size_t>(ring);
    if (progress_[index].quanta < r->numbers[index]) return false;
  }
  return true;
}

void AscendExecutor::note_progress(const std::array<Resident::Progress, kRings>& progress) {
  for (size_t ring = 0; ring < kRings; ++ring) {
    if (progress[ring].layers != progress_[ring].layers) {
      last_layer_end_.store(now().time_since_epoch().count(), std::memory_order_relaxed);
    }
  }
  progress_ = progress;
}

bool AscendExecutor::wait(TimePoint deadline, Completion& completion) {
  WEFT_CHECK(
      std::any_of(running_.begin(), running_.end(), [](const auto& r) { return r && r->active; }),
      "wait() without a quantum");
  for (;;) {
    if (resident_->running()) {
      const auto progress = resident_->look();
      if (progress.ok()) {
        note_progress(*progress);
      } else {
        lose(progress.error().message);
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
    if (reached(group)) {
      const Result<bool> done = finish_turn(group);
      if (!done.ok()) lose(done.error().message);
      if (done.ok() && *done) {
        complete(group, {}, completion);
        return true;
      }
    }
    if (const auto& failure = running(group).failure) {
      complete(group, Error{ErrorKind::kIo, *failure}, completion);
      return true;
    }
  }
  return false;
}

// The rows of a turn of the head are there. More outputs than it takes at once come in more turns;
// true: there are none left.
Result<bool> AscendExecutor::finish_turn(Group group) {
  Running& r = running(group);
  const weft_ascend::Descriptor turn = r.tables.turn(r.turn);
  if (turn.head_rows > 0) WEFT_RETURN_IF_ERROR(draw(group, turn.head_begin, turn.head_rows));
  if (r.turn + 1 >= r.tables.turns()) return true;
  if (r.reached) return Error{ErrorKind::kIo, "the launch was lost before all rows had logits"};
  ++r.turn;
  WEFT_RETURN_IF_ERROR(r.memory.write_value(0, r.tables.turn(r.turn)));
  WEFT_RETURN_IF_ERROR(publish(group));
  return false;
}

// Outputs [first, first + count), whose logits lie at the beginning of the group's.
Status AscendExecutor::draw(Group group, int first, int count) {
  Running& r = running(group);
  r.outputs.resize(static_cast<size_t>(first));  // after an error it comes here again
  results_.resize(static_cast<size_t>(count));
  WEFT_RETURN_IF_ERROR(
      r.memory.read(r.tables.results_offset() + static_cast<uint64_t>(first) * sizeof(SampleResult),
                    std::as_writable_bytes(std::span(results_))));
  logits_.resize(static_cast<size_t>(vocab()));
  for (int i = 0; i < count; ++i) {
    const QuantumTables::Output& output =
        r.tables.outputs()[static_cast<size_t>(first) + static_cast<size_t>(i)];
    if (!output.on_device || options_.on_logits) {
      WEFT_RETURN_IF_ERROR(model_->read_logits(workspace_of(group), i, logits_));
    }
    if (options_.on_logits) options_.on_logits(first + i, logits_);
    OutputRow row;
    if (output.on_device) {
      const SampleResult& result = results_[static_cast<size_t>(i)];
      row.token = result.token;
      row.finite = result.finite != 0;
    } else {
      row = host_row(output, logits_);
    }
    row.pass = r.quantum.passes[static_cast<size_t>(output.pass)]->id;
    row.segment = output.segment;
    row.row = output.segment_row;
    r.outputs.push_back(std::move(row));
  }
  return {};
}

OutputRow AscendExecutor::host_row(const QuantumTables::Output& output,
                                   std::span<const float> logits) {
  const Sample sample =
      sample_row(*options_.host_kernels, logits, slots_[static_cast<size_t>(output.slot)],
                 output.position, output.target, scratch_);
  OutputRow row;
  row.token = sample.token;
  row.finite = sample.finite;
  row.logprob = sample.logprob;
  row.log_sum_exp = sample.log_sum_exp;
  row.top.assign(sample.top.begin(), sample.top.begin() + sample.top_count);
  return row;
}

// --- ends

// Ends the launch, and with it the quanta that run, but for those that were done before. The next
// one launches anew; caches, passes and slots are as the completed quanta left them.
void AscendExecutor::lose(const std::string& what) {
  std::string cause = what;
  if (resident_->running()) {
    std::string found;
    const auto progress = resident_->fail(found);
    note_progress(progress);
    if (!found.empty()) cause = std::move(found);
  }
  spdlog::error("the launch on the device is lost: {}", cause);
  for (size_t i = 0; i < running_.size(); ++i) {
    auto& r = running_[i];
    if (!r || !r->active || r->failure) continue;
    if (!r->reached && reached(static_cast<Group>(i))) {
      r->reached = true;
    } else {
      r->reached = false;
      r->failure = cause;
    }
  }
}

void AscendExecutor::complete(Group group, Status status, Completion& completion) {
  Running& r = running(group);
  const TimePoint end = now();
  completion.quantum = r.quantum.id;
  completion.start = r.started;
  completion.end = end;
  completion.outputs.clear();
  share_time(group, end, completion);
  if (status.ok()) {
    const auto outputs = r.tables.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].target != kSample || !r.outputs[i].finite) continue;
      const auto slot = static_cast<size_t>(outputs[i].slot);
      slots_[slot].accept(r.outputs[i].token);
      token_on_device_[slot] = outputs[i].on_device ? 1 : 0;
    }
    std::swap(completion.outputs, r.outputs);
  }
  completion.status = std::move(status);
  // Also after a fault the passes stand where the quantum was to bring them, since the engine then
  // drops them; what they hold means nothing.
  passes_.end(r.quantum);
  r.active = false;
}

// The device knows how its cycles were shared out, the host how long it took.
void AscendExecutor::share_time(Group group, TimePoint end, Completion& completion) {
  Running& r = running(group);
  const double total = cores(group) * seconds(end - r.started);
  double operators = 0;
  double barriers = 0;
  for (const int ring : rings_of(group, options_.split())) {
    if (!r.live()) continue;
    const auto cycles = resident_->cycles(ring);
    if (!cycles.ok()) {
      lose(cycles.error().message);
      break;
    }
    Resident::Cycles& before = cycles_[static_cast<size_t>(ring)];
    operators += static_cast<double>(cycles->operators - before.operators);
    barriers += static_cast<double>(cycles->barriers - before.barriers);
    before = *cycles;
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
    if (const Running* r = active(group)) known -= cores(group) * seconds(until - r->started);
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
