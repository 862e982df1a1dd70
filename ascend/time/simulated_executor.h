#pragma once
// SimulatedExecutor: a device without bytes, on which quanta take the time that the kernels would
// take on a chip. Two groups that run at once share the bandwidth of HBM.
//
// It moves the clock: wait() sets it to the end of the quantum that ends next.

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "device/executor.h"
#include "time/quantum_steps.h"

namespace weft::timing {

enum class Launches : uint8_t {
  kEpoch,  // the kernel is resident: quanta are handed to it through its rings
  kLayer,  // a kernel for each layer, as without a resident one
};

struct SimulatedOptions {
  ExecutorLimits limits;
  int prefill_cores = 0;  // both 0: no groups; or together all
  int decode_cores = 0;
  Launches launches = Launches::kEpoch;
  FixedCosts fixed;
};

// What the chip did so far; pipes in seconds, of all that there are of a kind.
struct Totals {
  OperatorTime operators;
  double flops = 0;  // that the model needs: products of its matrices, and attention
};

// A step that a group ran, for pictures.
struct StepSpan {
  Group group = Group::kAll;
  const char* name = "";
  int layer = 0;
  uint64_t quantum = 0;  // that it is a part of
  int prompt_rows = 0;   // of its passes that have rows of prompts
  int single_rows = 0;   // and of its others
  double work = 0;       // share of the time in which a core works, on the average
  TimePoint begin{};
  TimePoint end{};
};

// A quantum that a group runs.
struct RunningQuantum {
  std::vector<Step> steps;
  int prompt_rows = 0;
  int single_rows = 0;
  size_t next = 0;
  double left = 0;     // seconds of the step, were it alone
  double rate = 0;     // seconds of it in a second; 0: it waits
  bool waits = false;  // for senders
  double began = 0;    // the step
  double start = 0;
  std::vector<BoardId> sends, follows;
  Completion completion;
};

class SimulatedExecutor final : public Executor {
 public:
  // Of the teams that there are: all cores, prompts' and streams'; shared by executors that do not
  // run at once. They and the clock must outlive this.
  using Teams = std::array<OperatorTimes*, kGroups>;
  SimulatedExecutor(const Teams& teams, FakeClock& clock, const SimulatedOptions& options);

  const ExecutorLimits& limits() const override { return options_.limits; }
  int layers() const override { return shape_.layers; }
  int vocab() const override { return shape_.vocab; }
  int cores(Group group) const override;
  std::string description() const override;

  void open_slot(SlotId, const SlotInit&) override {}
  void close_slot(SlotId) override {}
  void start(Group group, const Quantum& quantum) override;
  [[nodiscard]] bool wait(TimePoint deadline, Completion& completion) override;
  void drop_pass(PassId) override {}
  void drop_rows(PassId, int64_t, int64_t) override {}
  CoreTime core_time() const override;
  TimePoint last_layer_end() const override { return clock_.now(); }

  const Totals& totals() const { return totals_; }
  void set_on_step(std::function<void(const StepSpan&)> on_step) { on_step_ = std::move(on_step); }

 private:
  using Running = RunningQuantum;

  double now() const { return seconds(clock_.now().time_since_epoch()); }
  OperatorTimes& times(Group group) { return *teams_[static_cast<size_t>(group)]; }
  void Enter(Running& running);
  bool SendersWent(const Running& running) const;
  void ShareBandwidth();
  void EndStep(Group group, Running& running, double time);
  void Report(const Quantum& quantum, Completion& completion) const;
  void Account(const QuantumRows& rows, int layers, bool ends);

  const Teams teams_;
  FakeClock& clock_;
  const SimulatedOptions options_;
  const ModelShape shape_;
  std::array<std::optional<Running>, kGroups> running_;
  std::vector<int> sent_;  // layers, by board
  double time_ = 0;        // up to which running quanta have been followed
  CoreTime core_time_;
  double began_ = 0;
  Totals totals_;
  std::function<void(const StepSpan&)> on_step_;
};

}  // namespace weft::timing
