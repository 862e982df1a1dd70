#include "vector_select.h"

namespace weft::twin {

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
             "VSEL_TENSOR_SCALAR_MODE goes with a scalar, VSEL_TENSOR_TENSOR_MODE with a tensor");
  SelectInstruction in{};
  in.count = count, in.dst = dst.address, in.mask = mask.address, in.src0 = src0.address;
  in.with_scalar = src1 == nullptr;
  call.core.Begin(PIPE_V, call.name, call.where);
  const Span span = Span::Count(count);
  vector_operand(call, "selMask", mask, Span::Count((count + 7) / 8), 1, 1, false);
  vector_operand(call, "src0", src0, span, 1, element, false);
  if (src1 != nullptr) {
    vector_operand(call, "src1", *src1, span, 2, element, false);
    in.src1 = src1->address;
  }
  vector_operand(call, "dst", dst, span, 0, element, true);
  return in;
}

}  // namespace weft::twin
