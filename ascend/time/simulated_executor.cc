#include "time/simulated_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace weft::timing {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr TokenId kToken = 0;

TimePoint time_point(double time) { return TimePoint(Duration(std::llround(time * 1e9))); }

}  // namespace

SimulatedExecutor::SimulatedExecutor(const Teams& teams, FakeClock& clock,
                                     const SimulatedOptions& options)
    : teams_(teams),
      clock_(clock),
      options_(options),
      shape_(teams[0]->shape()),
      sent_(static_cast<size_t>(options.limits.passes), 0),
      began_(now()) {
  time_ = began_;
}

int SimulatedExecutor::cores(Group group) const {
  const OperatorTimes* times = teams_[static_cast<size_t>(group)];
  return times == nullptr ? 0 : times->cores();
}

std::string SimulatedExecutor::description() const {
  const std::string cores =
      options_.decode_cores > 0
          ? fmt::format("{} + {} cores", options_.prefill_cores, options_.decode_cores)
          : fmt::format("{} cores", teams_[0]->cores());
  return fmt::format("simulated {}, {}{}", teams_[0]->model().name, cores,
                     options_.launches == Launches::kLayer ? ", a launch for each layer" : "");
}

void SimulatedExecutor::start(Group group, const Quantum& quantum) {
  auto& place = running_[static_cast<size_t>(group)];
  WEFT_CHECK(!place, "a group's quantum is started while another runs");
  const QuantumRows rows = rows_of(quantum);
  Running& running = place.emplace();
  running.steps = steps_of(times(group), rows,
                           {quantum.layer_begin, quantum.layer_end, shape_.layers}, options_.fixed);
  if (options_.launches == Launches::kLayer) {
    int layer = -1;
    for (Step& step : running.steps) {
      if (step.layer == layer) continue;
      layer = step.layer;
      step.time.seconds += times(group).model().launch;
    }
  }
  for (const Pass* pass : quantum.passes) {
    const bool prompts = std::any_of(pass->segments.begin(), pass->segments.end(),
                                     [](const Segment& segment) { return segment.rows > 1; });
    for (const Segment& segment : pass->segments)
      (prompts ? running.prompt_rows : running.single_rows) += segment.rows;
    if (pass->sends != kNoBoard) {
      running.sends.push_back(pass->sends);
      if (quantum.layer_begin == 0) sent_[static_cast<size_t>(pass->sends)] = 0;
    }
    const bool here = std::any_of(quantum.passes.begin(), quantum.passes.end(),
                                  [&](const Pass* p) { return p->sends == pass->follows; });
    if (pass->follows != kNoBoard && !here) running.follows.push_back(pass->follows);
  }
  const bool ends = quantum.layer_end == shape_.layers;
  Account(rows, quantum.layer_end - quantum.layer_begin, ends);
  running.completion.quantum = quantum.id;
  if (ends) Report(quantum, running.completion);
  time_ = std::max(time_, now());
  // The host's way from the last quantum to this one.
  running.start = now() + times(group).model().host_turn;
  running.steps.front().time.seconds += times(group).model().host_turn;
  running.completion.start = clock_.now();
  Enter(running);
}

void SimulatedExecutor::Report(const Quantum& quantum, Completion& completion) const {
  for (const Pass* pass : quantum.passes) {
    for (size_t i = 0; i < pass->segments.size(); ++i) {
      const Segment& segment = pass->segments[i];
      if (segment.outputs == Outputs::kNone) continue;
      const int first = segment.outputs == Outputs::kAll ? 0 : segment.rows - 1;
      for (int row = first; row < segment.rows; ++row) {
        OutputRow& output = completion.outputs.emplace_back();
        output.pass = pass->id;
        output.segment = static_cast<int32_t>(i);
        output.row = row;
        output.token =
            segment.outputs == Outputs::kAll && segment.targets[static_cast<size_t>(row)] != kSample
                ? segment.targets[static_cast<size_t>(row)]
                : kToken;
      }
    }
  }
}

// What the model asks for, whatever the kernels do.
void SimulatedExecutor::Account(const QuantumRows& rows, int layers, bool ends) {
  double looks = 0;  // of a row at a key
  for (const QuantumRows::Run& run : rows.prompts)
    looks += run.rows * (run.first + (run.rows + 1) / 2.0);
  for (const double context : rows.contexts) looks += context;
  const double layer = 2 * shape_.layer_weights() * rows.rows() + 4 * shape_.queries() * looks;
  totals_.flops += layers * layer + (ends ? 2 * shape_.head_weights() * rows.outputs() : 0);
}

bool SimulatedExecutor::SendersWent(const Running& running) const {
  const Step& step = running.steps[running.next];
  return std::all_of(running.follows.begin(), running.follows.end(),
                     [&](BoardId board) { return sent_[static_cast<size_t>(board)] > step.layer; });
}

// The next step begins, or waits for senders.
void SimulatedExecutor::Enter(Running& running) {
  const Step& step = running.steps[running.next];
  running.left = step.time.seconds;
  running.began = time_;
  running.waits = step.after_senders && !SendersWent(running);
}

// Those that run at once get as much of the bandwidth as they ask for, while there is enough;
// beyond, each of their cores gets as much as any other. One alone may ask for more than there is:
// a part of its bytes has come before it began.
void SimulatedExecutor::ShareBandwidth() {
  const double bandwidth = teams_[0]->model().hbm_bandwidth;
  double wanted = 0;
  double cores = 0;
  int asking = 0;
  std::array<double, kGroups> demand{};
  for (size_t g = 0; g < running_.size(); ++g) {
    if (!running_[g]) continue;
    Running& running = *running_[g];
    running.rate = running.waits ? 0 : 1;
    if (running.waits) continue;
    const OperatorTime& time = running.steps[running.next].time;
    if (time.seconds > 0) demand[g] = time.hbm_bytes / time.seconds;
    if (demand[g] > 0) ++asking;
    wanted += demand[g];
    cores += teams_[g]->cores();
  }
  if (asking < 2 || wanted <= bandwidth) return;
  std::array<bool, kGroups> kept{};
  double left = bandwidth;
  for (bool again = true; again;) {
    again = false;
    for (size_t g = 0; g < running_.size(); ++g) {
      if (!running_[g] || kept[g] || running_[g]->waits) continue;
      if (demand[g] > left * teams_[g]->cores() / cores) continue;
      kept[g] = again = true;
      left -= demand[g];
      cores -= teams_[g]->cores();
    }
  }
  for (size_t g = 0; g < running_.size(); ++g) {
    if (!running_[g] || kept[g] || running_[g]->waits) continue;
    running_[g]->rate = left * teams_[g]->cores() / cores / demand[g];
  }
}

void SimulatedExecutor::EndStep(Group group, Running& running, double time) {
  const Step& step = running.steps[running.next];
  totals_.operators += step.time;
  if (on_step_) {
    on_step_({.group = group,
              .name = step.name,
              .layer = step.layer,
              .quantum = running.completion.quantum,
              .prompt_rows = running.prompt_rows,
              .single_rows = running.single_rows,
              .work = time > running.began ? step.time.work / (time - running.began) : 0,
              .begin = time_point(running.began),
              .end = time_point(time)});
  }
  if (step.sends) {
    for (const BoardId board : running.sends) sent_[static_cast<size_t>(board)] = step.layer + 1;
    for (auto& other : running_) {
      if (other && other->waits && SendersWent(*other)) {
        other->waits = false;
        other->began = time;
      }
    }
  }
  // The cores work within operators; the rest of a step they wait for each other.
  running.completion.busy_core_seconds += step.time.work * times(group).cores();
  if (++running.next < running.steps.size()) Enter(running);
}

bool SimulatedExecutor::wait(TimePoint deadline, Completion& completion) {
  const double until = deadline == TimePoint::max() ? kNever : seconds(deadline.time_since_epoch());
  for (;;) {
    ShareBandwidth();
    double end = kNever;
    size_t which = running_.size();
    for (size_t g = 0; g < running_.size(); ++g) {
      if (!running_[g] || running_[g]->rate == 0) continue;
      const double at = time_ + running_[g]->left / running_[g]->rate;
      if (at < end) end = at, which = g;
    }
    WEFT_CHECK(which < running_.size(), "every quantum waits for another");
    const double next = std::min(end, until);
    for (auto& running : running_) {
      if (running) running->left -= (next - time_) * running->rate;
    }
    time_ = next;
    if (until < end) {
      clock_.advance(deadline - clock_.now());
      return false;
    }
    const auto group = static_cast<Group>(which);
    EndStep(group, *running_[which], time_);
    Running& running = *running_[which];
    if (running.next < running.steps.size()) continue;
    clock_.advance(time_point(time_) - clock_.now());
    running.completion.end = clock_.now();
    const double cores = times(group).cores();
    const double all = cores * (time_ - running.start);
    running.completion.barrier_core_seconds =
        std::max(0.0, all - running.completion.busy_core_seconds);
    core_time_.operators += running.completion.busy_core_seconds;
    core_time_.barriers += running.completion.barrier_core_seconds;
    completion = std::move(running.completion);
    running_[which].reset();
    return true;
  }
}

CoreTime SimulatedExecutor::core_time() const {
  CoreTime time = core_time_;
  double until = 0;  // core-seconds that have passed, but for those within running quanta
  until = (now() - began_) * teams_[0]->cores();
  for (size_t g = 0; g < running_.size(); ++g) {
    if (running_[g]) until -= std::max(0.0, now() - running_[g]->start) * teams_[g]->cores();
  }
  time.idle = std::max(0.0, until - time.operators - time.barriers);
  return time;
}

}  // namespace weft::timing
