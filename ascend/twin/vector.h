#pragma once
// Vector instructions. A repeat is 256 bytes: 8 blocks of 32. The count form works on contiguous
// elements; the other on `mask` elements of each repeat, with strides between blocks and repeats.

#include <algorithm>
#include <concepts>

#include "checks.h"
#include "params.h"
#include "tensor.h"
#include "vector_elements.h"
#include "vector_moves.h"
#include "vector_reduce.h"
#include "vector_select.h"

namespace AscendC {

using weft::twin::Arithmetic;
using weft::twin::Floating;

// For every call that takes isSetMask.
#define WEFT_TWIN_SETS_MASK \
  static_assert(isSetMask, "the twin has no mask that outlives a call: isSetMask is true")

#define WEFT_TWIN_BINARY(name, Constraint)                                                        \
  template <Constraint T>                                                                         \
  __aicore__ inline void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0,              \
                              const LocalTensor<T>& src1, int32_t count,                          \
                              Where where = Where::current()) {                                   \
    weft::twin::binary<T, weft::twin::op::name>({weft::twin::here(), #name, where}, dst.memory(), \
                                                src0.memory(), src1.memory(),                     \
                                                weft::twin::Span::Count(count));                  \
  }                                                                                               \
  template <Constraint T, bool isSetMask = true>                                                  \
  __aicore__ inline void name(const LocalTensor<T>& dst, const LocalTensor<T>& src0,              \
                              const LocalTensor<T>& src1, uint64_t mask, Field repeatTime,        \
                              const BinaryRepeatParams& repeatParams,                             \
                              Where where = Where::current()) {                                   \
    WEFT_TWIN_SETS_MASK;                                                                          \
    weft::twin::binary<T, weft::twin::op::name>(                                                  \
        {weft::twin::here(), #name, where}, dst.memory(), src0.memory(), src1.memory(),           \
        weft::twin::Span::Of(mask, repeatTime, repeatParams));                                    \
  }

#define WEFT_TWIN_UNARY(name)                                                                      \
  template <Floating T>                                                                            \
  __aicore__ inline void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t count, \
                              Where where = Where::current()) {                                    \
    weft::twin::unary<T, weft::twin::op::name>({weft::twin::here(), #name, where}, dst.memory(),   \
                                               src.memory(), weft::twin::Span::Count(count));      \
  }                                                                                                \
  template <Floating T, bool isSetMask = true>                                                     \
  __aicore__ inline void name(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, \
                              Field repeatTime, const UnaryRepeatParams& repeatParams,             \
                              Where where = Where::current()) {                                    \
    WEFT_TWIN_SETS_MASK;                                                                           \
    weft::twin::unary<T, weft::twin::op::name>(                                                    \
        {weft::twin::here(), #name, where}, dst.memory(), src.memory(),                            \
        weft::twin::Span::Of(mask, repeatTime, repeatParams));                                     \
  }

#define WEFT_TWIN_SCALAR(name, operation)                                                          \
  template <Arithmetic T, bool isSetMask = true>                                                   \
  __aicore__ inline void name(const LocalTensor<T>& dst, const LocalTensor<T>& src,                \
                              const T& scalarValue, int32_t count,                                 \
                              Where where = Where::current()) {                                    \
    WEFT_TWIN_SETS_MASK;                                                                           \
    weft::twin::with_scalar<T, weft::twin::op::operation>({weft::twin::here(), #name, where},      \
                                                          dst.memory(), src.memory(), scalarValue, \
                                                          weft::twin::Span::Count(count));         \
  }                                                                                                \
  template <Arithmetic T, bool isSetMask = true>                                                   \
  __aicore__ inline void name(                                                                     \
      const LocalTensor<T>& dst, const LocalTensor<T>& src, const T& scalarValue, uint64_t mask,   \
      Field repeatTime, const UnaryRepeatParams& repeatParams, Where where = Where::current()) {   \
    WEFT_TWIN_SETS_MASK;                                                                           \
    weft::twin::with_scalar<T, weft::twin::op::operation>(                                         \
        {weft::twin::here(), #name, where}, dst.memory(), src.memory(), scalarValue,               \
        weft::twin::Span::Of(mask, repeatTime, repeatParams));                                     \
  }

WEFT_TWIN_BINARY(Add, Arithmetic)
WEFT_TWIN_BINARY(Sub, Arithmetic)
WEFT_TWIN_BINARY(Mul, Arithmetic)
WEFT_TWIN_BINARY(Div, Floating)
WEFT_TWIN_BINARY(Max, Arithmetic)
WEFT_TWIN_BINARY(Min, Arithmetic)

WEFT_TWIN_UNARY(Exp)
WEFT_TWIN_UNARY(Ln)
WEFT_TWIN_UNARY(Abs)
WEFT_TWIN_UNARY(Sqrt)
WEFT_TWIN_UNARY(Rsqrt)
WEFT_TWIN_UNARY(Reciprocal)
WEFT_TWIN_UNARY(Relu)

WEFT_TWIN_SCALAR(Adds, Add)
WEFT_TWIN_SCALAR(Muls, Mul)
WEFT_TWIN_SCALAR(Maxs, Max)
WEFT_TWIN_SCALAR(Mins, Min)

#undef WEFT_TWIN_BINARY
#undef WEFT_TWIN_UNARY
#undef WEFT_TWIN_SCALAR

// dst += src * scalar, one rounding to dst's type.
template <Floating T, Floating U>
__aicore__ inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src,
                            const U& scalarValue, int32_t count, Where where = Where::current()) {
  weft::twin::axpy<T, U>({weft::twin::here(), "Axpy", where}, dst.memory(), src.memory(),
                         scalarValue, weft::twin::Span::Count(count));
}
template <Floating T, Floating U, bool isSetMask = true>
__aicore__ inline void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src,
                            const U& scalarValue, uint64_t mask, Field repeatTime,
                            const UnaryRepeatParams& repeatParams, Where where = Where::current()) {
  WEFT_TWIN_SETS_MASK;
  weft::twin::axpy<T, U>({weft::twin::here(), "Axpy", where}, dst.memory(), src.memory(),
                         scalarValue, weft::twin::Span::Of(mask, repeatTime, repeatParams));
}

template <class T, class U>
__aicore__ inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src,
                            const RoundMode& roundMode, uint32_t count,
                            Where where = Where::current()) {
  weft::twin::cast<T, U>({weft::twin::here(), "Cast", where}, dst.memory(), src.memory(), roundMode,
                         weft::twin::Span::Count(count));
}
template <class T, class U, bool isSetMask = true>
__aicore__ inline void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src,
                            const RoundMode& roundMode, uint64_t mask, Field repeatTime,
                            const UnaryRepeatParams& repeatParams, Where where = Where::current()) {
  WEFT_TWIN_SETS_MASK;
  weft::twin::cast<T, U>({weft::twin::here(), "Cast", where}, dst.memory(), src.memory(), roundMode,
                         weft::twin::Span::Of(mask, repeatTime, repeatParams));
}

template <class T>
__aicore__ inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, int32_t count,
                                 Where where = Where::current()) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "the chip duplicates 16 and 32 bit elements");
  weft::twin::duplicate({weft::twin::here(), "Duplicate", where}, dst.memory(), &scalarValue,
                        sizeof(T), weft::twin::Span::Count(count));
}
template <class T, bool isSetMask = true>
__aicore__ inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask,
                                 Field repeatTime, Field dstBlockStride, Field dstRepeatStride,
                                 Where where = Where::current()) {
  WEFT_TWIN_SETS_MASK;
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "the chip duplicates 16 and 32 bit elements");
  weft::twin::duplicate(
      {weft::twin::here(), "Duplicate", where}, dst.memory(), &scalarValue, sizeof(T),
      weft::twin::Span::Of(mask, repeatTime,
                           UnaryRepeatParams(dstBlockStride, 1, dstRepeatStride, 8)));
}

// With a bit for each element of a repeat: mask[0] the first 64, mask[1] the rest of 16-bit ones.
template <class T, bool isSetMask = true>
__aicore__ inline void Duplicate(const LocalTensor<T>& dst, const T& scalarValue, uint64_t mask[],
                                 Field repeatTime, Field dstBlockStride, Field dstRepeatStride,
                                 Where where = Where::current()) {
  WEFT_TWIN_SETS_MASK;
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "the chip duplicates 16 and 32 bit elements");
  weft::twin::duplicate_bits({weft::twin::here(), "Duplicate", where}, dst.memory(), &scalarValue,
                             sizeof(T), mask, repeatTime, dstBlockStride, dstRepeatStride);
}

// dst[i] = first + i
template <class T>
__aicore__ inline void CreateVecIndex(LocalTensor<T> dst, const T& firstValue, uint32_t count,
                                      Where where = Where::current()) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, half> || std::is_same_v<T, int32_t> ||
                    std::is_same_v<T, int16_t>,
                "float, half, int32 or int16");
  weft::twin::create_index<T>({weft::twin::here(), "CreateVecIndex", where}, dst.memory(),
                              firstValue, count);
}

// dst[i] = the element of src at byte srcBaseAddr + srcOffset[i]
template <class T>
__aicore__ inline void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                              const LocalTensor<uint32_t>& srcOffset, uint32_t srcBaseAddr,
                              uint32_t count, Where where = Where::current()) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "the chip gathers 16 and 32 bit elements");
  weft::twin::gather({weft::twin::here(), "Gather", where}, dst.memory(), src.memory(),
                     srcOffset.memory(), srcBaseAddr, count, sizeof(T));
}

// Bit i of dst says whether src0[i] and src1[i] compare so. count elements fill whole repeats.
template <class T, class U>
  requires(Floating<T> || std::is_same_v<T, int32_t>)
__aicore__ inline void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0,
                               const LocalTensor<T>& src1, CMPMODE cmpMode, uint32_t count,
                               Where where = Where::current()) {
  static_assert(std::is_same_v<U, uint8_t> || std::is_same_v<U, int8_t>, "bits go to bytes");
  weft::twin::compare<T>({weft::twin::here(), "Compare", where}, dst.memory(), src0.memory(),
                         &src1.memory(), T(0), cmpMode, count);
}
template <class T, class U>
  requires(Floating<T> || std::is_same_v<T, int32_t>)
__aicore__ inline void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0,
                                     const T src1Scalar, CMPMODE cmpMode, uint32_t count,
                                     Where where = Where::current()) {
  static_assert(std::is_same_v<U, uint8_t> || std::is_same_v<U, int8_t>, "bits go to bytes");
  weft::twin::compare<T>({weft::twin::here(), "CompareScalar", where}, dst.memory(), src0.memory(),
                         nullptr, src1Scalar, cmpMode, count);
}

// dst[i] = bit i of selMask ? src0[i] : src1[i]
template <Floating T, class U>
__aicore__ inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask,
                              const LocalTensor<T>& src0, const LocalTensor<T>& src1,
                              SELMODE selMode, uint32_t count, Where where = Where::current()) {
  weft::twin::select<T>({weft::twin::here(), "Select", where}, dst.memory(), selMask.memory(),
                        src0.memory(), &src1.memory(), T(0), selMode, count);
}
template <Floating T, class U>
__aicore__ inline void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask,
                              const LocalTensor<T>& src0, T src1, SELMODE selMode, uint32_t count,
                              Where where = Where::current()) {
  weft::twin::select<T>({weft::twin::here(), "Select", where}, dst.memory(), selMask.memory(),
                        src0.memory(), nullptr, src1, selMode, count);
}

// dst[0] = the greatest of count elements, dst[1] = its lowest index as bits of an integer.
template <Floating T>
__aicore__ inline void ReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                                 const LocalTensor<T>& sharedTmpBuffer, int32_t count,
                                 bool calIndex = false, Where where = Where::current()) {
  weft::twin::reduce<T>({weft::twin::here(), "ReduceMax", where}, weft::twin::Reduction::kMax,
                        dst.memory(), src.memory(), sharedTmpBuffer.memory(), count, calIndex);
}
// Pairs of neighbours, then pairs of the sums, within a repeat; the repeats' sums the same way.
template <Floating T, bool isSetMask = true>
__aicore__ inline void ReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                                 const LocalTensor<T>& sharedTmpBuffer, int32_t count,
                                 Where where = Where::current()) {
  WEFT_TWIN_SETS_MASK;
  weft::twin::reduce<T>({weft::twin::here(), "ReduceSum", where}, weft::twin::Reduction::kSum,
                        dst.memory(), src.memory(), sharedTmpBuffer.memory(), count, false);
}

// One result for each repeat.
template <Floating T, bool isSetMask = true>
__aicore__ inline void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                                      int32_t mask, Field repeatTime, int32_t dstRepStride,
                                      int32_t srcBlkStride, int32_t srcRepStride,
                                      Where where = Where::current()) {
  WEFT_TWIN_SETS_MASK;
  weft::twin::reduce_repeats<T>({weft::twin::here(), "WholeReduceSum", where},
                                weft::twin::Reduction::kSum, dst.memory(), src.memory(),
                                {mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride});
}
template <Floating T, bool isSetMask = true>
__aicore__ inline void WholeReduceMax(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                                      int32_t mask, Field repeatTime, int32_t dstRepStride,
                                      int32_t srcBlkStride, int32_t srcRepStride,
                                      ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX,
                                      Where where = Where::current()) {
  WEFT_TWIN_SETS_MASK;
  weft::twin::reduce_repeats<T>(
      {weft::twin::here(), "WholeReduceMax", where}, weft::twin::Reduction::kMax, dst.memory(),
      src.memory(), {mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride, order});
}

// One result for each of a repeat's 8 blocks.
#define WEFT_TWIN_BLOCK_REDUCE(name, reduction)                                                \
  template <Floating T, bool isSetMask = true>                                                 \
  __aicore__ inline void name(const LocalTensor<T>& dst, const LocalTensor<T>& src,            \
                              Field repeatTime, int32_t mask, int32_t dstRepStride,            \
                              int32_t srcBlkStride, int32_t srcRepStride,                      \
                              Where where = Where::current()) {                                \
    WEFT_TWIN_SETS_MASK;                                                                       \
    weft::twin::reduce_repeats<T>({weft::twin::here(), #name, where}, reduction, dst.memory(), \
                                  src.memory(),                                                \
                                  {mask, repeatTime, dstRepStride, srcBlkStride, srcRepStride, \
                                   ReduceOrder::ORDER_ONLY_VALUE, true});                      \
  }
WEFT_TWIN_BLOCK_REDUCE(BlockReduceSum, weft::twin::Reduction::kSum)
WEFT_TWIN_BLOCK_REDUCE(BlockReduceMax, weft::twin::Reduction::kMax)
#undef WEFT_TWIN_BLOCK_REDUCE

// Each repeat takes 8 elements of src and fills a block of 32 bytes of dst with each.
template <class T>
__aicore__ inline void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src, Field repeatTime,
                            const BrcbRepeatParams& repeatParams, Where where = Where::current()) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "16 and 32 bit elements");
  weft::twin::broadcast_blocks({weft::twin::here(), "Brcb", where}, dst.memory(), src.memory(),
                               repeatTime, repeatParams, sizeof(T));
}

#undef WEFT_TWIN_SETS_MASK

}  // namespace AscendC
