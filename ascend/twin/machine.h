#pragma once
// The device behind twin.h: global memory, cores, the launches that wait, and whose turn it is.

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "race.h"
#include "sub_core.h"
#include "twin.h"

namespace weft::twin {

struct GlobalRange {
  uint8_t* start = nullptr;
  uint64_t bytes = 0;
  bool owned = false;
  uint64_t place = 0;  // see Issued
};

// Global memory: which addresses belong to somebody.
class GlobalMemory {
 public:
  explicit GlobalMemory(uint64_t capacity) : capacity_(capacity) {}
  ~GlobalMemory();
  void* Allocate(uint64_t bytes);
  void Add(void* memory, uint64_t bytes);
  // False if it is not the start of a range of that kind.
  bool Remove(void* memory, bool owned);
  // The range that holds all of it, or null.
  const GlobalRange* Find(const void* start, uint64_t bytes) const;

 private:
  uint64_t capacity_, used_ = 0;
  uint64_t TakePlace() const;
  std::map<const uint8_t*, GlobalRange> ranges_;
};

class Machine {
 public:
  explicit Machine(Options options);

  const Options& options() const { return options_; }
  GlobalMemory& memory() { return memory_; }
  Listener* listener = nullptr;
  std::optional<Fault> fault;
  std::optional<Injection> injection;
  uint64_t instructions = 0;
  uint64_t launches = 0;  // begun
  int idle_rounds = 0;    // of looks by everybody who polls, since somebody did anything else

  void Launch(Kernel kernel, int blocks, std::span<const std::byte> arguments);
  void QueueCopy(void* target, const void* source, uint64_t bytes);
  Outcome Run(uint64_t budget, bool wait_for_host);
  void Reset();
  SubCore& sub_core(int core, int index) { return *cores_[core].sub_cores[index]; }

  // From a running program: the launch ends with this fault.
  void Raise(Fault fault);
  SubCore& Sibling(const SubCore& self, Role role) {
    return *cores_[self.core()].sub_cores[static_cast<int>(role)];
  }
  // For each flag, how often each vector core has set it and the other has not yet.
  static constexpr int kCrossModes = 3;
  using Halves = std::array<std::array<int, 2>, kCrossFlags>;
  Halves& HalfSets(int core, int mode) { return cores_[core].half_sets[mode]; }
  // Who wrote back a line last, for messages.
  struct Writer {
    int block = 0;
    const char* core = "";
    Where where;
  };
  std::unordered_map<const uint8_t*, Writer> line_writers;

  // Whether races in global memory are looked for in the launch that runs.
  bool races() const { return races_; }
  GlobalShadow shadow;
  LineRecords records;
  // What the host learns from words it reads, and passes on with words it writes.
  void HostReads(const void* start, uint64_t bytes);
  void HostWrites(const void* start, uint64_t bytes);
  // The sub core that runs an actor's program, null if it has ended.
  const SubCore* FindActor(uint16_t actor) const;

 private:
  struct Core {
    std::array<std::unique_ptr<SubCore>, 3> sub_cores;
    std::array<Halves, kCrossModes> half_sets{};  // by mode
    int block = -1;                               // -1: free
  };
  struct Launched {
    Kernel kernel = nullptr;  // null: a copy
    int blocks = 0;
    std::vector<std::byte> arguments;
    void* target = nullptr;
    const void* source = nullptr;
    uint64_t bytes = 0;
  };

  void BeginLaunch(int blocks);
  void StartBlocks();
  bool FinishBlocks();
  bool Sweep();
  void LookAgain();
  void RaiseDeadlock();
  void Abandon();

  Options options_;
  GlobalMemory memory_;
  std::vector<Core> cores_;
  std::vector<SubCore*> running_;
  std::deque<Launched> launches_;
  Rng rng_;
  bool races_ = false;
  std::shared_ptr<Knowledge> host_;
  int next_block_ = 0;
  uint32_t slow_ = 0;  // cores that seldom get a turn, one bit each, modulo 32
};

}  // namespace weft::twin
