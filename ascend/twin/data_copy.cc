#include "data_copy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "compute.h"

namespace weft::twin {
namespace {

struct CopyInstruction {
  uint8_t* global = nullptr;
  uint64_t global_stride = 0;
  uint32_t local = 0, local_stride = 0;
  uint32_t count = 0, length = 0;
  Buffer buffer = Buffer::kUb;
  // In: what surrounds a row. Out: 1 + the element to add, or 0.
  uint8_t left = 0, right = 0, element = 1;
  bool padded = false, fill = false;
  uint8_t add = 0;
  std::array<uint8_t, 8> value{};
};

uint32_t round_up(uint64_t value, uint32_t to) {
  return static_cast<uint32_t>((value + to - 1) / to * to);
}

void fill_with(std::byte* to, uint32_t bytes, const uint8_t* value, uint32_t element) {
  for (uint32_t i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(value[i % element]);
}

void run_in(SubCore& core, const CopyInstruction& in) {
  std::byte* to = core.memory(in.buffer) + in.local;
  const uint8_t* from = in.global;
  if (in.count == 1 && in.buffer == Buffer::kUb) core.Brings(in.local + in.left, from);
  for (uint32_t row = 0; row < in.count; ++row, to += in.local_stride, from += in.global_stride) {
    std::memcpy(to + in.left, from, in.length);
    if (!in.padded) continue;
    const uint32_t end = in.left + in.length;
    const uint32_t rest = round_up(end + in.right, 32) - end;
    // Without a value to fill with, the chip repeats the first element when nothing was asked for,
    // and anything may stand there otherwise.
    static constexpr std::array<uint8_t, 8> kAnything = {0x7f, 0x7f, 0x7f, 0x7f,
                                                         0x7f, 0x7f, 0x7f, 0x7f};
    const uint8_t* value = in.fill                         ? in.value.data()
                           : in.left == 0 && in.right == 0 ? from
                                                           : kAnything.data();
    fill_with(to, in.left, value, in.element);
    fill_with(to + end, rest, value, in.element);
  }
}

template <class T>
void add_row(uint8_t* to, const std::byte* from, uint32_t bytes) {
  for (uint32_t at = 0; at < bytes; at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, to + at, sizeof(T));
    std::memcpy(&b, from + at, sizeof(T));
    T sum;
    if constexpr (std::is_integral_v<T>)
      sum = static_cast<T>(int64_t{a} + b);
    else
      sum = T(static_cast<float>(a) + static_cast<float>(b));
    std::memcpy(to + at, &sum, sizeof(T));
  }
}

}  // namespace

void store_global(uint8_t* to, const std::byte* from, uint32_t bytes, uint8_t add) {
  if (add == 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  switch (static_cast<Element>(add - 1)) {
    case Element::kFloat:
      return add_row<float>(to, from, bytes);
    case Element::kHalf:
      return add_row<half>(to, from, bytes);
    case Element::kInt32:
      return add_row<int32_t>(to, from, bytes);
    case Element::kInt16:
      return add_row<int16_t>(to, from, bytes);
    default:
      return add_row<int8_t>(to, from, bytes);
  }
}

namespace {

void run_out(SubCore& core, const CopyInstruction& in) {
  const std::byte* from = core.memory(in.buffer) + in.local;
  uint8_t* to = in.global;
  for (uint32_t row = 0; row < in.count; ++row, from += in.local_stride, to += in.global_stride) {
    store_global(to, from, in.length, in.add);
  }
}

struct NdToNzInstruction {
  const uint8_t* from;
  uint32_t to;
  uint32_t matrices, rows, row_bytes;
  uint32_t from_matrix, from_row;  // strides in bytes
  uint32_t to_matrix, to_strip, to_row;
};
void run_nd_to_nz(SubCore& core, const NdToNzInstruction& in) {
  std::byte* l1 = core.memory(Buffer::kL1) + in.to;
  for (uint32_t matrix = 0; matrix < in.matrices; ++matrix) {
    for (uint32_t row = 0; row < in.rows; ++row) {
      const uint8_t* from = in.from + matrix * in.from_matrix + size_t{row} * in.from_row;
      std::byte* to = l1 + matrix * in.to_matrix + row * in.to_row;
      uint32_t done = 0;
      for (; done + 32 <= in.row_bytes; done += 32, to += in.to_strip) {
        std::memcpy(to, from + done, 32);
      }
      if (done == in.row_bytes) continue;
      std::memset(to, 0, 32);
      std::memcpy(to, from + done, in.row_bytes - done);
    }
  }
}

Pieces pieces_of(uint32_t address, const RowsOfBytes& rows, uint32_t length) {
  Pieces pieces{address, length, static_cast<uint32_t>(rows.local_stride),
                static_cast<uint32_t>(rows.count)};
  if (rows.count > 1 && rows.local_stride == length) {
    pieces.length = static_cast<uint32_t>(length * rows.count);
    pieces.count = 1;
  }
  return pieces;
}

uint64_t extent(const RowsOfBytes& rows, uint64_t stride, uint64_t length) {
  return (rows.count - 1) * stride + length;
}

Work moved(const RowsOfBytes& rows, const void* global) {
  Work work;
  work.bytes = rows.count * rows.length;
  work.global = {global, static_cast<uint32_t>(rows.count), static_cast<uint32_t>(rows.length),
                 rows.global_stride};
  return work;
}

}  // namespace

RowsOfBytes rows_of_blocks(const Call& call, const AscendC::DataCopyParams& params, bool in) {
  check_range(call, "blockCount", params.blockCount, 0, 4095);
  check_range(call, "blockLen", params.blockLen, 0, 65535);
  check_range(call, "srcStride", params.srcStride, 0, 65535);
  check_range(call, "dstStride", params.dstStride, 0, 65535);
  RowsOfBytes rows;
  rows.count = params.blockLen == 0 ? 0 : static_cast<uint64_t>(params.blockCount);
  rows.length = params.blockLen * 32;
  const uint64_t source = rows.length + params.srcStride * 32;
  const uint64_t target = rows.length + params.dstStride * 32;
  rows.global_stride = in ? source : target;
  rows.local_stride = in ? target : source;
  return rows;
}

RowsOfBytes rows_of_bytes(const Call& call, const AscendC::DataCopyExtParams& params,
                          uint32_t element, bool in, uint64_t padding) {
  check_range(call, "blockCount", params.blockCount, 0, 4095);
  check_range(call, "blockLen", params.blockLen, 0, 2097151);
  check_range(call, "srcStride", params.srcStride, 0, 0xffffffff);
  check_range(call, "dstStride", params.dstStride, 0, 0xffffffff);
  check_that(call, params.rsv == 0, "rsv is reserved: 0");
  check_that(call, params.blockLen % element == 0, "blockLen is not a number of whole elements");
  RowsOfBytes rows;
  rows.count = params.blockLen == 0 ? 0 : static_cast<uint64_t>(params.blockCount);
  rows.length = static_cast<uint64_t>(params.blockLen);
  const uint64_t local = round_up(rows.length + padding, 32);
  rows.global_stride = rows.length + (in ? params.srcStride : params.dstStride);
  rows.local_stride = local + (in ? params.dstStride : params.srcStride) * 32;
  return rows;
}

void copy_in(const Call& call, const LocalMemory& target, const void* source,
             const RowsOfBytes& rows, const RowPadding* padding) {
  if (rows.count == 0) return;
  const Buffer buffer = buffer_of(target.position);
  check_that(call, buffer == Buffer::kUb || (buffer == Buffer::kL1 && padding == nullptr),
             padding != nullptr ? "dst has to be in UB" : "dst has to be in UB or L1");
  const uint64_t around = padding == nullptr ? 0 : padding->left + padding->right;
  const uint32_t length = round_up(rows.length + around, 32);
  check_operand(call, "dst", target, buffer, extent(rows, rows.local_stride, length), 32);
  call.core.Begin(PIPE_MTE2, call.name, call.where, true);
  call.core.Touches(source, extent(rows, rows.global_stride, rows.length));
  call.core.Writes(buffer, pieces_of(target.address, rows, length));
  CopyInstruction in;
  in.global = static_cast<uint8_t*>(const_cast<void*>(source));
  in.global_stride = rows.global_stride;
  in.local = target.address, in.local_stride = static_cast<uint32_t>(rows.local_stride);
  in.count = static_cast<uint32_t>(rows.count), in.length = static_cast<uint32_t>(rows.length);
  in.buffer = buffer;
  if (padding != nullptr) {
    in.padded = true, in.fill = padding->fill;
    in.left = static_cast<uint8_t>(padding->left), in.right = static_cast<uint8_t>(padding->right);
    in.element = static_cast<uint8_t>(padding->element);
    in.value = padding->value;
  }
  if (in.count == 1 && buffer == Buffer::kUb)
    call.core.WillBring(in.local + in.left, in.global, in.length);
  call.core.Issue<&run_in>(in, moved(rows, source));
}

void copy_out(const Call& call, void* target, const LocalMemory& source, const RowsOfBytes& rows,
              Element element, bool unaligned) {
  if (rows.count == 0) return;
  const Buffer buffer = buffer_of(source.position);
  check_that(call, buffer == Buffer::kUb || (buffer == Buffer::kL1 && !unaligned),
             unaligned ? "src has to be in UB" : "src has to be in UB or L1");
  check_operand(call, "src", source, buffer, extent(rows, rows.local_stride, rows.length), 32);
  call.core.Begin(PIPE_MTE3, call.name, call.where);
  call.core.Touches(target, extent(rows, rows.global_stride, rows.length));
  call.core.Reads(buffer, pieces_of(source.address, rows, static_cast<uint32_t>(rows.length)),
                  buffer == Buffer::kUb);
  CopyInstruction in;
  in.global = static_cast<uint8_t*>(target);
  in.global_stride = rows.global_stride;
  in.local = source.address, in.local_stride = static_cast<uint32_t>(rows.local_stride);
  in.count = static_cast<uint32_t>(rows.count), in.length = static_cast<uint32_t>(rows.length);
  in.buffer = buffer;
  in.add = call.core.atomic();
  check_that(call, in.add == 0 || in.add - 1 == static_cast<int>(element),
             "SetAtomicAdd was called for another type");
  call.core.Issue<&run_out>(in, moved(rows, target));
}

void copy_nd_to_nz(const Call& call, const LocalMemory& target, const void* source,
                   const AscendC::Nd2NzParams& params, uint32_t element) {
  check_range(call, "ndNum", params.ndNum, 0, 4095);
  check_range(call, "nValue", params.nValue, 0, 16384);
  check_range(call, "dValue", params.dValue, 0, 65535);
  if (params.ndNum == 0 || params.nValue == 0 || params.dValue == 0) return;
  check_range(call, "srcNdMatrixStride", params.srcNdMatrixStride, 0, 65535);
  check_range(call, "srcDValue", params.srcDValue, 1, 65535);
  check_range(call, "dstNzC0Stride", params.dstNzC0Stride, 1, 16384);
  check_range(call, "dstNzNStride", params.dstNzNStride, 1, 16384);
  check_range(call, "dstNzMatrixStride", params.dstNzMatrixStride, 0, 16384);
  NdToNzInstruction in;
  in.from = static_cast<const uint8_t*>(source);
  in.to = target.address;
  in.matrices = static_cast<uint32_t>(params.ndNum);
  in.rows = static_cast<uint32_t>(params.nValue);
  in.row_bytes = static_cast<uint32_t>(params.dValue * element);
  in.from_matrix = static_cast<uint32_t>(params.srcNdMatrixStride * element);
  in.from_row = static_cast<uint32_t>(params.srcDValue * element);
  in.to_matrix = static_cast<uint32_t>(params.dstNzMatrixStride * element);
  in.to_strip = static_cast<uint32_t>(params.dstNzC0Stride * 32);
  in.to_row = static_cast<uint32_t>(params.dstNzNStride * 32);
  const uint32_t strips = round_up(in.row_bytes, 32) / 32;
  const uint64_t target_extent = uint64_t{in.matrices - 1} * in.to_matrix +
                                 uint64_t{strips - 1} * in.to_strip +
                                 uint64_t{in.rows - 1} * in.to_row + 32;
  check_operand(call, "dst", target, Buffer::kL1, target_extent, 32);
  check_that(call,
             in.matrices == 1 || in.rows == 1 || in.from_row == in.row_bytes ||
                 in.from_matrix == in.rows * in.from_row,
             "the twin fetches several matrices of rows with gaps only if each begins where the "
             "next row of the last one would: srcNdMatrixStride = nValue * srcDValue");
  check_that(call, in.to_matrix % 32 == 0, "dstNzMatrixStride is not a multiple of 32 bytes");
  call.core.Begin(PIPE_MTE2, call.name, call.where);
  call.core.Touches(source, uint64_t{in.matrices - 1} * in.from_matrix +
                                uint64_t{in.rows - 1} * in.from_row + in.row_bytes);
  for (uint32_t matrix = 0; matrix < in.matrices; ++matrix) {
    for (uint32_t strip = 0; strip < strips; ++strip) {
      Pieces pieces{target.address + matrix * in.to_matrix + strip * in.to_strip, 32, in.to_row,
                    in.rows};
      if (in.to_row == 32) pieces = {pieces.address, 32 * in.rows, 0, 1};
      call.core.Writes(Buffer::kL1, pieces);
    }
  }
  Work work;
  work.bytes = uint64_t{in.matrices} * in.rows * in.row_bytes;
  work.m = in.matrices * in.rows;
  if (in.rows == 1 || in.from_row == in.row_bytes) {  // a matrix is one piece
    work.global = {source, in.matrices, in.rows * in.row_bytes, in.from_matrix};
  } else {
    work.global = {source, in.matrices * in.rows, in.row_bytes, in.from_row};
  }
  call.core.Issue<&run_nd_to_nz>(in, work);
}

}  // namespace weft::twin
