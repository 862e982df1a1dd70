// The scheduler's side of a sub core: which of its instructions may be carried out, and when its
// program goes on.

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "machine.h"
#include "sub_core.h"

namespace weft::twin {

// Called by the program: returns when it may go on.
void SubCore::Block(State state) {
  if (order_ == Order::kEager) RunAll();
  state_ = state;
  if (state != State::kReady && state != State::kPolling && CanGoOn()) {
    state_ = State::kReady;
    return;
  }
  fiber_.Pause();
  state_ = State::kReady;
}

bool SubCore::CanGoOn() const {
  switch (state_) {
    case State::kReady:
      return true;
    case State::kFlag:
      return flags_[static_cast<int>(wait_event_) * kEventIds + wait_id_].set > 0;
    case State::kDrain:
      return queued_ == 0;
    case State::kSpace:
      return !queues_[wait_id_].full();
    case State::kCross:
      return cross_[wait_id_] > 0;
    case State::kPolling:
      return PolledChanged();
    case State::kDone:
      return false;
  }
  return false;
}

void SubCore::Resume() {
  current_sub_core = this;
  fiber_.Resume();
  current_sub_core = nullptr;
}

bool SubCore::Runnable(int pipe) const {
  if ((queued_ >> pipe & 1) == 0) return false;
  const Instruction& head = queues_[pipe].front();
  return head.kind != Instruction::Kind::kWaitFlag ||
         flags_[head.event * kEventIds + head.id].set > 0;
}

void SubCore::CarryOut(int pipe) {
  Instruction& head = queues_[pipe].front();
  carried_out_ = head.where;
  switch (head.kind) {
    default:
      break;  // never queued
    case Instruction::Kind::kWork:
      head.run(*this, head.payload.data());
      break;
    case Instruction::Kind::kSetFlag:
      ++flags_[head.event * kEventIds + head.id].set;
      break;
    case Instruction::Kind::kWaitFlag:
      --flags_[head.event * kEventIds + head.id].set;
      break;
    case Instruction::Kind::kCrossSet:
      SetCross(head.event, head.id, static_cast<pipe_t>(pipe));
      break;
  }
  queues_[pipe].pop();
  if (queues_[pipe].empty()) queued_ &= ~(1u << pipe);
}

void SubCore::SetCross(int mode, int id, pipe_t pipe) {
  const auto released =
      std::find_if(cross_released_.begin(), cross_released_.end(),
                   [&](const auto& entry) { return entry.first == static_cast<int>(pipe); });
  const Clock clock = released->second;
  cross_released_.erase(released);
  SubCore* vectors[] = {&machine_.Sibling(*this, Role::kVector0),
                        &machine_.Sibling(*this, Role::kVector1)};
  if (is_cube()) {
    for (SubCore* vector : vectors) {
      if (mode != 2) continue;
      vector->HearCross(id, *this, clock);
      vector->AddCross(id, carried_out_);
    }
    return;
  }
  // A wait for the vector cores passes when both have set the flag.
  SubCore& cube = machine_.Sibling(*this, Role::kCube);
  if (mode == 2) {
    cube.HearCross(id, *this, clock);
  } else {
    for (SubCore* vector : vectors) vector->HearCross(id, *this, clock);
  }
  half_where_[id] = carried_out_;
  auto& halves = machine_.HalfSets(core_, mode)[id];
  ++halves[role_ == Role::kVector0 ? 0 : 1];
  if (halves[0] == 0 || halves[1] == 0) return;
  --halves[0], --halves[1];
  if (mode == 2) {
    cube.AddCross(id, carried_out_);
  } else {
    for (SubCore* vector : vectors) vector->AddCross(id, carried_out_);
  }
}

// One instruction of a pipe drawn from those that can go on.
bool SubCore::RunOne() {
  const uint32_t first = rng_.Below(kPipes);
  for (uint32_t i = 0; i < kPipes; ++i) {
    const int pipe = static_cast<int>((first + i) % kPipes);
    if (Runnable(pipe)) {
      CarryOut(pipe);
      return true;
    }
  }
  return false;
}

// Everything that can be carried out now. Called by the program in the eager order.
bool SubCore::RunAll() {
  bool any = false;
  for (bool again = queued_ != 0; again;) {
    again = false;
    for (int pipe = 1; pipe < kPipes; ++pipe) {
      while (Runnable(pipe)) {
        CarryOut(pipe);
        again = any = true;
        if (machine_.fault) [[unlikely]] {
          if (current_sub_core == this) Stop();
          return true;
        }
      }
    }
  }
  return any;
}

bool SubCore::Turn() {
  if (finished_) return false;
  if (!on_their_way_.empty() && (order_ == Order::kEager || rng_.Below(4) == 0)) {
    Land(rng_.Below(static_cast<uint32_t>(on_their_way_.size())));
    return true;
  }
  const bool ready = CanGoOn();
  bool progress = false;
  if (queued_ != 0 && !(ready && (order_ != Order::kMixed || rng_.Below(2) == 0))) {
    const uint32_t most = order_ == Order::kMixed ? 1 + rng_.Below(16) : 1;
    for (uint32_t i = 0; i < most && !machine_.fault && RunOne(); ++i) progress = true;
    if (progress) return true;
  }
  if (ready) {
    Resume();
    return true;
  }
  if (!on_their_way_.empty()) {
    Land(rng_.Below(static_cast<uint32_t>(on_their_way_.size())));
    return true;
  }
  if (state_ == State::kDone && queued_ == 0) {
    // What was not cleaned may or may not reach memory.
    for (size_t i = 0; i < ScalarCache::kLines; ++i) {
      CacheLineState& line = cache_.At(i);
      if (line.address != nullptr && line.dirty != 0 && rng_.Below(2) == 0) WriteBack(line);
      line.address = nullptr;
    }
    while (!on_their_way_.empty() && !machine_.fault) Land(0);
    finished_ = true;
    return true;
  }
  return false;
}

void SubCore::LookAgain() {
  if (finished_ || state_ != State::kPolling) return;
  repeats_ = 0;
  patience_ = kLooks;
  Resume();
}

std::string SubCore::WaitingPlace() const {
  if (finished_) return {};
  std::string why;
  switch (state_) {
    case State::kReady:
      why = "runs";
      break;
    case State::kFlag:
      why = fmt::format("waits for SetFlag<HardEvent::{}>({})", event_name(wait_event_), wait_id_);
      break;
    case State::kDrain:
      why = "waits until its pipes have ended";
      break;
    case State::kSpace:
      why = fmt::format("waits for room in the queue of PIPE_{}",
                        pipe_name(static_cast<pipe_t>(wait_id_)));
      break;
    case State::kCross:
      why = fmt::format("waits in CrossCoreWaitFlag({})", wait_id_);
      break;
    case State::kPolling:
      why = "reads the same unchanged words of global memory";
      break;
    case State::kDone:
      why = "has ended its program";
      break;
  }
  std::string text = fmt::format("block {} {} {}", block_, role_name(), why);
  if (where_.line() != 0 && state_ != State::kDone) {
    text += " at " + place_of(where_);
  }
  for (int pipe = 1; pipe < kPipes; ++pipe) {
    if (queues_[pipe].empty()) continue;
    const Instruction& head = queues_[pipe].front();
    text += fmt::format(", PIPE_{} stands before {} at {}", pipe_name(static_cast<pipe_t>(pipe)),
                        head.name, place_of(head.where));
  }
  return text;
}

void SubCore::Abandon() {
  for (auto& queue : queues_) queue.clear();
  queued_ = 0;
  on_their_way_.clear();
  cache_.Clear();
  state_ = State::kDone;
  finished_ = true;
}

}  // namespace weft::twin
