#pragma once
// Compare and Select: bits of comparisons, and choices by them.

#include <cstring>

#include "vector_lanes.h"

namespace weft::twin {

struct CompareInstruction {
  uint32_t dst, src0, src1;
  uint32_t count;
  uint32_t scalar;
  bool with_scalar;
  AscendC::CMPMODE mode;
};
template <class T>
void run_compare(SubCore& core, const CompareInstruction& in) {
  std::byte* ub = core.memory(Buffer::kUb);
  for (uint32_t i = 0; i < in.count; ++i) {
    T a, b;
    std::memcpy(&a, ub + in.src0 + i * sizeof(T), sizeof(T));
    if (in.with_scalar)
      std::memcpy(&b, &in.scalar, sizeof(T));
    else
      std::memcpy(&b, ub + in.src1 + i * sizeof(T), sizeof(T));
    const auto x = static_cast<Lane<T>>(a), y = static_cast<Lane<T>>(b);
    bool bit = false;
    switch (in.mode) {
      case AscendC::CMPMODE::LT:
        bit = x < y;
        break;
      case AscendC::CMPMODE::GT:
        bit = x > y;
        break;
      case AscendC::CMPMODE::EQ:
        bit = x == y;
        break;
      case AscendC::CMPMODE::LE:
        bit = x <= y;
        break;
      case AscendC::CMPMODE::GE:
        bit = x >= y;
        break;
      case AscendC::CMPMODE::NE:
        bit = x != y;
        break;
    }
    auto& byte = reinterpret_cast<uint8_t*>(ub)[in.dst + i / 8];
    byte = static_cast<uint8_t>(i % 8 == 0 ? (bit ? 1 : 0) : byte | (bit ? 1u << (i % 8) : 0u));
  }
}

struct SelectInstruction {
  uint32_t dst, mask, src0, src1;
  uint32_t count;
  uint32_t scalar;
  bool with_scalar;
};
template <class T>
void run_select(SubCore& core, const SelectInstruction& in) {
  std::byte* ub = core.memory(Buffer::kUb);
  for (uint32_t i = 0; i < in.count; ++i) {
    const bool bit = (reinterpret_cast<uint8_t*>(ub)[in.mask + i / 8] >> (i % 8)) & 1;
    const std::byte* other = in.with_scalar ? reinterpret_cast<const std::byte*>(&in.scalar)
                                            : ub + in.src1 + i * sizeof(T);
    std::memmove(ub + in.dst + i * sizeof(T), bit ? ub + in.src0 + i * sizeof(T) : other,
                 sizeof(T));
  }
}

CompareInstruction begin_compare(const Call& call, const LocalMemory& dst, const LocalMemory& src0,
                                 const LocalMemory* src1, uint32_t count, uint32_t element);
template <class T>
void compare(const Call& call, const LocalMemory& dst, const LocalMemory& src0,
             const LocalMemory* src1, T scalar, AscendC::CMPMODE mode, uint32_t count) {
  if (count == 0) return;
  if constexpr (std::is_same_v<T, int32_t>) {
    check_that(call, mode == AscendC::CMPMODE::EQ, "int32 can only be compared for EQ");
  }
  CompareInstruction in = begin_compare(call, dst, src0, src1, count, sizeof(T));
  in.mode = mode;
  std::memcpy(&in.scalar, &scalar, sizeof(T));
  Work work;
  work.bytes = count / 8, work.repeats = static_cast<uint32_t>(count * sizeof(T) / 256);
  call.core.Issue<&run_compare<T>>(in, work);
}

SelectInstruction begin_select(const Call& call, const LocalMemory& dst, const LocalMemory& mask,
                               const LocalMemory& src0, const LocalMemory* src1,
                               AscendC::SELMODE mode, uint32_t count, uint32_t element);
template <class T>
void select(const Call& call, const LocalMemory& dst, const LocalMemory& mask,
            const LocalMemory& src0, const LocalMemory* src1, T scalar, AscendC::SELMODE mode,
            uint32_t count) {
  if (count == 0) return;
  SelectInstruction in = begin_select(call, dst, mask, src0, src1, mode, count, sizeof(T));
  std::memcpy(&in.scalar, &scalar, sizeof(T));
  Work work;
  work.bytes = count * sizeof(T),
  work.repeats = static_cast<uint32_t>((count * sizeof(T) + 255) / 256);
  call.core.Issue<&run_select<T>>(in, work);
}

}  // namespace weft::twin
