#pragma once
// Reductions: of all elements, of each repeat, of each block.

#include "vector_span.h"

namespace weft::twin {

enum class Reduction : uint8_t { kSum, kMax };

struct ReduceInstruction {
  VectorOperand src;
  uint32_t dst;
  uint32_t dst_stride;  // bytes between the results of repeats
  uint32_t mask, repeats;
  uint32_t scratch, scratch_bytes;  // what the chip overwrites
  Reduction reduction;
  AscendC::ReduceOrder order;
  bool by_block;
};
template <class T>
void run_repeats(SubCore& core, const ReduceInstruction& in);  // WholeReduce, BlockReduce
template <class T>
void run_reduce(SubCore& core, const ReduceInstruction& in);  // count form

// What a reduction by repeats, or by their blocks, works on.
struct RepeatsToReduce {
  int64_t mask, repeats;
  int64_t dst_stride, block_stride, repeat_stride;
  AscendC::ReduceOrder order = AscendC::ReduceOrder::ORDER_ONLY_VALUE;
  bool by_block = false;
};

ReduceInstruction begin_reduce(const Call& call, const LocalMemory& dst, const LocalMemory& src,
                               const LocalMemory& scratch, int64_t count, uint32_t element,
                               Reduction reduction, bool index);
ReduceInstruction begin_repeats(const Call& call, const LocalMemory& dst, const LocalMemory& src,
                                const RepeatsToReduce& repeats, uint32_t element,
                                Reduction reduction);
Work reduce_work(const ReduceInstruction& in, uint32_t element);

template <class T>
void reduce(const Call& call, Reduction reduction, const LocalMemory& dst, const LocalMemory& src,
            const LocalMemory& scratch, int64_t count, bool index) {
  if (count == 0) return;
  const auto in = begin_reduce(call, dst, src, scratch, count, sizeof(T), reduction, index);
  call.core.Issue<&run_reduce<T>>(in, reduce_work(in, sizeof(T)));
}
template <class T>
void reduce_repeats(const Call& call, Reduction reduction, const LocalMemory& dst,
                    const LocalMemory& src, const RepeatsToReduce& repeats) {
  if (repeats.mask == 0 || repeats.repeats == 0) return;
  const auto in = begin_repeats(call, dst, src, repeats, sizeof(T), reduction);
  call.core.Issue<&run_repeats<T>>(in, reduce_work(in, sizeof(T)));
}

}  // namespace weft::twin
