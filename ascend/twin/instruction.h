#pragma once
// What a call of a kernel becomes: an instruction in the queue of one pipe, with everything it
// needs in place (no memory is taken for one), and the notion of time in which faults are found.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <string>
#include <type_traits>
#include <vector>

#include "device_types.h"

namespace weft::twin {

using Where = std::source_location;

inline constexpr int kPipes = 7;  // PIPE_S .. PIPE_FIX
inline constexpr int kEventIds = 8;
inline constexpr int kHardEvents = static_cast<int>(AscendC::HardEvent::MAX);
inline constexpr int kCrossFlags = 16;

const char* pipe_name(pipe_t pipe);
const char* event_name(AscendC::HardEvent event);
pipe_t event_source(AscendC::HardEvent event);
pipe_t event_target(AscendC::HardEvent event);
// The event between two pipes, MAX if the chip has none.
AscendC::HardEvent event_between(pipe_t source, pipe_t target);

// For each pipe of a sub core, the last instruction that is certain to have ended.
struct Clock {
  void Join(const Clock& other) {
    for (int i = 0; i < kPipes; ++i) {
      if (other.ended[i] > ended[i]) ended[i] = other.ended[i];
    }
  }
  std::array<uint32_t, kPipes> ended{};
};

enum class Buffer : uint8_t { kUb, kL1, kL0a, kL0b, kL0c };
inline constexpr int kBuffers = 5;
const char* buffer_name(Buffer buffer);

// A source file from "ascend/" on, wherever it was compiled; "file:line" of a call.
const char* short_path(const char* file);
std::string place_of(const Where& where);

// `count` pieces of `length` bytes whose starts are `stride` bytes apart, at `address` of a buffer.
struct Pieces {
  uint32_t address = 0;
  uint32_t length = 0;
  uint32_t stride = 0;
  uint32_t count = 1;
};

// Pieces of global memory that a copy touches. `stride`: between their starts.
struct GlobalPieces {
  const void* start = nullptr;
  uint32_t count = 0;
  uint32_t length = 0;  // bytes
  uint64_t stride = 0;
};

// What passes through a pipe, for counters and models of time.
struct Work {
  uint64_t bytes = 0;            // moved (copies) or written (vector)
  uint64_t multiply_adds = 0;    // of Mmad
  uint32_t m = 0, n = 0, k = 0;  // of Mmad; m also the rows of a copy by Nd2Nz
  uint32_t repeats = 0;          // of 256 bytes, vector instructions
  uint8_t element = 4;           // bytes of the widest, vector instructions
  Buffer buffer = Buffer::kUb;   // where LoadData puts it
  GlobalPieces global;           // copies from and to global memory
};

class SubCore;

struct Instruction {
  // From kCrossWait on: what the scalar unit does at once, told to listeners and never queued.
  enum class Kind : uint8_t {
    kWork,
    kSetFlag,
    kWaitFlag,
    kCrossSet,
    kCrossWait,
    kBarrier,
    kScalar,  // an access to a local buffer
    kLoad,    // scalar accesses to global memory
    kStore,
    kRefresh,  // DataCacheCleanAndInvalid of a line
    kSync,     // DataSyncBarrier
    kClock,    // GetSystemCycle
  };
  static constexpr size_t kPayload = 104;

  void (*run)(SubCore&, const std::byte*) = nullptr;
  Where where;
  const char* name = "";
  Kind kind = Kind::kWork;
  uint8_t event = 0;  // HardEvent, or the mode of a cross-core flag
  uint8_t id = 0;
  alignas(8) std::array<std::byte, kPayload> payload;
};

// The instructions of a pipe that have been issued and not yet carried out.
class InstructionQueue {
 public:
  static constexpr uint32_t kDepth = 128;

  bool empty() const { return head_ == tail_; }
  bool full() const { return tail_ - head_ == kDepth; }
  Instruction& front() { return ring_[head_ % kDepth]; }
  const Instruction& front() const { return ring_[head_ % kDepth]; }
  void pop() { ++head_; }
  Instruction& push() {
    if (ring_.empty()) ring_.resize(kDepth);
    return ring_[tail_++ % kDepth];
  }
  void clear() { head_ = tail_ = 0; }

 private:
  std::vector<Instruction> ring_;
  uint32_t head_ = 0, tail_ = 0;
};

}  // namespace weft::twin
