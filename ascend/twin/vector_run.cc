#include "vector_run.h"

#include <cmath>

namespace weft::twin {

using AscendC::ReduceOrder;
using AscendC::RoundMode;

bool begin_vector(const Call& call, const Span& span, uint32_t widest, VectorInstruction& out) {
  if (span.strided) {
    check_range(call, "mask", span.mask, 0, 256 / widest);
    check_range(call, "repeatTime", span.repeats, 0, 255);
    static constexpr const char* kNames[] = {"dstBlkStride", "src0BlkStride", "src1BlkStride",
                                             "dstRepStride", "src0RepStride", "src1RepStride"};
    for (int i = 0; i < 6; ++i)
      check_range(call, kNames[i], span.strides[i], 0, i < 3 ? 65535 : 255);
    if (span.mask == 0 || span.repeats == 0) return false;
    out.count = static_cast<uint32_t>(span.mask);
    out.repeats = static_cast<uint32_t>(span.repeats);
  } else {
    check_range(call, "count", span.count, 0, call.core.capacity(Buffer::kUb));
    if (span.count == 0) return false;
    out.count = static_cast<uint32_t>(span.count);
  }
  call.core.Begin(PIPE_V, call.name, call.where);
  return true;
}

VectorOperand vector_operand(const Call& call, const char* name, const LocalMemory& memory,
                             const Span& span, int which, uint32_t element, bool write) {
  VectorOperand operand;
  operand.address = memory.address;
  if (!span.strided) {
    const auto bytes = static_cast<uint32_t>(span.count * element);
    check_operand(call, name, memory, Buffer::kUb, bytes, 32);
    const Pieces pieces{memory.address, bytes, 0, 1};
    write ? call.core.Writes(Buffer::kUb, pieces) : call.core.Reads(Buffer::kUb, pieces, true);
    return operand;
  }
  const auto block = static_cast<uint32_t>(span.strides[which]);
  const auto repeat = static_cast<uint32_t>(span.strides[which + 3]);
  const auto repeats = static_cast<uint32_t>(span.repeats);
  const auto bytes = static_cast<uint32_t>(span.mask * element);
  operand.block = static_cast<uint16_t>(block);
  operand.repeat = static_cast<uint16_t>(repeat);
  const uint32_t blocks = (bytes + 31) / 32;
  const uint32_t last = bytes - (blocks - 1) * 32;
  const uint64_t extent =
      uint64_t{repeats - 1} * repeat * 32 +
      (block == 0 ? std::min(bytes, 32u) : uint64_t{blocks - 1} * block * 32 + last);
  check_operand(call, name, memory, Buffer::kUb, extent, 32);
  const auto access = [&](const Pieces& pieces) {
    write ? call.core.Writes(Buffer::kUb, pieces) : call.core.Reads(Buffer::kUb, pieces, true);
  };
  if (block == 1 && repeat * 32 == bytes) {
    access({memory.address, bytes * repeats, 0, 1});
  } else if (block == 1) {
    access({memory.address, bytes, repeat * 32, repeats});
  } else if (block == 0) {
    access({memory.address, std::min(bytes, 32u), repeat * 32, repeats});
  } else {
    for (uint32_t i = 0; i < blocks; ++i) {
      access({memory.address + i * block * 32, i + 1 == blocks ? last : 32, repeat * 32, repeats});
    }
  }
  return operand;
}

Work vector_work(const VectorInstruction& in, uint32_t element) {
  Work work;
  work.element = static_cast<uint8_t>(element);
  if (in.repeats == 0) {
    work.bytes = uint64_t{in.count} * element;
    work.repeats = static_cast<uint32_t>((work.bytes + 255) / 256);
  } else {
    work.bytes = uint64_t{in.count} * element * in.repeats;
    work.repeats = in.repeats;
  }
  return work;
}

double round_by(RoundMode mode, double value) {
  switch (mode) {
    case RoundMode::CAST_FLOOR:
      return std::floor(value);
    case RoundMode::CAST_CEIL:
      return std::ceil(value);
    case RoundMode::CAST_ROUND:
      return std::round(value);
    case RoundMode::CAST_TRUNC:
      return std::trunc(value);
    default:
      return std::nearbyint(value);
  }
}

half half_by(RoundMode mode, float value) {
  const half nearest = value;
  const float back = nearest;
  if (back == value || std::isnan(value)) return nearest;
  const bool away = std::fabs(back) > std::fabs(value);  // the nearest is beyond the value
  half inner = nearest;                                  // towards zero
  if (away) --inner.bits;
  half outer = inner;
  ++outer.bits;
  const bool negative = std::signbit(value);
  switch (mode) {
    case RoundMode::CAST_TRUNC:
      return inner;
    case RoundMode::CAST_FLOOR:
      return negative ? outer : inner;
    case RoundMode::CAST_CEIL:
      return negative ? inner : outer;
    case RoundMode::CAST_ODD:
      return (inner.bits & 1) != 0 ? inner : outer;
    case RoundMode::CAST_ROUND: {
      const float middle = (static_cast<float>(inner) + static_cast<float>(outer)) / 2;
      return std::fabs(value) >= std::fabs(middle) ? outer : inner;
    }
    default:
      return nearest;
  }
}

void check_cast(const Call& call, RoundMode mode, bool exact) {
  check_that(call, !exact || mode == RoundMode::CAST_NONE,
             "an exact conversion takes RoundMode::CAST_NONE only");
}

// ---- Duplicate, Gather, Brcb.

static void run_duplicate(SubCore& core, const VectorInstruction& in) {
  for_each_piece(core, in, [&](const auto&, const auto& store, auto n) {
    if (in.mode == 2) {
      int16_t lanes[kChunk];
      std::fill(lanes, lanes + n, static_cast<int16_t>(in.scalar));
      store(std::type_identity<int16_t>{}, in.dst, lanes);
    } else {
      int32_t lanes[kChunk];
      std::fill(lanes, lanes + n, static_cast<int32_t>(in.scalar));
      store(std::type_identity<int32_t>{}, in.dst, lanes);
    }
  });
}

void duplicate(const Call& call, const LocalMemory& dst, const void* scalar, uint32_t element,
               const Span& span) {
  VectorInstruction in;
  if (!begin_vector(call, span, element, in)) return;
  in.dst = vector_operand(call, "dst", dst, span, 0, element, true);
  in.mode = static_cast<uint8_t>(element);
  std::memcpy(&in.scalar, scalar, element);
  call.core.Issue<&run_duplicate>(in, vector_work(in, element));
}

namespace {
struct MaskedDuplicate {
  VectorOperand dst;
  uint32_t repeats, element, scalar;
  uint64_t mask[2];
};
void run_masked_duplicate(SubCore& core, const MaskedDuplicate& in) {
  std::byte* ub = core.memory(Buffer::kUb) + in.dst.address;
  const uint32_t per_block = 32 / in.element;
  for (uint32_t repeat = 0; repeat < in.repeats; ++repeat) {
    for (uint32_t i = 0; i < 256 / in.element; ++i) {
      if ((in.mask[i / 64] >> (i % 64) & 1) == 0) continue;
      const uint32_t block = i / per_block * in.dst.block + repeat * in.dst.repeat;
      std::memcpy(ub + block * 32 + i % per_block * in.element, &in.scalar, in.element);
    }
  }
}
}  // namespace

void duplicate_bits(const Call& call, const LocalMemory& dst, const void* scalar, uint32_t element,
                    const uint64_t* mask, int64_t repeats, int64_t block_stride,
                    int64_t repeat_stride) {
  const uint32_t lanes = 256 / element;
  MaskedDuplicate in{};
  in.mask[0] = mask[0], in.mask[1] = lanes > 64 ? mask[1] : 0;
  if ((in.mask[0] | in.mask[1]) == 0 || repeats == 0) return;
  // Blocks without a bit are not touched; within a block the others keep their values.
  uint32_t last = 0;
  for (uint32_t i = 0; i < lanes; ++i) {
    if (in.mask[i / 64] >> (i % 64) & 1) last = i + 1;
  }
  const Span span =
      Span::Of(last, repeats, AscendC::UnaryRepeatParams(block_stride, 1, repeat_stride, 8));
  VectorInstruction checked;
  if (!begin_vector(call, span, element, checked)) return;
  in.dst = vector_operand(call, "dst", dst, span, 0, element, true);
  in.repeats = checked.repeats, in.element = element;
  std::memcpy(&in.scalar, scalar, element);
  call.core.Issue<&run_masked_duplicate>(in, vector_work(checked, element));
}

namespace {
struct GatherInstruction {
  uint32_t dst, src, end, offsets, count, element;
};
void run_gather(SubCore& core, const GatherInstruction& in) {
  std::byte* ub = core.memory(Buffer::kUb);
  for (uint32_t i = 0; i < in.count; ++i) {
    uint32_t offset;
    std::memcpy(&offset, ub + in.offsets + i * 4, 4);
    const uint64_t at = uint64_t{in.src} + offset;
    if (offset % in.element != 0 || at + in.element > in.end) {
      core.Refuse("Gather: an offset is not aligned to the element or lies beyond the end of src");
      return;
    }
    std::memcpy(ub + in.dst + i * in.element, ub + at, in.element);
  }
}

struct BroadcastInstruction {
  uint32_t dst, src, repeats, block, repeat, element;
};
void run_broadcast(SubCore& core, const BroadcastInstruction& in) {
  std::byte* ub = core.memory(Buffer::kUb);
  for (uint32_t i = 0; i < in.repeats * 8; ++i) {
    std::byte* to = ub + in.dst + (i / 8) * in.repeat * 32 + (i % 8) * in.block * 32;
    std::byte value[4];
    std::memcpy(value, ub + in.src + i * in.element, in.element);
    for (uint32_t at = 0; at < 32; at += in.element) std::memcpy(to + at, value, in.element);
  }
}
}  // namespace

void gather(const Call& call, const LocalMemory& dst, const LocalMemory& src,
            const LocalMemory& offsets, uint32_t base, uint32_t count, uint32_t element) {
  if (count == 0) return;
  check_that(call, base % element == 0, "srcBaseAddr is not aligned to the element");
  check_operand(call, "src", src, Buffer::kUb, base + element, 32);
  call.core.Begin(PIPE_V, call.name, call.where);
  const Span span = Span::Count(count);
  // Any element of src may be read, so only its order counts, not whether all of it was written.
  call.core.Reads(Buffer::kUb, {src.address, src.end - src.address, 0, 1});
  vector_operand(call, "srcOffset", offsets, span, 1, 4, false);
  vector_operand(call, "dst", dst, span, 0, element, true);
  const GatherInstruction in{dst.address, src.address + base, src.end, offsets.address, count,
                             element};
  Work work;
  work.bytes = uint64_t{count} * element,
  work.repeats = static_cast<uint32_t>((work.bytes + 255) / 256);
  call.core.Issue<&run_gather>(in, work);
}

void broadcast_blocks(const Call& call, const LocalMemory& dst, const LocalMemory& src,
                      int64_t repeats, const AscendC::BrcbRepeatParams& params, uint32_t element) {
  check_range(call, "repeatTime", repeats, 0, 255);
  check_range(call, "dstBlkStride", params.dstBlkStride, 0, 65535);
  check_range(call, "dstRepStride", params.dstRepStride, 0, 65535);
  if (repeats == 0) return;
  BroadcastInstruction in;
  in.dst = dst.address, in.src = src.address, in.element = element;
  in.repeats = static_cast<uint32_t>(repeats);
  in.block = params.dstBlkStride == 0 ? 1 : static_cast<uint32_t>(params.dstBlkStride);
  in.repeat = static_cast<uint32_t>(params.dstRepStride);
  check_operand(call, "src", src, Buffer::kUb, uint64_t{in.repeats} * 8 * element, 32);
  check_operand(call, "dst", dst, Buffer::kUb,
                uint64_t{in.repeats - 1} * in.repeat * 32 + 7 * in.block * 32 + 32, 32);
  call.core.Begin(PIPE_V, call.name, call.where);
  call.core.Reads(Buffer::kUb, {in.src, in.repeats * 8 * element, 0, 1}, true);
  if (in.block == 1) {
    call.core.Writes(Buffer::kUb, {in.dst, 256, in.repeat * 32, in.repeats});
  } else {
    for (uint32_t i = 0; i < 8; ++i) {
      call.core.Writes(Buffer::kUb, {in.dst + i * in.block * 32, 32, in.repeat * 32, in.repeats});
    }
  }
  Work work;
  work.bytes = uint64_t{in.repeats} * 256, work.repeats = in.repeats;
  call.core.Issue<&run_broadcast>(in, work);
}

// ---- Compare and Select.

CompareInstruction begin_compare(const Call& call, const LocalMemory& dst, const LocalMemory& src0,
                                 const LocalMemory* src1, uint32_t count, uint32_t element) {
  check_that(call, count * element % 256 == 0,
             "count elements are not a multiple of 256 bytes: the rest would not be compared");
  CompareInstruction in{};
  in.count = count, in.dst = dst.address, in.src0 = src0.address;
  call.core.Begin(PIPE_V, call.name, call.where);
  const Span span = Span::Count(count);
  vector_operand(call, "src0", src0, span, 1, element, false);
  in.with_scalar = src1 == nullptr;
  if (src1 != nullptr) {
    vector_operand(call, "src1", *src1, span, 2, element, false);
    in.src1 = src1->address;
  }
  vector_operand(call, "dst", dst, Span::Count(count / 8), 0, 1, true);
  return in;
}

SelectInstruction begin_select(const Call& call, const LocalMemory& dst, const LocalMemory& mask,
                               const LocalMemory& src0, const LocalMemory* src1,
                               AscendC::SELMODE mode, uint32_t count, uint32_t element) {
  const bool scalar_mode = mode == AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE;
  check_that(call, scalar_mode == (src1 == nullptr),
             "VSEL_TENSOR_SCALAR_MODE goes with a scalar, the other modes with a tensor");
  SelectInstruction in{};
  in.count = count, in.dst = dst.address, in.mask = mask.address, in.src0 = src0.address;
  in.with_scalar = src1 == nullptr;
  in.same_mask = mode == AscendC::SELMODE::VSEL_CMPMASK_SPR;
  call.core.Begin(PIPE_V, call.name, call.where);
  const Span span = Span::Count(count);
  const uint32_t bits = in.same_mask ? std::min(count, 256 / element) : count;
  vector_operand(call, "selMask", mask, Span::Count((bits + 7) / 8), 1, 1, false);
  vector_operand(call, "src0", src0, span, 1, element, false);
  if (src1 != nullptr) {
    vector_operand(call, "src1", *src1, span, 2, element, false);
    in.src1 = src1->address;
  }
  vector_operand(call, "dst", dst, span, 0, element, true);
  return in;
}

// ---- Reductions.

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
                                int64_t mask, int64_t repeats, int64_t dst_stride,
                                int64_t block_stride, int64_t repeat_stride, uint32_t element,
                                Reduction reduction, ReduceOrder order, bool by_block) {
  check_range(call, "mask", mask, 0, 256 / element);
  check_range(call, "repeatTime", repeats, 0, 255);
  check_range(call, "dstRepStride", dst_stride, 0, 65535);
  check_range(call, "srcBlkStride", block_stride, 0, 65535);
  check_range(call, "srcRepStride", repeat_stride, 0, 65535);
  ReduceInstruction in{};
  in.reduction = reduction, in.order = order, in.by_block = by_block;
  in.mask = static_cast<uint32_t>(mask), in.repeats = static_cast<uint32_t>(repeats);
  const bool pair =
      order == ReduceOrder::ORDER_VALUE_INDEX || order == ReduceOrder::ORDER_INDEX_VALUE;
  const uint32_t unit = by_block                                 ? 8 * element
                        : pair                                   ? 2 * element
                        : order == ReduceOrder::ORDER_ONLY_INDEX ? 4
                                                                 : element;
  in.dst = dst.address, in.dst_stride = static_cast<uint32_t>(dst_stride) * unit;
  check_operand(call, "dst", dst, Buffer::kUb, uint64_t{in.repeats - 1} * in.dst_stride + unit,
                unit);
  call.core.Begin(PIPE_V, call.name, call.where);
  Span span;
  span.strided = true, span.mask = mask, span.repeats = repeats;
  span.strides[1] = block_stride, span.strides[4] = repeat_stride;
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

struct Extreme {
  float value;
  uint32_t index;
};
Extreme extreme(const float* values, uint32_t count, bool greatest) {
  Extreme best{values[0], 0};
  for (uint32_t i = 1; i < count; ++i) {
    if (greatest ? values[i] > best.value : values[i] < best.value) best = {values[i], i};
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
          result = in.reduction == Reduction::kSum
                       ? sum_of<T>(lanes + first, n)
                       : extreme(lanes + first, n, in.reduction == Reduction::kMax).value;
        }
        put<T>(to + block * sizeof(T), result);
      }
      continue;
    }
    if (in.reduction == Reduction::kSum) {
      put<T>(to, sum_of<T>(lanes, in.mask));
      continue;
    }
    const Extreme best = extreme(lanes, in.mask, in.reduction == Reduction::kMax);
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
    const bool greatest = in.reduction == Reduction::kMax;
    for (uint32_t done = 0; done < in.mask; done += kRepeat) {
      const uint32_t n = std::min(kRepeat, in.mask - done);
      load_lanes<T>(from + done * sizeof(T), lanes, n);
      const Extreme found = extreme(lanes, n, greatest);
      if (done == 0 || (greatest ? found.value > best : found.value < best)) {
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
