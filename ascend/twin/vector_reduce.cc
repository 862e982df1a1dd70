#include "vector_reduce.h"

#include <cmath>

#include "compute.h"
#include "vector_lanes.h"

namespace weft::twin {

using AscendC::ReduceOrder;

namespace {

// The rounds in which the count forms reduce: each turns a repeat into one result.
uint32_t scratch_elements(uint32_t count, uint32_t element, bool pairs, bool index) {
  const uint32_t per_repeat = 256 / element, per_block = 32 / element;
  const uint32_t width = pairs ? 2 : 1;
  uint32_t total = 0;
  uint32_t left = count;
  do {
    const uint32_t results = (left + per_repeat - 1) / per_repeat * width;
    total += (results + per_block - 1) / per_block * per_block;
    left = results;
    if (!index) break;
  } while (left > width);
  return total;
}

}  // namespace

ReduceInstruction begin_reduce(const Call& call, const LocalMemory& dst, const LocalMemory& src,
                               const LocalMemory& scratch, int64_t count, uint32_t element,
                               Reduction reduction, bool index) {
  check_range(call, "count", count, 0, call.core.capacity(Buffer::kUb));
  ReduceInstruction in{};
  in.reduction = reduction;
  in.order = index ? ReduceOrder::ORDER_VALUE_INDEX : ReduceOrder::ORDER_ONLY_VALUE;
  in.src.address = src.address, in.dst = dst.address;
  in.mask = static_cast<uint32_t>(count);
  in.scratch = scratch.address;
  in.scratch_bytes =
      element * scratch_elements(in.mask, element, reduction != Reduction::kSum, index);
  check_operand(call, "sharedTmpBuffer", scratch, Buffer::kUb, in.scratch_bytes, 32);
  const uint32_t result = index ? 2 * element : element;
  check_operand(call, "dst", dst, Buffer::kUb, result, result);
  call.core.Begin(PIPE_V, call.name, call.where);
  vector_operand(call, "src", src, Span::Count(count), 1, element, false);
  call.core.Writes(Buffer::kUb, {in.scratch, in.scratch_bytes, 0, 1});
  call.core.Writes(Buffer::kUb, {in.dst, result, 0, 1});
  return in;
}

ReduceInstruction begin_repeats(const Call& call, const LocalMemory& dst, const LocalMemory& src,
                                const RepeatsToReduce& repeats, uint32_t element,
                                Reduction reduction) {
  check_range(call, "mask", repeats.mask, 0, 256 / element);
  check_range(call, "repeatTime", repeats.repeats, 0, 255);
  check_range(call, "dstRepStride", repeats.dst_stride, 0, 65535);
  check_range(call, "srcBlkStride", repeats.block_stride, 0, 65535);
  check_range(call, "srcRepStride", repeats.repeat_stride, 0, 65535);
  const ReduceOrder order = repeats.order;
  ReduceInstruction in{};
  in.reduction = reduction, in.order = order, in.by_block = repeats.by_block;
  in.mask = static_cast<uint32_t>(repeats.mask);
  in.repeats = static_cast<uint32_t>(repeats.repeats);
  const bool pair =
      order == ReduceOrder::ORDER_VALUE_INDEX || order == ReduceOrder::ORDER_INDEX_VALUE;
  const uint32_t unit = in.by_block                              ? 8 * element
                        : pair                                   ? 2 * element
                        : order == ReduceOrder::ORDER_ONLY_INDEX ? 4
                                                                 : element;
  in.dst = dst.address, in.dst_stride = static_cast<uint32_t>(repeats.dst_stride) * unit;
  check_operand(call, "dst", dst, Buffer::kUb, uint64_t{in.repeats - 1} * in.dst_stride + unit,
                unit);
  call.core.Begin(PIPE_V, call.name, call.where);
  Span span;
  span.strided = true, span.mask = repeats.mask, span.repeats = repeats.repeats;
  span.strides[1] = repeats.block_stride, span.strides[4] = repeats.repeat_stride;
  in.src = vector_operand(call, "src", src, span, 1, element, false);
  if (in.dst_stride == unit) {
    call.core.Writes(Buffer::kUb, {in.dst, unit * in.repeats, 0, 1});
  } else {
    call.core.Writes(Buffer::kUb, {in.dst, unit, in.dst_stride, in.repeats});
  }
  return in;
}

Work reduce_work(const ReduceInstruction& in, uint32_t element) {
  Work work;
  work.element = static_cast<uint8_t>(element);
  work.repeats = in.repeats == 0 ? (in.mask * element + 255) / 256 : in.repeats;
  work.bytes = in.repeats == 0 ? element : uint64_t{in.repeats} * element;
  return work;
}

namespace {

struct Greatest {
  float value;
  uint32_t index;
};
Greatest greatest(const float* values, uint32_t count) {
  Greatest best{values[0], 0};
  for (uint32_t i = 1; i < count; ++i) {
    if (values[i] > best.value) best = {values[i], i};
  }
  return best;
}

template <class T>
void put(std::byte* to, float value) {
  const T stored = static_cast<T>(value);
  std::memcpy(to, &stored, sizeof(T));
}
template <class T>
void put_index(std::byte* to, uint32_t index) {
  std::memcpy(to, &index, sizeof(T));
}

// Halves are added in float and rounded once.
template <class T>
float sum_of(const float* values, uint32_t count) {
  return static_cast<float>(T(tree_sum(values, count)));
}

}  // namespace

template <class T>
void run_repeats(SubCore& core, const ReduceInstruction& in) {
  std::byte* ub = core.memory(Buffer::kUb);
  constexpr uint32_t kBlock = 32 / sizeof(T);
  for (uint32_t repeat = 0; repeat < in.repeats; ++repeat) {
    float lanes[kChunk];
    load_repeat<T>(ub, in.src, repeat, in.mask, lanes);
    std::byte* to = ub + in.dst + repeat * in.dst_stride;
    if (in.by_block) {
      for (uint32_t block = 0; block < 8; ++block) {
        const uint32_t first = block * kBlock;
        const uint32_t n = in.mask > first ? std::min(kBlock, in.mask - first) : 0;
        float result = 0;
        if (n > 0) {
          result = in.reduction == Reduction::kSum ? sum_of<T>(lanes + first, n)
                                                   : greatest(lanes + first, n).value;
        }
        put<T>(to + block * sizeof(T), result);
      }
      continue;
    }
    if (in.reduction == Reduction::kSum) {
      put<T>(to, sum_of<T>(lanes, in.mask));
      continue;
    }
    const Greatest best = greatest(lanes, in.mask);
    switch (in.order) {
      case ReduceOrder::ORDER_VALUE_INDEX:
        put<T>(to, best.value), put_index<T>(to + sizeof(T), best.index);
        break;
      case ReduceOrder::ORDER_INDEX_VALUE:
        put_index<T>(to, best.index), put<T>(to + sizeof(T), best.value);
        break;
      case ReduceOrder::ORDER_ONLY_VALUE:
        put<T>(to, best.value);
        break;
      case ReduceOrder::ORDER_ONLY_INDEX:
        std::memcpy(to, &best.index, 4);
        break;
    }
  }
}

template <class T>
void run_reduce(SubCore& core, const ReduceInstruction& in) {
  std::byte* ub = core.memory(Buffer::kUb);
  constexpr uint32_t kRepeat = 256 / sizeof(T);
  const std::byte* from = ub + in.src.address;
  float best = 0;
  uint32_t index = 0;
  float lanes[kChunk];
  if (in.reduction == Reduction::kSum) {
    // The repeats' sums are kept where the chip keeps them, in the scratch buffer's order.
    static constexpr uint32_t kMost = 4096;
    float sums[kMost];
    uint32_t count = 0;
    for (uint32_t done = 0; done < in.mask; done += kRepeat) {
      const uint32_t n = std::min(kRepeat, in.mask - done);
      load_lanes<T>(from + done * sizeof(T), lanes, n);
      sums[count++] = sum_of<T>(lanes, n);
    }
    while (count > 1) {
      uint32_t next = 0;
      for (uint32_t done = 0; done < count; done += kRepeat) {
        sums[next++] = sum_of<T>(sums + done, std::min(kRepeat, count - done));
      }
      count = next;
    }
    best = sums[0];
  } else {
    for (uint32_t done = 0; done < in.mask; done += kRepeat) {
      const uint32_t n = std::min(kRepeat, in.mask - done);
      load_lanes<T>(from + done * sizeof(T), lanes, n);
      const Greatest found = greatest(lanes, n);
      if (done == 0 || found.value > best) {
        best = found.value, index = done + found.index;
      }
    }
  }
  // The scratch buffer holds something, nobody may rely on what.
  std::memset(ub + in.scratch, 0x7f, in.scratch_bytes);
  put<T>(ub + in.dst, best);
  if (in.order == ReduceOrder::ORDER_VALUE_INDEX) put_index<T>(ub + in.dst + sizeof(T), index);
}

template void run_repeats<float>(SubCore&, const ReduceInstruction&);
template void run_repeats<half>(SubCore&, const ReduceInstruction&);
template void run_reduce<float>(SubCore&, const ReduceInstruction&);
template void run_reduce<half>(SubCore&, const ReduceInstruction&);

}  // namespace weft::twin
