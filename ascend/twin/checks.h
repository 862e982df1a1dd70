#pragma once
// What every call verifies of its operands before it becomes an instruction.

#include <cstdint>

#include "instruction.h"
#include "sub_core.h"

namespace weft::twin {

// Where a LocalTensor lies. `end` bounds the memory it was given.
struct LocalMemory {
  uint32_t address = 0;
  uint32_t end = 0;
  AscendC::TPosition position = AscendC::TPosition::VECCALC;
  bool given = false;  // by a TPipe or an explicit address
  uint8_t slot = 0;    // of the queue it came from
};

struct Call {
  SubCore& core;
  const char* name;
  const Where& where;
};

[[noreturn]] void refuse_range(const Call& call, const char* field, int64_t value, int64_t low,
                               int64_t high);
[[noreturn]] void refuse(const Call& call, const char* what);

inline void check_range(const Call& call, const char* field, int64_t value, int64_t low,
                        int64_t high) {
  if (value < low || value > high) [[unlikely]]
    refuse_range(call, field, value, low, high);
}
inline void check_that(const Call& call, bool condition, const char* what) {
  if (!condition) [[unlikely]]
    refuse(call, what);
}

// The operand lies in `buffer` of this core, its start is a multiple of `alignment` and `bytes`
// bytes from there are inside the memory the tensor was given.
void check_operand(const Call& call, const char* operand, const LocalMemory& memory, Buffer buffer,
                   uint64_t bytes, uint32_t alignment);
void check_element(SubCore& core, const LocalMemory& memory, uint32_t index, uint32_t bytes,
                   const Where& where);

}  // namespace weft::twin
