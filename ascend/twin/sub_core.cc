#include "sub_core.h"

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "machine.h"

namespace weft::twin {

SubCore* current_sub_core = nullptr;

namespace {

// Numbers of instructions: what a shadow has room for, and what a clock has.
constexpr uint32_t kMostSinceBarrier = (1u << 28) - 1, kMostOfProgram = ~uint32_t{0};
constexpr uint32_t kQuantum = 64;  // instructions between pauses of a program that need not pause

// Between a copy that looks at words and the scalar unit that reads them.
bool orders_looks(AscendC::HardEvent event) {
  return event == AscendC::HardEvent::MTE2_S || event == AscendC::HardEvent::S_MTE2;
}

std::string set_again(AscendC::HardEvent event, int64_t id, const Where& before) {
  return fmt::format(
      "SetFlag<HardEvent::{}>({}) again, without a WaitFlag after the one at {}: take another "
      "event "
      "id",
      event_name(event), id, place_of(before));
}

}  // namespace

SubCore::SubCore(Machine& machine, int core, Role role, const Chip& chip)
    : machine_(machine),
      core_(core),
      role_(role),
      timing_only_(machine.options().timing_only),
      flags_(kHardEvents * kEventIds) {
  if (role == Role::kCube) {
    capacity_ = {0, chip.l1_bytes, chip.l0a_bytes, chip.l0b_bytes, chip.l0c_bytes};
  } else {
    capacity_ = {chip.ub_bytes, 0, 0, 0, 0};
  }
}

const char* role_name(Role role) {
  constexpr const char* kNames[] = {"AIC", "AIV 0", "AIV 1"};
  return kNames[static_cast<int>(role)];
}

void SubCore::Start(Kernel kernel, const std::byte* arguments, int block, int blocks, uint64_t seed,
                    Order order) {
  kernel_ = kernel, arguments_ = arguments, block_ = block, blocks_ = blocks;
  rng_ = Rng(seed);
  order_ = order == Order::kDrawn ? static_cast<Order>(1 + rng_.Below(3)) : order;
  if (timing_only_) order_ = Order::kEager;
  for (int i = 0; i < kBuffers; ++i) {
    // A pattern that is a NaN as half and as float.
    memory_[i].assign(capacity_[i], std::byte{0x7f});
    if (shadows_.size() < kBuffers) shadows_.emplace_back(static_cast<Buffer>(i), capacity_[i]);
    shadows_[i].Clear();
  }
  for (auto& queue : queues_) queue.clear();
  queued_ = 0;
  clocks_ = {};
  sequence_.fill(1);
  rewound_ = {};
  for (Flag& flag : flags_) flag = {};
  cross_ = {}, cross_clocks_ = {};
  cross_released_.clear();
  races_ = machine_.races();
  if (races_) {
    const size_t actors = static_cast<size_t>(blocks) * 3;
    known_.Start(actors), cross_known_.Start(actors);
    learnt_from_.assign(actors, nullptr);
  }
  known_version_ = 1, cross_versions_ = {}, cross_news_ = false;
  last_line_ = nullptr;
  event_pool_ = {}, release_flags_ = {};
  atomic_ = 0;
  has_pipe = false;
  cache_.Clear();
  on_their_way_.clear();
  Effect();
  last_copy_ = {};
  for (Brought& brought : brought_) brought.bytes = 0;
  quantum_ = 1 + rng_.Below(kQuantum);
  state_ = State::kReady;
  finished_ = false;
  fiber_.Start(&SubCore::Main, this);
}

void SubCore::Main(void* argument) {
  auto& self = *static_cast<SubCore*>(argument);
  self.kernel_(self.arguments_);
  self.where_ = {};
  self.Effect();
  self.Block(State::kDrain);
  self.FaultIfUnbalanced();
  self.state_ = State::kDone;
}

void SubCore::FaultIfUnbalanced() {
  if (timing_only_) return;
  for (int event = 0; event < kHardEvents; ++event) {
    for (int id = 0; id < kEventIds; ++id) {
      const Flag& left = flags_[event * kEventIds + id];
      if (left.balance != 0 && !(release_flags_[event] >> id & 1)) {
        Fail(left.where,
             fmt::format("SetFlag<HardEvent::{}>({}) has no WaitFlag by the end of the kernel",
                         event_name(static_cast<AscendC::HardEvent>(event)), id));
      }
    }
  }
}

void SubCore::Raise(const Where& where, std::string what) {
  Fault fault;
  fault.block = block_;
  fault.core = role_name();
  fault.file = short_path(where.file_name());
  fault.line = static_cast<int>(where.line());
  fault.what = std::move(what);
  machine_.Raise(std::move(fault));
}

void SubCore::Refuse(std::string what) { Raise(carried_out_, std::move(what)); }

void SubCore::Fail(const Where& where, std::string what) {
  Raise(where, std::move(what));
  Stop();
}

// The program is dropped where it stands, so nobody up the stack may own memory here.
void SubCore::Stop() {
  state_ = State::kDone;
  WEFT_CHECK(current_sub_core == this, "a program is stopped from outside");
  fiber_.Pause();
  WEFT_CHECK(false, "a program went on after its fault");
  std::abort();
}

int64_t SubCore::Ticks() {
  issuing_.name = "GetSystemCycle";
  Tell(PIPE_S, Instruction::Kind::kClock, 0, 0, {});
  return static_cast<int64_t>(machine_.instructions);
}

// ---- Issuing.

void SubCore::Count() {
  ++machine_.instructions;
  if (machine_.injection && machine_.injection->core == core_ &&
      machine_.injection->sub_core == static_cast<int>(role_)) [[unlikely]] {
    if (--machine_.injection->instruction == 0) {
      machine_.injection.reset();
      Fail(issuing_.where, "a fault injected into this core");
    }
  }
}

void SubCore::Begin(pipe_t pipe, const char* name, const Where& where, bool looks) {
  issuing_.pipe = pipe, issuing_.name = name, issuing_.where = where;
  if (!looks) Effect();
  Count();
  if (timing_only_) [[unlikely]]
    return;
  const uint32_t number = ++sequence_[pipe];
  if (number - rewound_[pipe] == kMostSinceBarrier || number == kMostOfProgram) [[unlikely]] {
    Fail(where,
         "more instructions of a pipe than the twin tells apart: 2^28 between two "
         "PipeBarrier<PIPE_ALL>, 2^32 in a program");
  }
  auto& past = past_[pipe];
  if (past.empty()) past.resize(kPast);
  past[number % kPast] = {where, name};
  // What the scalar unit has waited for is over for everything it issues from now on.
  Clock& clock = clocks_[pipe];
  const Clock& scalar = clocks_[PIPE_S];
  for (int i = 1; i < kPipes; ++i) {
    if (scalar.ended[i] > clock.ended[i]) clock.ended[i] = scalar.ended[i];
  }
}

void SubCore::Reads(Buffer buffer, const Pieces& pieces, bool must_be_written, bool own_order) {
  if (timing_only_) [[unlikely]]
    return;
  const pipe_t pipe = issuing_.pipe;
  const Conflict conflict = shadows_[static_cast<int>(buffer)].Read(
      pipe, sequence_[pipe], clocks_[pipe], pieces, must_be_written, own_order);
  if (conflict.hazard != Hazard::kNone) [[unlikely]]
    Report(conflict, buffer, false);
}

void SubCore::Writes(Buffer buffer, const Pieces& pieces, bool own_order) {
  if (timing_only_) [[unlikely]]
    return;
  if (buffer == Buffer::kUb && pieces.count > 0) {
    ForgetBrought(pieces.address, (pieces.count - 1) * pieces.stride + pieces.length);
  }
  const pipe_t pipe = issuing_.pipe;
  const Conflict conflict = shadows_[static_cast<int>(buffer)].Write(
      pipe, sequence_[pipe], clocks_[pipe], pieces, own_order);
  if (conflict.hazard != Hazard::kNone) [[unlikely]]
    Report(conflict, buffer, true);
}

void SubCore::Report(const Conflict& conflict, Buffer buffer, bool write) {
  Fail(issuing_.where, Describe(conflict, buffer, write));
}

std::string SubCore::PastPlace(pipe_t pipe, uint32_t sequence) const {
  const auto& pasts = past_[pipe];
  if (pasts.empty() || sequence_[pipe] - sequence >= kPast) return "an earlier instruction";
  const Past& past = pasts[sequence % kPast];
  return fmt::format("{} at {}", past.name, place_of(past.where));
}

std::string SubCore::Describe(const Conflict& conflict, Buffer buffer, bool write) const {
  const std::string target = fmt::format("{} at byte {}", buffer_name(buffer), conflict.address);
  if (conflict.hazard == Hazard::kUnwritten) {
    return fmt::format("{} reads {}, which was never written", issuing_.name, target);
  }
  const std::string earlier = PastPlace(conflict.pipe, conflict.sequence);
  const char* what = conflict.hazard == Hazard::kWriteAfterRead ? "still reads" : "still writes";
  std::string remedy;
  const pipe_t pipe = issuing_.pipe;
  if (conflict.pipe == pipe) {
    remedy = fmt::format("needs PipeBarrier<PIPE_{}>() between them", pipe_name(pipe));
  } else {
    const auto event = event_between(conflict.pipe, pipe);
    remedy = event == AscendC::HardEvent::MAX
                 ? std::string("needs a barrier between them")
                 : fmt::format("needs SetFlag and WaitFlag<HardEvent::{}> between them",
                               event_name(event));
  }
  return fmt::format("{} {} {}, which {} {}: {}", issuing_.name, write ? "writes" : "reads", target,
                     earlier, what, remedy);
}

void SubCore::Touches(const void* start, uint64_t bytes) {
  const GlobalRange* range = machine_.memory().Find(start, bytes);
  if (range == nullptr) [[unlikely]] {
    const GlobalRange* begins = machine_.memory().Find(start, 1);
    Fail(issuing_.where,
         begins == nullptr
             ? fmt::format("{} touches {} bytes of global memory at {}, which nobody allocated",
                           issuing_.name, bytes, start)
             : fmt::format("{} touches {} bytes of global memory, {} bytes beyond the end of an "
                           "allocation of {}",
                           issuing_.name, bytes,
                           static_cast<const uint8_t*>(start) + bytes - begins->start -
                               static_cast<int64_t>(begins->bytes),
                           begins->bytes));
  }
  in_own_memory_ = range->owned;
  place_ = range->place + static_cast<uint64_t>(static_cast<const uint8_t*>(start) - range->start);
}

Instruction& SubCore::Slot(pipe_t pipe) {
  if (queues_[pipe].full()) [[unlikely]] {
    where_ = issuing_.where;
    wait_id_ = pipe;
    const auto issuing = issuing_;
    Block(State::kSpace);
    issuing_ = issuing;
  }
  Instruction& slot = queues_[pipe].push();
  queued_ |= 1u << pipe;
  slot.where = issuing_.where;
  slot.name = issuing_.name;
  return slot;
}

void SubCore::Tell(pipe_t pipe, Instruction::Kind kind, int event, int id, const Work& work) {
  counters_.bytes[pipe] += work.bytes;
  if (machine_.listener == nullptr) [[likely]]
    return;
  twin::Issued issued;
  issued.core = core_, issued.sub_core = static_cast<int>(role_);
  issued.pipe = pipe, issued.kind = kind, issued.name = issuing_.name;
  issued.event = static_cast<uint8_t>(event), issued.id = static_cast<uint8_t>(id);
  issued.place = place_;
  issued.work = work, issued.where = issuing_.where;
  machine_.listener->OnIssue(issued);
}

void SubCore::Issued(Instruction& slot, const Work& work) {
  Tell(issuing_.pipe, slot.kind, slot.event, slot.id, work);
  if (order_ == Order::kEager) {
    RunAll();
  } else if (--quantum_ == 0) {
    quantum_ = 1 + rng_.Below(kQuantum);
    Block(State::kReady);
  }
}

// ---- Flags and barriers.

void SubCore::SetFlag(AscendC::HardEvent event, int64_t id, const Where& where) {
  const pipe_t source = event_source(event);
  Begin(source, "SetFlag", where, orders_looks(event));
  if (id < 0 || id >= kEventIds) {
    Fail(where, fmt::format("event id {} is not one of 0 to {}", id, kEventIds - 1));
  }
  if (timing_only_) [[unlikely]] {
    return Tell(source, Instruction::Kind::kSetFlag, static_cast<int>(event), static_cast<int>(id),
                {});
  }
  Flag& flag = this->flag(event, id);
  if (flag.balance != 0) {
    Fail(where, set_again(event, id, flag.where));
  }
  ++flag.balance;
  flag.where = where;
  flag.clock = clocks_[source];
  flag.clock.ended[source] = sequence_[source];
  if (source == PIPE_S) {
    ++flag.set;
    return;
  }
  Instruction& slot = Slot(source);
  slot.kind = Instruction::Kind::kSetFlag;
  slot.event = static_cast<uint8_t>(event), slot.id = static_cast<uint8_t>(id);
  Issued(slot, {});
}

void SubCore::WaitFlag(AscendC::HardEvent event, int64_t id, const Where& where) {
  const pipe_t target = event_target(event);
  Begin(target, "WaitFlag", where, orders_looks(event));
  if (id < 0 || id >= kEventIds) {
    Fail(where, fmt::format("event id {} is not one of 0 to {}", id, kEventIds - 1));
  }
  if (timing_only_) [[unlikely]] {
    return Tell(target, Instruction::Kind::kWaitFlag, static_cast<int>(event), static_cast<int>(id),
                {});
  }
  Flag& flag = this->flag(event, id);
  if (flag.balance != 1) {
    Fail(where,
         fmt::format("WaitFlag<HardEvent::{}>({}) without a SetFlag before it waits for ever",
                     event_name(event), id));
  }
  --flag.balance;
  clocks_[target].Join(flag.clock);
  if (target == PIPE_S) {
    where_ = where, wait_event_ = event, wait_id_ = static_cast<int>(id);
    if (flag.set == 0) Block(State::kFlag);
    --flag.set;
    return;
  }
  Instruction& slot = Slot(target);
  slot.kind = Instruction::Kind::kWaitFlag;
  slot.event = static_cast<uint8_t>(event), slot.id = static_cast<uint8_t>(id);
  Issued(slot, {});
}

void SubCore::Barrier(pipe_t pipe, const Where& where) {
  if (timing_only_) [[unlikely]] {
    issuing_.name = "PipeBarrier", issuing_.where = where;
    return Tell(pipe == PIPE_ALL ? PIPE_S : pipe, Instruction::Kind::kBarrier, 0, 0, {});
  }
  if (pipe != PIPE_ALL) {
    if (clocks_[pipe].ended[pipe] == sequence_[pipe]) return;  // nothing since the last one
    clocks_[pipe].ended[pipe] = sequence_[pipe];
    return;
  }
  where_ = where;
  if (queued_ != 0) Block(State::kDrain);
  for (int i = 0; i < kPipes; ++i) clocks_[PIPE_S].ended[i] = sequence_[i];
  for (int i = 1; i < kPipes; ++i) clocks_[i] = clocks_[PIPE_S];
  RewindIfNeeded();
}

// The shadows' numbers are small: when nothing is under way they begin anew. The sub core's own go
// on, since other cores know of them.
void SubCore::RewindIfNeeded() {
  bool needed = false;
  for (int i = 0; i < kPipes; ++i) {
    needed |= sequence_[i] - rewound_[i] > machine_.options().rewind_after;
  }
  if (!needed) return;
  for (Shadow& shadow : shadows_) shadow.Rewind(sequence_);
  rewound_ = sequence_;
}

void SubCore::CrossCoreSet(int mode, pipe_t pipe, int64_t id, const Where& where) {
  Begin(pipe, "CrossCoreSetFlag", where);
  if (id < 0 || id >= kCrossFlags) Fail(where, fmt::format("flag id {} is not one of 0 to 15", id));
  if (id >= 11 && id <= 14) {
    Fail(where, fmt::format("flag id {}: 11 to 14 belong to SyncAll", id));
  }
  Clock clock = clocks_[pipe];
  clock.ended[pipe] = sequence_[pipe];
  cross_released_.emplace_back(static_cast<int>(pipe), clock);
  if (timing_only_) [[unlikely]] {
    Tell(pipe, Instruction::Kind::kCrossSet, mode, static_cast<int>(id), {});
    carried_out_ = where;
    return SetCross(mode, static_cast<int>(id), pipe);
  }
  Instruction& slot = Slot(pipe);
  slot.kind = Instruction::Kind::kCrossSet;
  slot.event = static_cast<uint8_t>(mode), slot.id = static_cast<uint8_t>(id);
  Issued(slot, {});
}

void SubCore::HearCross(int id, const SubCore& from, const Clock& clock) {
  cross_clocks_[id][static_cast<int>(from.role_)].Join(clock);
  uint64_t& version = cross_versions_[static_cast<int>(from.role_)];
  if (!races_ || version == from.known_version_) return;
  version = from.known_version_;
  cross_known_.Join(from.known_);
  cross_news_ = true;
}

void SubCore::AddCross(int id, const Where& where) {
  cross_where_[id] = where;
  if (++cross_[id] > 15) {
    Raise(where, fmt::format("flag {} was set 16 times more than {} waited for it: the chip hangs",
                             id, role_name()));
  }
}

void SubCore::CrossCoreWait(int64_t id, const Where& where) {
  Begin(PIPE_S, "CrossCoreWaitFlag", where);
  if (id < 0 || id >= kCrossFlags) Fail(where, fmt::format("flag id {} is not one of 0 to 15", id));
  where_ = where, wait_id_ = static_cast<int>(id);
  if (cross_[id] == 0) Block(State::kCross);
  --cross_[id];
  LearnFromCross(static_cast<int>(id));
  Tell(PIPE_S, Instruction::Kind::kCrossWait, 0, static_cast<int>(id), {});
}

void SubCore::CheckCrossFlags() {
  for (int id = 0; id < kCrossFlags; ++id) {
    if (cross_[id] == 0) continue;
    Raise(cross_where_[id],
          fmt::format("CrossCoreSetFlag({}) happened {} times more than {} waited for it", id,
                      cross_[id], role_name()));
  }
  if (is_cube()) return;
  const size_t own = role_ == Role::kVector0 ? 0 : 1;
  for (int mode = 0; mode < Machine::kCrossModes; ++mode) {
    const Machine::Halves& halves = machine_.HalfSets(core_, mode);
    for (int id = 0; id < kCrossFlags; ++id) {
      if (halves[id][own] == 0) continue;
      Raise(half_where_[id],
            fmt::format("CrossCoreSetFlag({}) happened {} times more on {} than on the other "
                        "vector core",
                        id, halves[id][own], role_name()));
    }
  }
}

// ---- Local memory from the scalar unit.

void SubCore::LoadLocal(Buffer buffer, uint32_t address, void* value, uint32_t bytes,
                        const Where& where) {
  Begin(PIPE_S, "GetValue", where, true);
  Tell(PIPE_S, Instruction::Kind::kScalar, 0, 0, {});
  Reads(buffer, {address, bytes, 0, 1}, buffer == Buffer::kUb);
  std::memcpy(value, memory(buffer) + address, bytes);
  if (buffer == Buffer::kUb) LookAt(address, value, bytes, where);
}

void SubCore::StoreLocal(Buffer buffer, uint32_t address, const void* value, uint32_t bytes,
                         const Where& where) {
  Begin(PIPE_S, "SetValue", where);
  Tell(PIPE_S, Instruction::Kind::kScalar, 0, 0, {});
  clocks_[PIPE_S].ended[PIPE_S] = sequence_[PIPE_S];
  Writes(buffer, {address, bytes, 0, 1}, true);
  std::memcpy(memory(buffer) + address, value, bytes);
}

void SubCore::ForgetBuffer(Buffer buffer, uint32_t bytes) {
  // Only reads of these two are held against a kernel that has not written before.
  if (buffer != Buffer::kUb && buffer != Buffer::kL0c) return;
  if (buffer == Buffer::kUb) ForgetBrought(0, bytes);
  for (int i = 1; i < kPipes; ++i) {
    // Of what touches it, something may still be under way.
    const bool touches = buffer == Buffer::kUb || i == PIPE_M || i == PIPE_FIX;
    if (touches && clocks_[PIPE_S].ended[i] != sequence_[i]) return;
  }
  shadows_[static_cast<int>(buffer)].Forget(bytes);
}

}  // namespace weft::twin
