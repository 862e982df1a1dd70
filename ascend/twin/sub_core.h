#pragma once
// One of an AI core's three processors: its buffers, pipes, flags and scalar program. The calls of
// kernel_operator.h check their arguments against it and give it instructions; the scheduler
// carries them out.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "fiber.h"
#include "instruction.h"
#include "race.h"
#include "scalar_cache.h"
#include "shadow.h"
#include "twin.h"

namespace weft::twin {

class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x1234567u) {}
  uint64_t Next() {  // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(((Next() >> 32) * bound) >> 32); }

 private:
  uint64_t state_;
};

class Machine;
class SubCore;

// The processor whose program runs now; null outside of kernels.
extern SubCore* current_sub_core;

enum class Role : uint8_t { kCube, kVector0, kVector1 };
const char* role_name(Role role);

class SubCore {
 public:
  SubCore(Machine& machine, int core, Role role, const Chip& chip);

  bool is_cube() const { return role_ == Role::kCube; }
  Role role() const { return role_; }
  int core() const { return core_; }
  int block() const { return block_; }
  uint16_t actor() const { return static_cast<uint16_t>(block_ * 3 + static_cast<int>(role_)); }
  int blocks() const { return blocks_; }
  const char* role_name() const { return twin::role_name(role_); }

  // ---- For the calls of a kernel; the program is running.

  // Ends the launch with a fault at `where`.
  [[noreturn]] void Fail(const Where& where, std::string what);

  // From an instruction that is carried out: the launch ends with a fault at its call.
  void Refuse(std::string what);

  // The next instruction of `pipe`. Its accesses follow, then Issue. `looks`: it may belong to a
  // loop that waits for words in global memory.
  void Begin(pipe_t pipe, const char* name, const Where& where, bool looks = false);
  void Reads(Buffer buffer, const Pieces& pieces, bool must_be_written = false,
             bool own_order = false);
  void Writes(Buffer buffer, const Pieces& pieces, bool own_order = false);
  // A range of global memory that the instruction touches.
  void Touches(const void* start, uint64_t bytes);

  template <auto kRun, class P>
  void Issue(const P& parameters, const Work& work) {
    static_assert(std::is_trivially_copyable_v<P> && sizeof(P) <= Instruction::kPayload);
    if (issuing_.pipe == PIPE_MTE2) NoteCopy(work.global);
    if (timing_only_) [[unlikely]] {
      if (issuing_.pipe == PIPE_MTE2 && in_own_memory_) kRun(*this, parameters);
      return Tell(issuing_.pipe, Instruction::Kind::kWork, 0, 0, work);
    }
    if (work.global.count != 0) CheckRaces(work.global);
    Instruction& slot = Slot(issuing_.pipe);
    std::memcpy(slot.payload.data(), &parameters, sizeof(P));
    slot.run = [](SubCore& core, const std::byte* payload) {
      kRun(core, *reinterpret_cast<const P*>(payload));
    };
    slot.kind = Instruction::Kind::kWork;
    Issued(slot, work);
  }

  // A copy of words in one piece is issued, which may be a look at flags; and is carried out.
  void WillBring(uint32_t address, const uint8_t* from, uint32_t bytes);
  void Brings(uint32_t address, const uint8_t* from);

  void SetFlag(AscendC::HardEvent event, int64_t id, const Where& where);
  void WaitFlag(AscendC::HardEvent event, int64_t id, const Where& where);
  void Barrier(pipe_t pipe, const Where& where);
  void CrossCoreSet(int mode, pipe_t pipe, int64_t id, const Where& where);
  void CrossCoreWait(int64_t id, const Where& where);

  // Scalar accesses to global memory, of 1 to 8 bytes.
  void Load(const void* address, void* value, uint32_t bytes, const Where& where);
  void Store(void* address, const void* value, uint32_t bytes, const Where& where);
  void CleanAndInvalidate(const void* address, const Where& where);
  void DataSyncBarrier(const Where& where);
  // Scalar accesses to a local buffer.
  void LoadLocal(Buffer buffer, uint32_t address, void* value, uint32_t bytes, const Where& where);
  void StoreLocal(Buffer buffer, uint32_t address, const void* value, uint32_t bytes,
                  const Where& where);

  int64_t Ticks();
  // "name at file:line" of an instruction issued before, if that is remembered.
  std::string PastPlace(pipe_t pipe, uint32_t sequence) const;
  std::byte* memory(Buffer buffer) { return memory_[static_cast<int>(buffer)].data(); }
  uint32_t capacity(Buffer buffer) const { return capacity_[static_cast<int>(buffer)]; }
  // A buffer of this sub core at all? The vector cores have UB, the cube core the others.
  bool has(Buffer buffer) const { return (buffer == Buffer::kUb) != is_cube(); }

  // Event ids that a TPipe gives out, for each event a bit mask of those taken.
  std::array<uint8_t, kHardEvents>& event_pool() { return event_pool_; }
  // Ids whose flag a queue has set and waits for when the buffer is used again.
  std::array<uint8_t, kHardEvents>& release_flags() { return release_flags_; }
  // The first bytes of a buffer count as never written.
  void ForgetBuffer(Buffer buffer, uint32_t bytes);
  bool has_pipe = false;  // a TPipe lives

  void set_atomic(uint8_t kind) { atomic_ = kind; }
  uint8_t atomic() const { return atomic_; }

  // ---- For the scheduler.

  void Start(Kernel kernel, const std::byte* arguments, int block, int blocks, uint64_t seed,
             Order order);
  // Lets something happen, if anything can.
  bool Turn();
  // Some looks at what it polls, changed or not.
  void LookAgain();
  bool finished() const { return finished_; }
  bool polling() const { return state_ == State::kPolling; }
  std::string WaitingPlace() const;
  void Abandon();
  // A flag between the cores of the block counts one more; and how far who set it had come.
  void AddCross(int id, const Where& where);
  void HearCross(int id, const SubCore& from, const Clock& clock);
  // Raises a fault for a flag between the cores of the block that nobody waited for, or that the
  // other vector core has set less often.
  void CheckCrossFlags();
  // For a deadlock's report: values that were set and never left the scalar cache.
  std::string DirtyLines() const;
  const Counters& counters() const { return counters_; }
  const Where& where() const { return where_; }

 private:
  enum class State : uint8_t {
    kReady,
    kFlag,     // a WaitFlag of the scalar unit
    kDrain,    // PipeBarrier<PIPE_ALL>, or the end
    kSpace,    // room in a pipe's queue
    kCross,    // CrossCoreWaitFlag
    kPolling,  // reads the same words of global memory again and again
    kDone,
  };
  struct Polled {
    const uint8_t* address;
    uint32_t bytes;
    uint64_t value;
  };
  // Words of UB that a copy has brought from global memory, and what their lines carried then.
  struct Brought {
    uint32_t address = 0;
    uint32_t bytes = 0;  // 0: none
    const uint8_t* from = nullptr;
    std::vector<LineRecords::Record> lines;  // from that of `from` on; none: none has a record
  };
  struct Past {
    Where where;
    const char* name = "";
  };
  struct Flag {
    int16_t set = 0;      // carried out and not yet waited for
    int16_t balance = 0;  // in the program's order
    Where where;
    Clock clock;
  };

  static void Main(void* self);
  void Tell(pipe_t pipe, Instruction::Kind kind, int event, int id, const Work& work);
  Instruction& Slot(pipe_t pipe);
  void Issued(Instruction& slot, const Work& work);
  void Block(State state);
  bool CanGoOn() const;
  void Resume();
  bool RunOne();
  bool RunAll();
  bool Runnable(int pipe) const;
  void CarryOut(int pipe);
  void Report(const Conflict& conflict, Buffer buffer, bool write);
  Flag& flag(AscendC::HardEvent event, int64_t id) {
    return flags_[static_cast<int>(event) * kEventIds + static_cast<int>(id)];
  }
  CacheLineState& Fetch(uint8_t* line);
  void WriteBack(CacheLineState& slot);
  void Land(size_t index);
  void CheckRaces(const GlobalPieces& pieces);
  std::string DescribeRace(const Race& race) const;
  void Learn(const uint8_t* line);
  void LearnFrom(const uint8_t* line, const LineRecords::Record& record);
  void ForgetBrought(uint32_t address, uint32_t bytes);
  void LookAt(uint32_t address, const void* value, uint32_t bytes, const Where& where);
  void NoteCopy(const GlobalPieces& pieces);
  void LearnFromCross(int id);
  void Learnt();
  void SetCross(int mode, int id, pipe_t pipe);
  void LeaveRecord(const CacheLineState& line);
  bool PolledChanged() const;
  void NotePoll(const uint8_t* address, uint32_t bytes, uint64_t value, const Where& where);
  std::string UndoMessage(const CacheLineState& line) const;
  void Effect();
  void Count();
  void RewindIfNeeded();
  void FaultIfUnbalanced();
  std::string Describe(const Conflict& conflict, Buffer buffer, bool write) const;
  void Raise(const Where& where, std::string what);
  [[noreturn]] void Stop();

  Machine& machine_;
  int core_, block_ = 0, blocks_ = 0;
  Role role_;
  std::array<uint32_t, kBuffers> capacity_;
  std::array<std::vector<std::byte>, kBuffers> memory_;  // taken when the first program starts
  std::vector<Shadow> shadows_;
  std::array<InstructionQueue, kPipes> queues_;
  uint32_t queued_ = 0;  // a bit for each pipe with instructions
  const bool timing_only_;
  // Of the last range that was touched.
  bool in_own_memory_ = false;
  uint64_t place_ = 0;
  std::array<Clock, kPipes> clocks_;
  std::array<uint32_t, kPipes> sequence_{};
  std::array<uint32_t, kPipes> rewound_{};  // the numbers at the shadows' last rewind
  static constexpr uint32_t kPast = 512;
  // Repeated looks before a program counts as polling, and when it may look again.
  static constexpr uint32_t kPatience = 4, kLooks = 64;
  std::array<std::vector<Past>, kPipes> past_;
  std::vector<Flag> flags_;
  std::array<int, kCrossFlags> cross_{};
  // Of the siblings, for each flag: how far they had come when they set it.
  std::array<std::array<Clock, 3>, kCrossFlags> cross_clocks_{};
  std::vector<std::pair<int, Clock>> cross_released_;  // of sets issued and not carried out
  // What this actor knows of the others, and the line it learnt that from.
  bool races_ = false;
  Knowledge known_, cross_known_;
  std::vector<const uint8_t*> learnt_from_;
  uint64_t known_version_ = 0;
  std::array<uint64_t, 3> cross_versions_{};
  bool cross_news_ = false;
  const uint8_t* last_line_ = nullptr;
  uint64_t last_version_ = 0;
  std::array<Where, kCrossFlags> cross_where_;
  std::array<Where, kCrossFlags> half_where_;  // of a vector core's own sets
  std::array<uint8_t, kHardEvents> event_pool_{}, release_flags_{};
  uint8_t atomic_ = 0;
  ScalarCache cache_;
  std::vector<CacheLineState> on_their_way_;

  Fiber fiber_;
  Kernel kernel_ = nullptr;
  const std::byte* arguments_ = nullptr;
  State state_ = State::kDone;
  bool finished_ = true;
  Order order_ = Order::kMixed;
  Rng rng_{0};
  uint32_t quantum_ = 0;
  struct {
    pipe_t pipe = PIPE_S;
    const char* name = "";
    Where where;
  } issuing_;
  Where where_;  // of the wait
  Where carried_out_;
  AscendC::HardEvent wait_event_ = AscendC::HardEvent::MAX;
  int wait_id_ = 0;
  std::vector<Polled> polled_;
  uint32_t repeats_ = 0, patience_ = kPatience;
  // Whoever waits by a copy makes it again and again.
  GlobalPieces last_copy_;
  bool copies_again_ = false;
  std::array<Brought, 4> brought_;
  size_t next_brought_ = 0;
  Counters counters_;
};

}  // namespace weft::twin
