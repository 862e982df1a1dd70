#pragma once
// Counts every allocation of every thread of a test program. Included by one file of it: it
// replaces operator new.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEFT_SANITIZED
#include <sanitizer/allocator_interface.h>
#endif
#endif

static std::atomic<int64_t> allocations{0};

#if defined(WEFT_SANITIZED)
// The sanitizers have an operator new of their own and tell of what they give out.
static const int hooks = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, size_t) { allocations.fetch_add(1, std::memory_order_relaxed); },
    [](const volatile void*) {});
#else
static void* counted(size_t bytes, size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* const memory =
      std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* operator new(size_t bytes) { return counted(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
#endif
