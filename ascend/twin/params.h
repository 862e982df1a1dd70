#pragma once
// Parameter structs of the calls, fields in the card's order. On the card most fields are 8 or 16
// bits wide and a greater value is cut off in silence; here a Field keeps the whole value, so that
// the call can refuse it, as it does settings that the twin does not emulate.

#include <cstdint>
#include <type_traits>

#include "device_types.h"

namespace weft::twin {

class Field {
 public:
  Field() = default;
  template <class T>
    requires(std::is_integral_v<T> || std::is_enum_v<T>)
  constexpr Field(T value) : value_(static_cast<int64_t>(value)) {}  // NOLINT: as an integer
  constexpr operator int64_t() const { return value_; }              // NOLINT: as an integer

 private:
  int64_t value_;  // no initializer: unions of fields need a trivial constructor
};

}  // namespace weft::twin

namespace AscendC {

using weft::twin::Field;

// blockCount pieces of blockLen * 32 bytes; gaps between the end of one and the start of the next,
// in 32 bytes.
struct DataCopyParams {
  DataCopyParams() = default;
  DataCopyParams(Field count, Field length, Field source_gap, Field target_gap)
      : blockCount(count), blockLen(length), srcStride(source_gap), dstStride(target_gap) {}
  Field blockCount = 1;
  Field blockLen = 0;
  union {
    Field srcStride = 0;
    Field srcGap;
  };
  union {
    Field dstStride = 0;
    Field dstGap;
  };
};

// Lengths in bytes; gaps in bytes on the side of global memory, in 32 bytes on the local side.
struct DataCopyExtParams {
  DataCopyExtParams() = default;
  DataCopyExtParams(Field count, Field length, Field source_gap, Field target_gap, Field reserved)
      : blockCount(count),
        blockLen(length),
        srcStride(source_gap),
        dstStride(target_gap),
        rsv(reserved) {}
  Field blockCount = 1;
  Field blockLen = 0;
  Field srcStride = 0;
  Field dstStride = 0;
  Field rsv = 0;
};

template <class T>
struct DataCopyPadExtParams {
  DataCopyPadExtParams() = default;
  DataCopyPadExtParams(bool pad, Field left, Field right, T value)
      : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}
  bool isPad = false;
  Field leftPadding = 0;
  Field rightPadding = 0;
  T paddingValue = T(0);
};

struct Nd2NzParams {
  Nd2NzParams() = default;
  Nd2NzParams(Field nd_count, Field rows, Field columns, Field source_matrix_stride,
              Field source_row_stride, Field c0_stride, Field row_stride, Field matrix_stride)
      : ndNum(nd_count),
        nValue(rows),
        dValue(columns),
        srcNdMatrixStride(source_matrix_stride),
        srcDValue(source_row_stride),
        dstNzC0Stride(c0_stride),
        dstNzNStride(row_stride),
        dstNzMatrixStride(matrix_stride) {}
  Field ndNum = 0;
  Field nValue = 0;
  Field dValue = 0;
  Field srcNdMatrixStride = 0;
  Field srcDValue = 0;
  Field dstNzC0Stride = 0;
  Field dstNzNStride = 0;
  Field dstNzMatrixStride = 0;
};

struct LoadData2DParams {
  LoadData2DParams() = default;
  LoadData2DParams(Field start, Field repeats, Field source_stride, Field reserved,
                   Field target_gap, bool transpose, Field address_mode)
      : startIndex(start),
        dstGap(target_gap),
        srcStride(source_stride),
        ifTranspose(transpose),
        repeatTimes(repeats),
        sid(reserved),
        addrMode(address_mode) {}
  Field startIndex = 0;
  Field dstGap = 0;
  Field srcStride = 0;
  bool ifTranspose = false;
  Field repeatTimes = 0;
  Field sid = 0;
  Field addrMode = 0;
};

struct LoadData2dTransposeParams {
  LoadData2dTransposeParams() = default;
  LoadData2dTransposeParams(Field start, Field repeats, Field source_stride, Field target_gap,
                            Field fractal_gap, Field address_mode)
      : startIndex(start),
        repeatTimes(repeats),
        srcStride(source_stride),
        dstGap(target_gap),
        dstFracGap(fractal_gap),
        addrMode(address_mode) {}
  Field startIndex = 0;
  Field repeatTimes = 0;
  Field srcStride = 0;
  Field dstGap = 0;
  Field dstFracGap = 0;
  Field addrMode = 0;
};

struct MmadParams {
  MmadParams() = default;
  MmadParams(Field rows, Field columns, Field depth, Field unit_flag, bool source, bool init)
      : m(rows),
        n(columns),
        k(depth),
        unitFlag(unit_flag),
        cmatrixSource(source),
        cmatrixInitVal(init) {}
  Field m = 0;
  Field n = 0;
  Field k = 0;
  bool isBias = false;
  Field fmOffset = 0;
  bool enSsparse = false;
  bool enWinogradA = false;
  bool enWinogradB = false;
  Field unitFlag = 0;
  bool kDirectionAlign = false;
  bool cmatrixSource = false;
  bool cmatrixInitVal = true;
};

struct FixpipeParamsV220 {
  FixpipeParamsV220() = default;
  FixpipeParamsV220(Field columns, Field rows, Field source_stride, Field target_stride, bool relu)
      : nSize(columns),
        mSize(rows),
        srcStride(source_stride),
        dstStride(target_stride),
        reluEn(relu) {}
  Field nSize = 0;
  Field mSize = 0;
  Field srcStride = 0;
  Field dstStride = 0;
  QuantMode_t quantPre = QuantMode_t::NoQuant;
  uint64_t deqScalar = 0;
  Field ndNum = 1;
  Field srcNdStride = 0;
  Field dstNdStride = 0;
  bool reluEn = false;
  Field unitFlag = 0;
  bool isChannelSplit = false;
};

// Strides of 32-byte blocks within one repeat, and of repeats, in 32 bytes.
struct UnaryRepeatParams {
  UnaryRepeatParams() = default;
  UnaryRepeatParams(Field target_block, Field source_block, Field target_repeat,
                    Field source_repeat)
      : dstBlkStride(target_block),
        srcBlkStride(source_block),
        dstRepStride(target_repeat),
        srcRepStride(source_repeat) {}
  Field dstBlkStride = 1;
  Field srcBlkStride = 1;
  Field dstRepStride = 8;
  Field srcRepStride = 8;
};

struct BinaryRepeatParams {
  BinaryRepeatParams() = default;
  BinaryRepeatParams(Field target_block, Field source0_block, Field source1_block,
                     Field target_repeat, Field source0_repeat, Field source1_repeat)
      : dstBlkStride(target_block),
        src0BlkStride(source0_block),
        src1BlkStride(source1_block),
        dstRepStride(target_repeat),
        src0RepStride(source0_repeat),
        src1RepStride(source1_repeat) {}
  Field dstBlkStride = 1;
  Field src0BlkStride = 1;
  Field src1BlkStride = 1;
  Field dstRepStride = 8;
  Field src0RepStride = 8;
  Field src1RepStride = 8;
};

struct BrcbRepeatParams {
  BrcbRepeatParams() = default;
  BrcbRepeatParams(Field target_block, Field target_repeat)
      : dstRepStride(target_repeat), dstBlkStride(target_block) {}
  Field dstRepStride = 8;
  Field dstBlkStride = 1;
};

}  // namespace AscendC
