#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define WEFT_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define WEFT_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define WEFT_TSAN 1
#endif
#ifdef WEFT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef WEFT_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace weft::twin {

constexpr size_t kStackBytes = size_t{256} << 10;
constexpr size_t kGuardBytes = 4096;

struct FiberEntry {
  static void Run(Fiber* fiber) { Fiber::Main(fiber); }
};

#ifdef __x86_64__
// Saves what a call must preserve, changes stacks, restores. Several times faster than swapcontext,
// which asks the kernel for the signal mask.
extern "C" void weft_twin_switch(void** save, void* load);
asm(R"(
.text
.globl weft_twin_switch
.type weft_twin_switch,@function
weft_twin_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size weft_twin_switch,.-weft_twin_switch
.globl weft_twin_begin
.type weft_twin_begin,@function
weft_twin_begin:
  movq %rbx, %rdi
  callq *%r12
  ud2
.size weft_twin_begin,.-weft_twin_begin
)");
extern "C" void weft_twin_begin();

static void* prepare(std::byte* stack, size_t bytes, void** /*inner*/, Fiber* fiber) {
  auto** top = reinterpret_cast<void**>(stack + bytes - 64);
  *--top = reinterpret_cast<void*>(&weft_twin_begin);
  *--top = nullptr;                                    // rbp
  *--top = fiber;                                      // rbx
  *--top = reinterpret_cast<void*>(&FiberEntry::Run);  // r12
  *--top = nullptr;                                    // r13
  *--top = nullptr;                                    // r14
  *--top = nullptr;                                    // r15
  return static_cast<void*>(top);
}
static void change(void** save, void* load) { weft_twin_switch(save, load); }
#else
static void begin_fiber(unsigned high, unsigned low) {
  FiberEntry::Run(reinterpret_cast<Fiber*>((static_cast<uintptr_t>(high) << 32) | low));
}
static void* prepare(std::byte* stack, size_t bytes, void** inner, Fiber* fiber) {
  auto* context = *inner == nullptr ? new ucontext_t : static_cast<ucontext_t*>(*inner);
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = bytes;
  context->uc_link = nullptr;
  const auto address = reinterpret_cast<uintptr_t>(fiber);
  makecontext(context, reinterpret_cast<void (*)()>(begin_fiber), 2,
              static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
  return context;
}
static void change(void** save, void* load) {
  if (*save == nullptr) *save = new ucontext_t;
  swapcontext(static_cast<ucontext_t*>(*save), static_cast<ucontext_t*>(load));
}
#endif

Fiber::~Fiber() {
#ifdef WEFT_TSAN
  if (sanitizer_ != nullptr) __tsan_destroy_fiber(sanitizer_);
#endif
#ifndef __x86_64__
  delete static_cast<ucontext_t*>(inner_);
  delete static_cast<ucontext_t*>(outer_);
#endif
  if (stack_ != nullptr) munmap(stack_, kStackBytes + kGuardBytes);
}

void Fiber::Start(Entry entry, void* argument) {
  if (stack_ == nullptr) {
    void* memory = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    WEFT_CHECK(memory != MAP_FAILED, "no memory for the stack of a fiber");
    stack_ = static_cast<std::byte*>(memory);
    mprotect(stack_, kGuardBytes, PROT_NONE);
  }
#ifdef WEFT_TSAN
  if (sanitizer_ != nullptr) __tsan_destroy_fiber(sanitizer_);
  sanitizer_ = __tsan_create_fiber(0);
#endif
#ifdef WEFT_ASAN
  __asan_unpoison_memory_region(stack_ + kGuardBytes, kStackBytes);
  sanitizer_ = nullptr;
#endif
  entry_ = entry;
  argument_ = argument;
  ended_ = false;
  inner_ = prepare(stack_ + kGuardBytes, kStackBytes, &inner_, this);
}

void Fiber::Main(Fiber* self) {
#ifdef WEFT_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &self->outer_stack_, &self->outer_size_);
#endif
  self->entry_(self->argument_);
  self->ended_ = true;
  self->Pause();
}

void Fiber::Resume() {
#ifdef WEFT_TSAN
  outer_sanitizer_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(sanitizer_, 0);
#endif
#ifdef WEFT_ASAN
  __sanitizer_start_switch_fiber(&outer_sanitizer_, stack_ + kGuardBytes, kStackBytes);
#endif
  change(&outer_, inner_);
#ifdef WEFT_ASAN
  __sanitizer_finish_switch_fiber(outer_sanitizer_, nullptr, nullptr);
#endif
}

void Fiber::Pause() {
#ifdef WEFT_TSAN
  __tsan_switch_to_fiber(outer_sanitizer_, 0);
#endif
#ifdef WEFT_ASAN
  __sanitizer_start_switch_fiber(ended_ ? nullptr : &sanitizer_, outer_stack_, outer_size_);
#endif
  change(&inner_, outer_);
#ifdef WEFT_ASAN
  __sanitizer_finish_switch_fiber(sanitizer_, &outer_stack_, &outer_size_);
#endif
}

}  // namespace weft::twin
