#pragma once
// Reductions: of all elements, of each repeat, of each block.

#include "vector_span.h"

namespace weft::twin {

enum class Reduction : uint8_t { kSum, kMax, kMin };
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

ReduceInstruction begin_reduce(const Call& call, const LocalMemory& dst, const LocalMemory& src,
                               const LocalMemory& scratch, int64_t count, uint32_t element,
                               Reduction reduction, bool index);
ReduceInstruction begin_repeats(const Call& call, const LocalMemory& dst, const LocalMemory& src,
                                int64_t mask, int64_t repeats, int64_t dst_stride,
                                int64_t block_stride, int64_t repeat_stride, uint32_t element,
                                Reduction reduction, AscendC::ReduceOrder order, bool by_block);
Work reduce_work(const ReduceInstruction& in, uint32_t element);

template <class T, bool kMax>
void reduce_extreme(const Call& call, const LocalMemory& dst, const LocalMemory& src,
                    const LocalMemory& scratch, int64_t count, bool index) {
  if (count == 0) return;
  const auto in = begin_reduce(call, dst, src, scratch, count, sizeof(T),
                               kMax ? Reduction::kMax : Reduction::kMin, index);
  call.core.Issue<&run_reduce<T>>(in, reduce_work(in, sizeof(T)));
}
template <class T>
void reduce_sum(const Call& call, const LocalMemory& dst, const LocalMemory& src,
                const LocalMemory& scratch, int64_t count) {
  if (count == 0) return;
  const auto in = begin_reduce(call, dst, src, scratch, count, sizeof(T), Reduction::kSum, false);
  call.core.Issue<&run_reduce<T>>(in, reduce_work(in, sizeof(T)));
}
template <class T>
void whole_reduce(const Call& call, Reduction reduction, const LocalMemory& dst,
                  const LocalMemory& src, int64_t mask, int64_t repeats, int64_t dst_stride,
                  int64_t block_stride, int64_t repeat_stride, AscendC::ReduceOrder order) {
  if (mask == 0 || repeats == 0) return;
  const auto in = begin_repeats(call, dst, src, mask, repeats, dst_stride, block_stride,
                                repeat_stride, sizeof(T), reduction, order, false);
  call.core.Issue<&run_repeats<T>>(in, reduce_work(in, sizeof(T)));
}
template <class T>
void block_reduce(const Call& call, Reduction reduction, const LocalMemory& dst,
                  const LocalMemory& src, int64_t mask, int64_t repeats, int64_t dst_stride,
                  int64_t block_stride, int64_t repeat_stride) {
  if (mask == 0 || repeats == 0) return;
  const auto in =
      begin_repeats(call, dst, src, mask, repeats, dst_stride, block_stride, repeat_stride,
                    sizeof(T), reduction, AscendC::ReduceOrder::ORDER_ONLY_VALUE, true);
  call.core.Issue<&run_repeats<T>>(in, reduce_work(in, sizeof(T)));
}

}  // namespace weft::twin
