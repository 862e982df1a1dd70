#include "vector_moves.h"

#include <algorithm>
#include <cstring>

#include "vector_lanes.h"

namespace weft::twin {

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

}  // namespace weft::twin
