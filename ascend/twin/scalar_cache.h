#pragma once
// The data cache of a core's scalar unit: 64-byte lines over global memory, not coherent with
// anything. A line is written back whole, so the cache also notices when that would undo what
// someone else has written to it meanwhile.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "instruction.h"

namespace weft::twin {

inline constexpr uint64_t kLineBytes = 64;

struct CacheLineState {
  uint8_t* address = nullptr;  // null: empty
  std::array<uint8_t, kLineBytes> data{};
  std::array<uint8_t, kLineBytes>
      fetched{};       // as memory was when the line was read or written back
  uint64_t dirty = 0;  // a bit for each byte
  Where written;       // the last SetValue
  Clock released;      // what its core had done when it was cleaned
};

class ScalarCache {
 public:
  ScalarCache() : lines_(kLines) {}

  // The line's slot if it is held. `place` is its place in global memory, which unlike its address
  // is the same in every run.
  CacheLineState* Find(const uint8_t* line, uint64_t place) {
    CacheLineState& slot = SlotOf(place);
    return slot.address == line ? &slot : nullptr;
  }
  // The slot where the line belongs; who is in it must be written back first.
  CacheLineState& SlotOf(uint64_t place) { return lines_[Slot(place)]; }
  CacheLineState& At(size_t index) { return lines_[index]; }
  const CacheLineState& At(size_t index) const { return lines_[index]; }
  void Fill(CacheLineState& slot, uint8_t* line);
  void Clear();

  static constexpr size_t kLines = 64;

 private:
  static size_t Slot(uint64_t place) {
    const uint64_t number = place / kLineBytes;
    return (number ^ (number >> 6) ^ (number >> 12)) % kLines;
  }

  std::vector<CacheLineState> lines_;
};

}  // namespace weft::twin
