#include "vector_span.h"

namespace weft::twin {

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

}  // namespace weft::twin
