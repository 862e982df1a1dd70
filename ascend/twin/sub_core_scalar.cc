// Scalar accesses to global memory: the cache, lines on their way to memory, and polling.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "machine.h"
#include "sub_core.h"

namespace weft::twin {
namespace {

constexpr size_t kMostPolled = 64;

uint8_t* line_of(const void* address) {
  return reinterpret_cast<uint8_t*>(reinterpret_cast<uintptr_t>(address) / kLineBytes * kLineBytes);
}

uint64_t bits(uint64_t offset, uint64_t bytes) {
  return (bytes == kLineBytes ? ~uint64_t{0} : (uint64_t{1} << bytes) - 1) << offset;
}

}  // namespace

// The slot of the line that was touched last, read from memory if need be.
CacheLineState& SubCore::Fetch(uint8_t* line) {
  if (CacheLineState* held = cache_.Find(line, place_)) return *held;
  // A core sees its own writes, on their way or not.
  for (size_t i = 0; i < on_their_way_.size(); ++i) {
    if (on_their_way_[i].address == line) Land(i--);
  }
  CacheLineState& slot = cache_.SlotOf(place_);
  if (slot.address != nullptr && slot.dirty != 0) WriteBack(slot);
  cache_.Fill(slot, line);
  Learn(line);
  // Now and then another line has to go.
  if (rng_.Below(16) == 0) {
    CacheLineState& other = cache_.At(rng_.Below(ScalarCache::kLines));
    if (&other != &slot && other.address != nullptr) {
      if (other.dirty != 0) WriteBack(other);
      other.address = nullptr;
    }
  }
  return slot;
}

void SubCore::Load(const void* address, void* value, uint32_t bytes, const Where& where) {
  issuing_.pipe = PIPE_S, issuing_.name = "GetValue", issuing_.where = where;
  Touches(address, bytes);
  const auto offset = reinterpret_cast<uintptr_t>(address) % kLineBytes;
  if (offset + bytes > kLineBytes)
    Fail(where, "GetValue of a word that is not aligned to its size");
  uint8_t* line = line_of(address);
  CacheLineState* slot = cache_.Find(line, place_);
  if (slot != nullptr && (slot->dirty & bits(offset, bytes)) == 0 &&
      std::memcmp(slot->fetched.data() + offset, address, bytes) != 0) {
    Fail(where,
         "GetValue finds an old value in the scalar cache, memory has changed since: call "
         "DataCacheCleanAndInvalid on the line first");
  }
  if (slot == nullptr) slot = &Fetch(line);
  if (machine_.fault) Stop();
  std::memcpy(value, slot->data.data() + offset, bytes);
  uint64_t seen = 0;
  std::memcpy(&seen, value, bytes);
  Tell(PIPE_S, Instruction::Kind::kLoad, 0, 0, {});
  NotePoll(static_cast<const uint8_t*>(address), bytes, seen, where);
}

// It does something else than to wait for words in global memory.
void SubCore::Effect() {
  polled_.clear(), repeats_ = 0, patience_ = kPatience;
  copies_again_ = false;
  machine_.idle_rounds = 0;
}

// A program that reads the same words again, finds them as they were and does nothing else in
// between will not do anything else before one of them changes.
void SubCore::NotePoll(const uint8_t* address, uint32_t bytes, uint64_t value, const Where& where) {
  const auto found = std::find_if(polled_.begin(), polled_.end(),
                                  [&](const Polled& polled) { return polled.address == address; });
  if (found == polled_.end()) {
    // A program that polls so many words would rather be one that reads a table.
    if (polled_.size() == kMostPolled) polled_.clear();
    polled_.push_back({address, bytes, value});
    repeats_ = 0;
    return;
  }
  if (found->value != value) {
    found->value = value;
    repeats_ = 0;
    return;
  }
  // The words of the loop are those read since this one; it was first in the last round.
  const auto words = static_cast<uint32_t>(polled_.end() - found);
  std::rotate(found, found + 1, polled_.end());
  if (++repeats_ < patience_ * words) return;
  polled_.erase(polled_.begin(), polled_.end() - words);
  repeats_ = 0, patience_ = kPatience;
  where_ = where;
  Block(State::kPolling);
}

// ---- Words that a copy brings to UB, where the scalar unit reads them.

// Copies of more than this are data.
constexpr uint32_t kMostLookedAt = 16 << 10;

void SubCore::NoteCopy(const GlobalPieces& pieces) {
  const bool again = pieces.start == last_copy_.start && pieces.count == last_copy_.count &&
                     pieces.length == last_copy_.length && pieces.stride == last_copy_.stride;
  if (!again) Effect();
  copies_again_ = again;
  last_copy_ = pieces;
}

void SubCore::ForgetBrought(uint32_t address, uint32_t bytes) {
  for (Brought& brought : brought_) {
    if (address < brought.address + brought.bytes && brought.address < address + bytes)
      brought.bytes = 0;
  }
}

void SubCore::WillBring(uint32_t address, const uint8_t* from, uint32_t bytes) {
  ForgetBrought(address, bytes);
  if (bytes > kMostLookedAt) return;
  Brought& brought = brought_[next_brought_];
  next_brought_ = (next_brought_ + 1) % brought_.size();
  brought.address = address, brought.bytes = bytes, brought.from = from;
  brought.lines.clear();
}

void SubCore::Brings(uint32_t address, const uint8_t* from) {
  if (!races_) return;
  for (Brought& brought : brought_) {
    if (brought.bytes == 0 || brought.address != address || brought.from != from) continue;
    brought.lines.clear();
    if (!machine_.records.Near(from, brought.bytes)) continue;
    for (const uint8_t* line = line_of(from); line < from + brought.bytes; line += kLineBytes) {
      const LineRecords::Record* record = machine_.records.Find(line);
      brought.lines.push_back(record == nullptr ? LineRecords::Record{} : *record);
    }
  }
}

// The scalar unit reads a word of UB: if a copy brought it, that is a look at global memory, as it
// was when the copy was carried out.
void SubCore::LookAt(uint32_t address, const void* value, uint32_t bytes, const Where& where) {
  for (const Brought& brought : brought_) {
    if (address < brought.address || address + bytes > brought.address + brought.bytes) continue;
    const uint8_t* from = brought.from + (address - brought.address);
    if (!brought.lines.empty()) {
      const uint8_t* line = line_of(from);
      LearnFrom(line,
                brought.lines[static_cast<size_t>(line - line_of(brought.from)) / kLineBytes]);
    }
    uint64_t seen = 0;
    std::memcpy(&seen, value, std::min<size_t>(bytes, sizeof(seen)));
    if (copies_again_) NotePoll(from, bytes, seen, where);
    return;
  }
}

bool SubCore::PolledChanged() const {
  for (const Polled& polled : polled_) {
    uint64_t now = 0;
    std::memcpy(&now, polled.address, polled.bytes);
    if (now != polled.value) return true;
  }
  return false;
}

void SubCore::Store(void* address, const void* value, uint32_t bytes, const Where& where) {
  Begin(PIPE_S, "SetValue", where);
  Touches(address, bytes);
  Tell(PIPE_S, Instruction::Kind::kStore, 0, 0, {});
  const auto offset = reinterpret_cast<uintptr_t>(address) % kLineBytes;
  if (offset + bytes > kLineBytes)
    Fail(where, "SetValue of a word that is not aligned to its size");
  CacheLineState& slot = Fetch(line_of(address));
  if (machine_.fault) Stop();
  std::memcpy(slot.data.data() + offset, value, bytes);
  slot.dirty |= bits(offset, bytes);
  slot.written = where;
}

void SubCore::CleanAndInvalidate(const void* address, const Where& where) {
  issuing_.pipe = PIPE_S, issuing_.name = "DataCacheCleanAndInvalid", issuing_.where = where;
  Touches(address, 1);
  Tell(PIPE_S, Instruction::Kind::kRefresh, 0, 0, {});
  if (CacheLineState* slot = cache_.Find(line_of(address), place_)) {
    if (slot->dirty != 0) WriteBack(*slot);
    slot->address = nullptr;
  }
  if (machine_.fault) Stop();
}

void SubCore::DataSyncBarrier(const Where&) {
  issuing_.name = "DataSyncBarrier";
  Tell(PIPE_S, Instruction::Kind::kSync, 0, 0, {});
  while (!on_their_way_.empty() && !machine_.fault) Land(0);
  if (machine_.fault) Stop();
}

// The line leaves the cache; it is in memory at the latest when DataSyncBarrier returns.
void SubCore::WriteBack(CacheLineState& slot) {
  for (size_t i = 0; i < on_their_way_.size(); ++i) {
    if (on_their_way_[i].address == slot.address) Land(i--);
  }
  slot.released = clocks_[PIPE_S];
  slot.released.ended[PIPE_S] = sequence_[PIPE_S];
  on_their_way_.push_back(slot);
  slot.dirty = 0;
  slot.fetched = slot.data;
  if (order_ == Order::kEager) Land(on_their_way_.size() - 1);
}

void SubCore::Land(size_t index) {
  const CacheLineState line = on_their_way_[index];
  on_their_way_.erase(on_their_way_.begin() + static_cast<std::ptrdiff_t>(index));
  if (std::memcmp(line.fetched.data(), line.address, kLineBytes) != 0) {
    Raise(line.written, UndoMessage(line));
    return;
  }
  if (races_) LeaveRecord(line);
  std::memcpy(line.address, line.data.data(), kLineBytes);
  machine_.line_writers[line.address] = {block_, role_name(), line.written};
}

std::string SubCore::UndoMessage(const CacheLineState& line) const {
  std::string other = "someone else";
  const auto writer = machine_.line_writers.find(line.address);
  if (writer != machine_.line_writers.end() &&
      (writer->second.block != block_ || writer->second.core != role_name())) {
    other = fmt::format("block {} {} at {}", writer->second.block, writer->second.core,
                        place_of(writer->second.where));
  }
  return fmt::format(
      "two writers on a line: the cache writes the 64 bytes of this SetValue back whole and would "
      "undo what {} has written to them since they were read: one writer a line, and invalidate it "
      "before SetValue",
      other);
}

std::string SubCore::DirtyLines() const {
  std::string text;
  for (size_t i = 0; i < ScalarCache::kLines; ++i) {
    const CacheLineState& line = cache_.At(i);
    if (line.address == nullptr || line.dirty == 0) continue;
    text += fmt::format(
        "\n  block {} {} has not cleaned the line of its SetValue at {}, so nobody sees the value",
        block_, role_name(), place_of(line.written));
  }
  return text;
}

}  // namespace weft::twin
