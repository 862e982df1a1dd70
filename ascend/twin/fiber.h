#pragma once
// A program with a stack of its own that runs until it pauses. All fibers of a process take turns
// on the thread that resumes them; the sanitizers are told of every change of stack.

#include <cstddef>
#include <cstdint>

namespace weft::twin {

class Fiber {
 public:
  using Entry = void (*)(void* argument);

  Fiber() = default;
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes `entry(argument)` what the next Resume begins with. What ran before is dropped where it
  // paused: no destructor of it runs.
  void Start(Entry entry, void* argument);
  // Runs the program until it pauses or ends.
  void Resume();
  // From inside the program only: back to who resumed it.
  void Pause();

 private:
  static void Main(Fiber* self);
  friend struct FiberEntry;

  std::byte* stack_ = nullptr;
  void* inner_ = nullptr;  // the program's saved stack pointer, or its ucontext
  void* outer_ = nullptr;  // the resumer's
  void* sanitizer_ = nullptr;
  void* outer_sanitizer_ = nullptr;
  const void* outer_stack_ = nullptr;
  size_t outer_size_ = 0;
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
  bool ended_ = true;
};

}  // namespace weft::twin
