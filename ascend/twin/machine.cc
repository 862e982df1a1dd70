#include "machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace weft::twin {
namespace {

constexpr uint64_t kAlignment = 512;
constexpr int kHostRounds = 4;  // of looks that pollers get each time the host waits for the device

}  // namespace

GlobalMemory::~GlobalMemory() {
  for (auto& [start, range] : ranges_) {
    if (range.owned) std::free(range.start);
  }
}

void* GlobalMemory::Allocate(uint64_t bytes) {
  const uint64_t rounded =
      (std::max<uint64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  if (rounded < bytes || used_ + rounded > capacity_) return nullptr;
  auto* memory = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, rounded));
  if (memory == nullptr) return nullptr;
  // A NaN as half and as float; only what is small enough to be worth it.
  std::memset(memory, 0x7f, std::min<uint64_t>(rounded, uint64_t{16} << 20));
  used_ += rounded;
  const uint64_t place = TakePlace();
  ranges_[memory] = {memory, bytes, true, place};
  return memory;
}

// Behind all ranges there are, so that what was removed again leaves no trace.
uint64_t GlobalMemory::TakePlace() const {
  uint64_t place = 0;
  for (const auto& [start, range] : ranges_) place = std::max(place, range.place + range.bytes);
  return (place + kAlignment - 1) / kAlignment * kAlignment;
}

void GlobalMemory::Add(void* memory, uint64_t bytes) {
  auto* start = static_cast<uint8_t*>(memory);
  const uint64_t place = TakePlace();
  ranges_[start] = {start, bytes, false, place};
}

bool GlobalMemory::Remove(void* memory, bool owned) {
  const auto found = ranges_.find(static_cast<uint8_t*>(memory));
  if (found == ranges_.end() || found->second.owned != owned) return false;
  if (owned) {
    used_ -=
        (std::max<uint64_t>(found->second.bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    std::free(memory);
  }
  ranges_.erase(found);
  return true;
}

const GlobalRange* GlobalMemory::Find(const void* start, uint64_t bytes) const {
  const auto* first = static_cast<const uint8_t*>(start);
  auto range = ranges_.upper_bound(first);
  if (range == ranges_.begin()) return nullptr;
  --range;
  const uint64_t offset = static_cast<uint64_t>(first - range->second.start);
  const bool inside = offset <= range->second.bytes && bytes <= range->second.bytes - offset;
  return inside ? &range->second : nullptr;
}

Machine::Machine(Options options)
    : options_(std::move(options)),
      memory_(options_.chip.hbm_bytes),
      cores_(static_cast<size_t>(std::max(1, options_.chip.cores))),
      rng_(options_.seed) {
  for (size_t core = 0; core < cores_.size(); ++core) {
    for (int i = 0; i < 3; ++i) {
      cores_[core].sub_cores[i] = std::make_unique<SubCore>(*this, static_cast<int>(core),
                                                            static_cast<Role>(i), options_.chip);
    }
  }
}

void Machine::Launch(Kernel kernel, int blocks, std::span<const std::byte> arguments) {
  Launched launch;
  launch.kernel = kernel, launch.blocks = blocks;
  launch.arguments.assign(arguments.begin(), arguments.end());
  launches_.push_back(std::move(launch));
}

void Machine::QueueCopy(void* target, const void* source, uint64_t bytes) {
  Launched copy;
  copy.target = target, copy.source = source, copy.bytes = bytes;
  launches_.push_back(std::move(copy));
}

void Machine::Raise(Fault raised) {
  if (!fault) fault = std::move(raised);
}

// Launches are ordered after each other: nothing of the last one is held against this.
void Machine::BeginLaunch(int blocks) {
  ++launches;
  const size_t actors = static_cast<size_t>(blocks) * 3;
  races_ = !options_.timing_only && actors <= GlobalShadow::kMostActors;
  shadow.Clear();
  records.Clear();
  line_writers.clear();
  host_ = std::make_shared<Knowledge>();
  host_->Start(actors);
}

namespace {
// Copies of more than this are data, not words that somebody waits for.
constexpr uint64_t kMostWords = 64 << 10;
}  // namespace

void Machine::HostReads(const void* start, uint64_t bytes) {
  if (!races_ || running_.empty() || bytes > kMostWords || records.empty()) return;
  auto known = std::make_shared<Knowledge>(*host_);
  bool any = false;
  const auto first = reinterpret_cast<uintptr_t>(start) / kLineBytes * kLineBytes;
  for (uintptr_t line = first; line < reinterpret_cast<uintptr_t>(start) + bytes;
       line += kLineBytes) {
    if (const auto* record = records.Find(reinterpret_cast<const uint8_t*>(line))) {
      if (record->knowledge == nullptr) continue;
      known->Join(*record->knowledge);
      any = true;
    }
  }
  if (any) host_ = std::move(known);
}

void Machine::HostWrites(const void* start, uint64_t bytes) {
  if (!races_ || running_.empty() || bytes > kMostWords) return;
  const auto first = reinterpret_cast<uintptr_t>(start) / kLineBytes * kLineBytes;
  for (uintptr_t line = first; line < reinterpret_cast<uintptr_t>(start) + bytes;
       line += kLineBytes) {
    auto& record = records.Of(reinterpret_cast<const uint8_t*>(line));
    record.host = host_;
    ++record.version;
  }
}

const SubCore* Machine::FindActor(uint16_t actor) const {
  for (const Core& core : cores_) {
    if (core.block == actor / 3) return core.sub_cores[actor % 3].get();
  }
  return nullptr;
}

// No more blocks than cores run at once; the others of a launch wait for one to become free.
void Machine::StartBlocks() {
  while (!launches_.empty()) {
    Launched& launch = launches_.front();
    if (launch.kernel == nullptr) {
      if (launch.bytes > 0) std::memcpy(launch.target, launch.source, launch.bytes);
      launches_.pop_front();
      continue;
    }
    if (next_block_ == 0 && running_.empty()) BeginLaunch(launch.blocks);
    for (Core& core : cores_) {
      if (next_block_ == launch.blocks) break;
      if (core.block >= 0) continue;
      core.block = next_block_++;
      core.half_sets = {};
      slow_ = static_cast<uint32_t>(rng_.Next()) & static_cast<uint32_t>(rng_.Next());
      for (auto& sub_core : core.sub_cores) {
        sub_core->Start(launch.kernel, launch.arguments.data(), core.block, launch.blocks,
                        rng_.Next(), options_.order);
        running_.push_back(sub_core.get());
      }
    }
    if (next_block_ < launch.blocks || !running_.empty()) return;
    launches_.pop_front();
    next_block_ = 0;
  }
}

// Frees the cores whose block has ended; true if there was one.
bool Machine::FinishBlocks() {
  bool any = false;
  for (Core& core : cores_) {
    if (core.block < 0) continue;
    const bool ended = std::all_of(core.sub_cores.begin(), core.sub_cores.end(),
                                   [](const auto& sub_core) { return sub_core->finished(); });
    if (!ended) continue;
    for (const auto& sub_core : core.sub_cores) {
      sub_core->CheckCrossFlags();
      std::erase(running_, sub_core.get());
    }
    core.block = -1;
    any = true;
  }
  return any;
}

// Everybody's turn, in order; false if nobody could do anything.
bool Machine::Sweep() {
  bool any = false;
  for (size_t i = 0; i < running_.size() && !fault; ++i) any |= running_[i]->Turn();
  return any;
}

void Machine::LookAgain() {
  for (size_t i = 0; i < running_.size() && !fault; ++i) running_[i]->LookAgain();
}

Outcome Machine::Run(uint64_t budget, bool wait_for_host) {
  // The program that runs is a variable of the process: devices take turns.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const uint64_t end = budget > ~instructions ? ~uint64_t{0} : instructions + budget;
  uint64_t turns = 0;
  idle_rounds = 0;
  while (!fault) {
    StartBlocks();
    if (running_.empty()) return Outcome::kEnded;
    if (instructions >= end || (end != ~uint64_t{0} && ++turns > 16 * budget)) {
      return Outcome::kPaused;
    }
    uint32_t idle = 0;
    bool progress = false;
    // A model of time wants each program to see what it waits for as soon as it is there.
    const uint32_t turns_drawn = options_.timing_only ? 0 : 64;
    for (uint32_t i = 0; i < turns_drawn && idle < 2 * running_.size() && !fault; ++i) {
      SubCore& chosen = *running_[rng_.Below(static_cast<uint32_t>(running_.size()))];
      if ((slow_ >> (chosen.core() % 32) & 1) != 0 && rng_.Below(8) != 0) continue;
      const bool done = chosen.Turn();
      progress |= done;
      idle = done ? 0 : idle + 1;
    }
    if (FinishBlocks() || progress || fault) continue;
    if (Sweep()) continue;
    const bool pollers = std::any_of(running_.begin(), running_.end(),
                                     [](const SubCore* core) { return core->polling(); });
    const int rounds = !pollers ? 0 : wait_for_host ? kHostRounds : options_.poll_rounds;
    if (fault) continue;
    if (idle_rounds < rounds) {
      ++idle_rounds;
      LookAgain();
    } else if (pollers && wait_for_host) {
      return Outcome::kIdle;
    } else {
      RaiseDeadlock();
    }
  }
  Abandon();
  return Outcome::kFault;
}

void Machine::RaiseDeadlock() {
  std::string text = "deadlock: nobody can go on";
  const Launched& launch = launches_.front();
  if (next_block_ < launch.blocks) {
    text += fmt::format("; {} of {} blocks have not begun, since the chip has {} cores",
                        launch.blocks - next_block_, launch.blocks, cores_.size());
  }
  const SubCore* first = nullptr;
  for (const SubCore* core : running_) {
    const std::string place = core->WaitingPlace();
    if (place.empty()) continue;
    if (first == nullptr || (first->where().line() == 0 && core->where().line() != 0)) first = core;
    text += "\n  " + place;
  }
  for (const SubCore* core : running_) text += core->DirtyLines();
  Fault raised;
  if (first != nullptr) {
    raised.block = first->block();
    raised.core = first->role_name();
    raised.file = short_path(first->where().file_name());
    raised.line = static_cast<int>(first->where().line());
  }
  raised.what = std::move(text);
  Raise(std::move(raised));
}

void Machine::Abandon() {
  for (Core& core : cores_) {
    for (auto& sub_core : core.sub_cores) sub_core->Abandon();
    core.block = -1;
  }
  running_.clear();
  launches_.clear();
  next_block_ = 0;
}

void Machine::Reset() {
  Abandon();
  fault.reset();
  line_writers.clear();
}

}  // namespace weft::twin
