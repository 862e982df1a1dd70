#pragma once
// Which elements of UB a vector instruction works on, checked.

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "checks.h"
#include "params.h"
#include "sub_core.h"

namespace weft::twin {

template <class T>
concept Floating = std::is_same_v<T, float> || std::is_same_v<T, half>;
template <class T>
concept Arithmetic = Floating<T> || std::is_same_v<T, int32_t> || std::is_same_v<T, int16_t>;

// Which elements an instruction works on. repeats == 0: `count` contiguous ones.
struct Span {
  int64_t count = 0;
  int64_t mask = 0, repeats = 0;
  int64_t strides[6] = {1, 1, 1, 8, 8, 8};  // blocks of dst, src0, src1, then repeats
  bool strided = false;

  static Span Count(int64_t count) {
    Span span;
    span.count = count;
    return span;
  }
  static Span Of(uint64_t mask, int64_t repeats, const AscendC::BinaryRepeatParams& p) {
    return {0,
            static_cast<int64_t>(mask),
            repeats,
            {p.dstBlkStride, p.src0BlkStride, p.src1BlkStride, p.dstRepStride, p.src0RepStride,
             p.src1RepStride},
            true};
  }
  static Span Of(uint64_t mask, int64_t repeats, const AscendC::UnaryRepeatParams& p) {
    return {0,
            static_cast<int64_t>(mask),
            repeats,
            {p.dstBlkStride, p.srcBlkStride, 1, p.dstRepStride, p.srcRepStride, 8},
            true};
  }
};

struct VectorOperand {
  uint32_t address = 0;
  uint16_t block = 1, repeat = 8;  // strides in 32 bytes
};

struct VectorInstruction {
  VectorOperand dst, src0, src1;
  uint32_t count = 0;  // contiguous, or of each repeat
  uint32_t repeats = 0;
  uint32_t scalar = 0;  // its bits
  uint8_t mode = 0;
};

// Checks the span against the wider of the element sizes; false if there is nothing to do.
bool begin_vector(const Call& call, const Span& span, uint32_t widest, VectorInstruction& out);
// Checks an operand and records the access. `which`: 0 dst, 1 src0, 2 src1.
VectorOperand vector_operand(const Call& call, const char* name, const LocalMemory& memory,
                             const Span& span, int which, uint32_t element, bool write);
Work vector_work(const VectorInstruction& instruction, uint32_t element);

}  // namespace weft::twin
