#pragma once
// The twin: Ascend AI cores emulated on the host, so that kernels written for the card run, and
// their faults show, without one. Kernels are compiled against kernel_operator.h of this folder;
// tests and the host side control the device through this header or through acl/acl.h.
//
// What is emulated. A block of a launch runs on one AI core: three scalar programs (the cube core
// and two vector cores), each with private buffers of the chip's sizes and its own pipes. A call of
// a kernel is checked at once and appended to its pipe's queue; it reads and writes memory when the
// scheduler carries it out, which a seed decides among everything the flags, barriers and queues
// allow. Scalar accesses to global memory go through a cache of 64-byte lines that nothing keeps
// coherent; copies bypass it.
//
// What is a fault. A use that the chip forbids (alignment, capacity, ranges, repeat counts, event
// ids, positions), an access that is not ordered after one it depends on (found from the flags
// themselves, in whatever order things happened to run), UB read and never written, a stale or lost
// cache line, a hang. The first fault ends the launch; it names the kernel's line.
//
// What it cannot tell. Time: there is a listener for models of it, but the twin has no clock. Bits
// of the chip's transcendental functions and the order in which its cube adds products: the twin's
// own Exp and sums are documented in compute.h, Ln and Rsqrt stand in vector_elements.h. It was
// never compared with a card.
//
// Determinism. The same calls with the same seed give the same run, bit for bit. Nothing on the
// device moves but inside a call of Device::Run, Step or acl; one device runs at a time.
//
// Thread rule: a Device is used by one thread at a time.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "instruction.h"

namespace weft::twin {

// What a kernel can see of a chip, and what a model of time needs.
struct Chip {
  std::string name = "910B1";
  int cores = 24;  // cube cores; each drives two vector cores
  double gigahertz = 1.85;
  uint64_t hbm_bytes = uint64_t{64} << 30;
  uint64_t l2_bytes = uint64_t{192} << 20;
  uint32_t ub_bytes = 192 << 10;
  uint32_t l1_bytes = 512 << 10;
  uint32_t l0a_bytes = 64 << 10;
  uint32_t l0b_bytes = 64 << 10;
  uint32_t l0c_bytes = 128 << 10;
};

// "910B1" .. "910B4", or "article": the 32 cores of the article this project started from.
std::optional<Chip> find_chip(std::string_view name);

// How a sub core's pipes run behind its scalar program.
enum class Order : uint8_t {
  kDrawn,  // one of the others, drawn from the seed for each sub core of each launch
  kEager,  // at once
  kLazy,   // as late as anything allows
  kMixed,
};

struct Fault {
  int block = 0;
  std::string core;  // "AIC", "AIV 0", "AIV 1"
  std::string file;  // the kernel's
  int line = 0;
  std::string what;  // and what to do
  std::string text() const;
};

// A core that stops with a fault of its own at its n-th instruction.
struct Injection {
  int core = 0;      // physical
  int sub_core = 0;  // 0: AIC, 1 and 2: AIV
  uint64_t instruction = 0;
};

struct Options {
  Chip chip;
  uint64_t seed = 1;
  Order order = Order::kDrawn;
  // When nobody can do anything but look at unchanged memory, every poller looks 64 times more this
  // many times, so that spin caps can end it; then it is called a deadlock.
  int poll_rounds = 1000;
  // For models of time: nothing is computed or copied, and nothing is checked but the calls'
  // arguments. Programs run straight through, waiting only for words in global memory; copies from
  // memory that was allocated, and not registered, do happen, since programs may read tables there.
  bool timing_only = false;
  // Instructions of a pipe after which a PipeBarrier<PIPE_ALL> starts the short numbers of the
  // buffers' shadows anew; at most 2^27.
  uint32_t rewind_after = 1u << 26;
};

// Sums for one sub core since the device was made.
struct Counters {
  std::array<uint64_t, kPipes> bytes{};  // of each pipe's instructions
};

// An instruction as the scalar program issues it, in the program's order: all a model of time
// needs.
struct Issued {
  int core = 0;
  int sub_core = 0;
  pipe_t pipe = PIPE_S;
  Instruction::Kind kind = Instruction::Kind::kWork;
  const char* name = "";
  uint8_t event = 0, id = 0;  // of flags; of kCrossSet the mode
  // Of copies and scalar accesses: where in global memory, by a number that is the same in every
  // run that allocates and registers the same sizes in the same order.
  uint64_t place = 0;
  Work work;
  Where where;
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual void OnIssue(const Issued& issued) = 0;
};

enum class Outcome : uint8_t {
  kEnded,   // every launch has run to its end
  kIdle,    // all that is left waits for words in memory that only the host can still change
  kPaused,  // the budget of instructions is used up
  kFault,
};

// A kernel as launched: unpacks its arguments and calls it.
using Kernel = void (*)(const std::byte* arguments);

namespace detail {
template <class T>
T take_argument(const std::byte* arguments, size_t& offset) {
  offset = (offset + alignof(T) - 1) / alignof(T) * alignof(T);
  T value;
  std::memcpy(&value, arguments + offset, sizeof(T));
  offset += sizeof(T);
  return value;
}
template <auto kFunction, class... T>
void call_kernel(void (*)(T...), const std::byte* arguments) {
  size_t offset = 0;
  std::tuple<T...> values{take_argument<T>(arguments, offset)...};
  std::apply(kFunction, values);
}
}  // namespace detail

template <auto kFunction>
void run_kernel(const std::byte* arguments) {
  detail::call_kernel<kFunction>(kFunction, arguments);
}

// Kernels that are found by name, as a binary's functions are on the card. At namespace scope of a
// source file, WEFT_TWIN_KERNEL(name) makes the function `name` one.
void register_kernel(std::string_view name, Kernel kernel);
Kernel find_kernel(std::string_view name);  // null if there is none
struct KernelRegistration {
  KernelRegistration(std::string_view name, Kernel kernel) { register_kernel(name, kernel); }
};
#define WEFT_TWIN_KERNEL(name)                                     \
  static const ::weft::twin::KernelRegistration registered_##name( \
      #name, &::weft::twin::run_kernel<&name>)

class Machine;

class Device {
 public:
  explicit Device(Options options = {});
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Global memory: 512-byte aligned, filled with a pattern that is a NaN as half and as float.
  // Null when the chip's memory is used up.
  void* Allocate(uint64_t bytes);
  void Free(void* memory);
  bool TryFree(void* memory);  // false if it is not what Allocate gave
  // Host memory that the cores may read and write until it is unregistered.
  // Whole lines of 64 bytes.
  void Register(void* memory, uint64_t bytes);
  bool TryUnregister(void* memory);
  // Does all of it belong to one allocation or registration?
  bool Owns(const void* memory, uint64_t bytes) const;
  // Host copies; from or to device memory, or both.
  void Copy(void* target, const void* source, uint64_t bytes);

  // The same when what was launched before has ended.
  void QueueCopy(void* target, const void* source, uint64_t bytes);

  // Queues a launch behind the earlier ones. `arguments` are packed with natural alignment.
  void Launch(Kernel kernel, int blocks, std::span<const std::byte> arguments);
  template <auto kFunction, class... T>
  void Launch(int blocks, T... arguments) {
    std::vector<std::byte> packed;
    (Pack(packed, arguments), ...);
    Launch(&run_kernel<kFunction>, blocks, packed);
  }

  // Runs to the end or to a fault. That only the host could bring it further is a deadlock, whose
  // fault lists where everybody waits.
  Outcome Run();
  // Runs for about so many instructions, or until only the host can bring it further.
  Outcome Step(uint64_t instructions);

  const std::optional<Fault>& fault() const;
  // Forgets the fault and every launch; memory stays as it is.
  void Reset();

  void set_listener(Listener* listener);  // null: none; not owned
  void set_injection(std::optional<Injection> injection);
  const Options& options() const;
  const Counters& counters(int core, int sub_core) const;
  // What all sub cores have issued since the device was made, but for barriers, reads of global
  // memory by the scalar unit and what it does to its cache.
  uint64_t instructions() const;
  // That have begun: each draws the orders of its programs anew.
  uint64_t launches() const;

 private:
  template <class T>
  static void Pack(std::vector<std::byte>& packed, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    packed.resize((packed.size() + alignof(T) - 1) / alignof(T) * alignof(T) + sizeof(T));
    std::memcpy(packed.data() + packed.size() - sizeof(T), &value, sizeof(T));
  }

  std::unique_ptr<Machine> machine_;
};

// The device behind acl/acl.h. New options drop the device there is, with its memory.
void set_acl_options(Options options);
Device& acl_device();

}  // namespace weft::twin
