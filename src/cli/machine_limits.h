#pragma once
// What the machine can do at most, measured: the yardstick that kernels are held against.

#include <span>

#include "device/cpu/thread_pool.h"
#include "kernels/kernel_table.h"

namespace weft {

// Per second, by all threads of a pool together.
struct MachineLimits {
  double read_bytes = 0;  // from memory
  double int8_ops = 0;    // a multiplication and an addition are two
  double bf16_ops = 0;    // 0: no such instruction
  double f32_ops = 0;
};

// The best of several looks, since a shared machine only ever takes away.
class LimitProbe {
 public:
  // `memory` is what is read: much larger than the caches, and its pages touched.
  LimitProbe(const KernelTable& kernels, ThreadPool& pool, std::span<const std::byte> memory)
      : kernels_(kernels), pool_(pool), memory_(memory) {}

  void look();  // a few hundredths of a second
  const MachineLimits& best() const { return best_; }

 private:
  void read();

  const KernelTable& kernels_;
  ThreadPool& pool_;
  std::span<const std::byte> memory_;
  size_t next_ = 0;  // part of the memory
  MachineLimits best_;
};

}  // namespace weft
