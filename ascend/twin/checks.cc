#include "checks.h"

#include <fmt/format.h>

#include "tensor.h"

namespace weft::twin {

Buffer buffer_of(AscendC::TPosition position) {
  switch (position) {
    case AscendC::TPosition::A1:
    case AscendC::TPosition::B1:
    case AscendC::TPosition::C1:
      return Buffer::kL1;
    case AscendC::TPosition::A2:
      return Buffer::kL0a;
    case AscendC::TPosition::B2:
      return Buffer::kL0b;
    case AscendC::TPosition::CO1:
      return Buffer::kL0c;
    default:
      return Buffer::kUb;
  }
}

void refuse_range(const Call& call, const char* field, int64_t value, int64_t low, int64_t high) {
  call.core.Fail(call.where, fmt::format("{}: {} is {}, not one of {} to {}", call.name, field,
                                         value, low, high));
}

void refuse(const Call& call, const char* what) {
  call.core.Fail(call.where, fmt::format("{}: {}", call.name, what));
}

static std::string describe_operand(const Call& call, const char* operand,
                                    const LocalMemory& memory, Buffer buffer, uint64_t bytes,
                                    uint32_t alignment) {
  if (!memory.given) {
    return fmt::format("{}: {} has no memory: allocate it from a queue or a TBuf", call.name,
                       operand);
  }
  const Buffer is = buffer_of(memory.position);
  if (is != buffer) {
    return fmt::format("{}: {} lies in {}, it has to be in {}", call.name, operand, buffer_name(is),
                       buffer_name(buffer));
  }
  if (!call.core.has(buffer)) {
    return fmt::format("{}: {} has no {}", call.name, call.core.role_name(), buffer_name(buffer));
  }
  if (memory.address % alignment != 0) {
    return fmt::format("{}: {} begins at byte {} of {}, not at a multiple of {}", call.name,
                       operand, memory.address, buffer_name(buffer), alignment);
  }
  const uint64_t end = memory.address + bytes;
  if (end > memory.end) {
    return fmt::format("{}: {} needs {} bytes, {} more than its tensor has", call.name, operand,
                       bytes, end - memory.end);
  }
  return fmt::format("{}: {} ends at byte {} of {}, which has {}", call.name, operand, end,
                     buffer_name(buffer), call.core.capacity(buffer));
}

void check_operand(const Call& call, const char* operand, const LocalMemory& memory, Buffer buffer,
                   uint64_t bytes, uint32_t alignment) {
  const uint64_t end = memory.address + bytes;
  if (memory.given && buffer_of(memory.position) == buffer && call.core.has(buffer) &&
      memory.address % alignment == 0 && end <= memory.end && end <= call.core.capacity(buffer))
      [[likely]] {
    return;
  }
  call.core.Fail(call.where, describe_operand(call, operand, memory, buffer, bytes, alignment));
}

void check_element(SubCore& core, const LocalMemory& memory, uint32_t index, uint32_t bytes,
                   const Where& where) {
  LocalMemory element = memory;
  element.address += index * bytes;
  check_operand({core, "GetValue or SetValue", where}, "the element", element,
                buffer_of(memory.position), bytes, bytes);
}

}  // namespace weft::twin
