#pragma once
// Copies between global memory and the private buffers (MTE2 in, MTE3 out).

#include "checks.h"
#include "params.h"
#include "tensor.h"

namespace weft::twin {

enum class Element : uint8_t { kFloat, kHalf, kInt32, kInt16, kInt8, kOther };

template <class T>
constexpr Element element_of() {
  if constexpr (std::is_same_v<T, float>) return Element::kFloat;
  if constexpr (std::is_same_v<T, half>) return Element::kHalf;
  if constexpr (std::is_same_v<T, int32_t>) return Element::kInt32;
  if constexpr (std::is_same_v<T, int16_t>) return Element::kInt16;
  if constexpr (std::is_same_v<T, int8_t>) return Element::kInt8;
  return Element::kOther;
}

// Rows of bytes; strides are from start to start.
struct RowsOfBytes {
  uint64_t count = 0, length = 0;
  uint64_t global_stride = 0, local_stride = 0;
};
// What DataCopyPad puts around each row in UB.
struct RowPadding {
  uint64_t left = 0, right = 0;  // bytes
  bool fill = false;             // with `value`, else with whatever
  uint32_t element = 1;
  std::array<uint8_t, 8> value{};
};

// To global memory, adding to what is there if `add` says so (1 + Element).
void store_global(uint8_t* to, const std::byte* from, uint32_t bytes, uint8_t add);

void copy_in(const Call& call, const LocalMemory& target, const void* source,
             const RowsOfBytes& rows, const RowPadding* padding);
void copy_out(const Call& call, void* target, const LocalMemory& source, const RowsOfBytes& rows,
              Element element, bool unaligned);
void copy_nd_to_nz(const Call& call, const LocalMemory& target, const void* source,
                   const AscendC::Nd2NzParams& params, uint32_t element);
RowsOfBytes rows_of_blocks(const Call& call, const AscendC::DataCopyParams& params, bool in);
RowsOfBytes rows_of_bytes(const Call& call, const AscendC::DataCopyExtParams& params,
                          uint32_t element, bool in, uint64_t padding);

inline RowsOfBytes one_row(const Call& call, uint64_t bytes) {
  check_that(call, bytes % 32 == 0,
             "the length is not a multiple of 32 bytes: use DataCopyPad for tails");
  return {bytes == 0 ? uint64_t{0} : 1, bytes, 0, 0};
}

}  // namespace weft::twin

namespace AscendC {

template <class T>
__aicore__ inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                                uint32_t count, Where where = Where::current()) {
  const weft::twin::Call call{weft::twin::here(), "DataCopy", where};
  weft::twin::copy_in(call, dst.memory(), src.GetPhyAddr(),
                      weft::twin::one_row(call, uint64_t{count} * sizeof(T)), nullptr);
}
template <class T>
__aicore__ inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                                const DataCopyParams& repeatParams,
                                Where where = Where::current()) {
  const weft::twin::Call call{weft::twin::here(), "DataCopy", where};
  weft::twin::copy_in(call, dst.memory(), src.GetPhyAddr(),
                      weft::twin::rows_of_blocks(call, repeatParams, true), nullptr);
}
template <class T>
__aicore__ inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                                uint32_t count, Where where = Where::current()) {
  const weft::twin::Call call{weft::twin::here(), "DataCopy", where};
  weft::twin::copy_out(call, dst.GetPhyAddr(), src.memory(),
                       weft::twin::one_row(call, uint64_t{count} * sizeof(T)),
                       weft::twin::element_of<T>(), false);
}
template <class T>
__aicore__ inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                                const DataCopyParams& repeatParams,
                                Where where = Where::current()) {
  const weft::twin::Call call{weft::twin::here(), "DataCopy", where};
  weft::twin::copy_out(call, dst.GetPhyAddr(), src.memory(),
                       weft::twin::rows_of_blocks(call, repeatParams, false),
                       weft::twin::element_of<T>(), false);
}
// [nValue, dValue] row-major in global memory to L1 as columns of 32-byte wide strips (NZ).
template <class T>
__aicore__ inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                                const Nd2NzParams& intriParams, Where where = Where::current()) {
  weft::twin::copy_nd_to_nz({weft::twin::here(), "DataCopy(Nd2Nz)", where}, dst.memory(),
                            src.GetPhyAddr(), intriParams, sizeof(T));
}

// Rows of any length in bytes; in UB each begins at a multiple of 32 bytes and is filled up to one.
template <class T>
__aicore__ inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
                                   const DataCopyExtParams& dataCopyParams,
                                   const DataCopyPadExtParams<T>& padParams,
                                   Where where = Where::current()) {
  const weft::twin::Call call{weft::twin::here(), "DataCopyPad", where};
  weft::twin::RowPadding padding;
  weft::twin::check_range(call, "leftPadding in bytes", padParams.leftPadding * sizeof(T), 0, 32);
  weft::twin::check_range(call, "rightPadding in bytes", padParams.rightPadding * sizeof(T), 0, 32);
  padding.left = padParams.leftPadding * sizeof(T);
  padding.right = padParams.rightPadding * sizeof(T);
  padding.fill = padParams.isPad;
  padding.element = sizeof(T);
  std::memcpy(padding.value.data(), &padParams.paddingValue, sizeof(T));
  const auto rows = weft::twin::rows_of_bytes(call, dataCopyParams, sizeof(T), true,
                                              padding.left + padding.right);
  weft::twin::copy_in(call, dst.memory(), src.GetPhyAddr(), rows, &padding);
}
template <class T>
__aicore__ inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src,
                                   const DataCopyExtParams& dataCopyParams,
                                   Where where = Where::current()) {
  const weft::twin::Call call{weft::twin::here(), "DataCopyPad", where};
  weft::twin::copy_out(call, dst.GetPhyAddr(), src.memory(),
                       weft::twin::rows_of_bytes(call, dataCopyParams, sizeof(T), false, 0),
                       weft::twin::element_of<T>(), true);
}

// Copies to global memory that are issued after it add to what is there, element by element.
template <class T>
__aicore__ inline void SetAtomicAdd() {
  static_assert(weft::twin::element_of<T>() != weft::twin::Element::kOther,
                "the chip adds float, half, int32, int16 and int8");
  weft::twin::here().set_atomic(static_cast<uint8_t>(weft::twin::element_of<T>()) + 1);
}
__aicore__ inline void SetAtomicNone() { weft::twin::here().set_atomic(0); }

}  // namespace AscendC
