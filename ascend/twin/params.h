#pragma once
// Parameter structs of the calls, fields in the card's order. On the card most fields are 8 or 16
// bits wide and a greater value is cut off in silence; here a Field keeps the whole value, so that
// the call can refuse it.

#include <cstdint>
#include <type_traits>

#include "device_types.h"

namespace weft::twin {

template <class Card>
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

using Field8 = Field<uint8_t>;
using Field16 = Field<uint16_t>;
using Field32 = Field<uint32_t>;

}  // namespace weft::twin

namespace AscendC {

using weft::twin::Field16;
using weft::twin::Field32;
using weft::twin::Field8;

// blockCount pieces of blockLen * 32 bytes; gaps between the end of one and the start of the next,
// in 32 bytes.
struct DataCopyParams {
  DataCopyParams() = default;
  DataCopyParams(Field16 count, Field16 length, Field16 source_gap, Field16 target_gap)
      : blockCount(count), blockLen(length), srcStride(source_gap), dstStride(target_gap) {}
  Field16 blockCount = 1;
  Field16 blockLen = 0;
  union {
    Field16 srcStride = 0;
    Field16 srcGap;
  };
  union {
    Field16 dstStride = 0;
    Field16 dstGap;
  };
};

// Lengths in bytes; gaps in bytes on the side of global memory, in 32 bytes on the local side.
struct DataCopyExtParams {
  DataCopyExtParams() = default;
  DataCopyExtParams(Field16 count, Field32 length, Field32 source_gap, Field32 target_gap,
                    Field32 reserved)
      : blockCount(count),
        blockLen(length),
        srcStride(source_gap),
        dstStride(target_gap),
        rsv(reserved) {}
  Field16 blockCount = 1;
  Field32 blockLen = 0;
  Field32 srcStride = 0;
  Field32 dstStride = 0;
  Field32 rsv = 0;
};

template <class T>
struct DataCopyPadExtParams {
  DataCopyPadExtParams() = default;
  DataCopyPadExtParams(bool pad, Field8 left, Field8 right, T value)
      : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}
  bool isPad = false;
  Field8 leftPadding = 0;
  Field8 rightPadding = 0;
  T paddingValue = T(0);
};

struct Nd2NzParams {
  Nd2NzParams() = default;
  Nd2NzParams(Field16 nd_count, Field16 rows, Field16 columns, Field16 source_matrix_stride,
              Field16 source_row_stride, Field16 c0_stride, Field16 row_stride,
              Field16 matrix_stride)
      : ndNum(nd_count),
        nValue(rows),
        dValue(columns),
        srcNdMatrixStride(source_matrix_stride),
        srcDValue(source_row_stride),
        dstNzC0Stride(c0_stride),
        dstNzNStride(row_stride),
        dstNzMatrixStride(matrix_stride) {}
  Field16 ndNum = 0;
  Field16 nValue = 0;
  Field16 dValue = 0;
  Field16 srcNdMatrixStride = 0;
  Field16 srcDValue = 0;
  Field16 dstNzC0Stride = 0;
  Field16 dstNzNStride = 0;
  Field16 dstNzMatrixStride = 0;
};

struct LoadData2DParams {
  LoadData2DParams() = default;
  LoadData2DParams(Field16 start, Field8 repeats, Field16 source_stride, Field8 reserved,
                   Field16 target_gap, bool transpose, Field8 address_mode)
      : startIndex(start),
        dstGap(target_gap),
        srcStride(source_stride),
        ifTranspose(transpose),
        repeatTimes(repeats),
        sid(reserved),
        addrMode(address_mode) {}
  Field16 startIndex = 0;
  Field16 dstGap = 0;
  Field16 srcStride = 0;
  bool ifTranspose = false;
  Field8 repeatTimes = 0;
  Field8 sid = 0;
  Field8 addrMode = 0;
};
using LoadData2dParams = LoadData2DParams;

struct LoadData2dTransposeParams {
  LoadData2dTransposeParams() = default;
  LoadData2dTransposeParams(Field16 start, Field8 repeats, Field16 source_stride,
                            Field16 target_gap, Field16 fractal_gap, Field8 address_mode)
      : startIndex(start),
        repeatTimes(repeats),
        srcStride(source_stride),
        dstGap(target_gap),
        dstFracGap(fractal_gap),
        addrMode(address_mode) {}
  Field16 startIndex = 0;
  Field8 repeatTimes = 0;
  Field16 srcStride = 0;
  Field16 dstGap = 0;
  Field16 dstFracGap = 0;
  Field8 addrMode = 0;
};

struct MmadParams {
  MmadParams() = default;
  MmadParams(Field16 rows, Field16 columns, Field16 depth, Field8 unit_flag, bool source, bool init)
      : m(rows),
        n(columns),
        k(depth),
        unitFlag(unit_flag),
        cmatrixSource(source),
        cmatrixInitVal(init) {}
  Field16 m = 0;
  Field16 n = 0;
  Field16 k = 0;
  bool isBias = false;
  Field32 fmOffset = 0;
  bool enSsparse = false;
  bool enWinogradA = false;
  bool enWinogradB = false;
  Field8 unitFlag = 0;
  bool kDirectionAlign = false;
  bool cmatrixSource = false;
  bool cmatrixInitVal = true;
};

struct FixpipeParamsV220 {
  FixpipeParamsV220() = default;
  FixpipeParamsV220(Field16 columns, Field16 rows, Field16 source_stride, Field32 target_stride,
                    bool relu)
      : nSize(columns),
        mSize(rows),
        srcStride(source_stride),
        dstStride(target_stride),
        reluEn(relu) {}
  Field16 nSize = 0;
  Field16 mSize = 0;
  Field16 srcStride = 0;
  Field32 dstStride = 0;
  QuantMode_t quantPre = QuantMode_t::NoQuant;
  uint64_t deqScalar = 0;
  Field16 ndNum = 1;
  Field16 srcNdStride = 0;
  Field16 dstNdStride = 0;
  bool reluEn = false;
  Field8 unitFlag = 0;
  bool isChannelSplit = false;
};

// Strides of 32-byte blocks within one repeat, and of repeats, in 32 bytes.
struct UnaryRepeatParams {
  UnaryRepeatParams() = default;
  UnaryRepeatParams(Field16 target_block, Field16 source_block, Field8 target_repeat,
                    Field8 source_repeat)
      : dstBlkStride(target_block),
        srcBlkStride(source_block),
        dstRepStride(target_repeat),
        srcRepStride(source_repeat) {}
  Field16 dstBlkStride = 1;
  Field16 srcBlkStride = 1;
  Field8 dstRepStride = 8;
  Field8 srcRepStride = 8;
};

struct BinaryRepeatParams {
  BinaryRepeatParams() = default;
  BinaryRepeatParams(Field8 target_block, Field8 source0_block, Field8 source1_block,
                     Field8 target_repeat, Field8 source0_repeat, Field8 source1_repeat)
      : dstBlkStride(target_block),
        src0BlkStride(source0_block),
        src1BlkStride(source1_block),
        dstRepStride(target_repeat),
        src0RepStride(source0_repeat),
        src1RepStride(source1_repeat) {}
  Field8 dstBlkStride = 1;
  Field8 src0BlkStride = 1;
  Field8 src1BlkStride = 1;
  Field8 dstRepStride = 8;
  Field8 src0RepStride = 8;
  Field8 src1RepStride = 8;
};

struct BrcbRepeatParams {
  BrcbRepeatParams() = default;
  BrcbRepeatParams(Field16 target_block, Field16 target_repeat)
      : dstRepStride(target_repeat), dstBlkStride(target_block) {}
  Field16 dstRepStride = 8;
  Field16 dstBlkStride = 1;
};

}  // namespace AscendC
