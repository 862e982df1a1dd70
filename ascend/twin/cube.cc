#include "cube.h"

#include <algorithm>
#include <cstring>

#include "compute.h"

namespace weft::twin {
namespace {

constexpr uint32_t kFractal = 512;  // bytes
constexpr uint32_t kSide = 16;

uint32_t up_to_side(uint32_t value) { return (value + kSide - 1) / kSide * kSide; }

struct LoadInstruction {
  uint32_t from, from_stride, to, to_stride, count;
  Buffer target;
  bool transpose;
};

void run_load(SubCore& core, const LoadInstruction& in) {
  const std::byte* from = core.memory(Buffer::kL1) + in.from;
  std::byte* to = core.memory(in.target) + in.to;
  if (!in.transpose && in.from_stride == kFractal && in.to_stride == kFractal) {
    std::memcpy(to, from, size_t{kFractal} * in.count);
    return;
  }
  for (uint32_t i = 0; i < in.count; ++i, from += in.from_stride, to += in.to_stride) {
    if (!in.transpose) {
      std::memcpy(to, from, kFractal);
      continue;
    }
    const auto* rows = reinterpret_cast<const uint16_t*>(from);
    auto* columns = reinterpret_cast<uint16_t*>(to);
    for (uint32_t r = 0; r < kSide; ++r) {
      for (uint32_t c = 0; c < kSide; ++c) columns[c * kSide + r] = rows[r * kSide + c];
    }
  }
}

void load(const Call& call, const LocalMemory& target, const LocalMemory& source, int64_t start,
          int64_t repeats, int64_t source_stride, int64_t target_gap, bool transpose) {
  check_range(call, "startIndex", start, 0, 65535);
  check_range(call, "repeatTimes", repeats, 0, 255);
  check_range(call, "srcStride", source_stride, 0, 65535);
  check_range(call, "dstGap", target_gap, 0, 65535);
  if (repeats == 0) return;
  const Buffer buffer = buffer_of(target.position);
  check_that(call, buffer == Buffer::kL0a || buffer == Buffer::kL0b,
             "dst has to be in L0A (A2) or L0B (B2)");
  LoadInstruction in;
  in.count = static_cast<uint32_t>(repeats);
  in.from_stride = static_cast<uint32_t>(source_stride) * kFractal;
  in.to_stride = static_cast<uint32_t>(1 + target_gap) * kFractal;
  in.target = buffer, in.transpose = transpose;
  const uint64_t source_end = uint64_t{kFractal} * static_cast<uint64_t>(start) +
                              uint64_t{in.count - 1} * in.from_stride + kFractal;
  check_operand(call, "src", source, Buffer::kL1, source_end, 32);
  check_operand(call, "dst", target, buffer, uint64_t{in.count - 1} * in.to_stride + kFractal,
                kFractal);
  in.from = source.address + static_cast<uint32_t>(start) * kFractal;
  in.to = target.address;
  call.core.Begin(PIPE_MTE1, call.name, call.where);
  call.core.Reads(Buffer::kL1, in.from_stride == kFractal
                                   ? Pieces{in.from, kFractal * in.count, 0, 1}
                                   : Pieces{in.from, kFractal, in.from_stride, in.count});
  call.core.Writes(buffer, {in.to, kFractal, in.to_stride, in.count}, true);
  Work work;
  work.bytes = uint64_t{kFractal} * in.count;
  work.buffer = buffer;
  call.core.Issue<&run_load>(in, work);
}

}  // namespace

void load_fractals(const Call& call, const LocalMemory& target, const LocalMemory& source,
                   const AscendC::LoadData2DParams& params) {
  check_that(call, !params.ifTranspose,
             "the twin does not emulate ifTranspose: use LoadDataWithTranspose");
  check_that(call, params.addrMode == 0, "addrMode is for copies from global memory to L1");
  check_that(call, params.sid == 0, "sid is reserved: 0");
  load(call, target, source, params.startIndex, params.repeatTimes, params.srcStride, params.dstGap,
       false);
}

void load_transposed(const Call& call, const LocalMemory& target, const LocalMemory& source,
                     const AscendC::LoadData2dTransposeParams& params) {
  check_that(call, params.addrMode == 0, "the twin emulates addrMode 0 only");
  check_that(call, params.dstFracGap == 0, "dstFracGap is not for 16-bit elements: 0");
  load(call, target, source, params.startIndex, params.repeatTimes, params.srcStride, params.dstGap,
       true);
}

namespace {

struct MmadInstruction {
  uint32_t a, b, c, m, n, k;
  bool init;
};

void run_mmad(SubCore& core, const MmadInstruction& in) {
  // L0A's halves as rows of floats, zero from k on.
  static thread_local std::vector<float> rows;
  const uint32_t depth = up_to_side(in.k);
  rows.resize(size_t{in.m} * depth);
  const auto* a = reinterpret_cast<const half*>(core.memory(Buffer::kL0a) + in.a);
  for (uint32_t r = 0; r < in.m; ++r) {
    float* row = rows.data() + size_t{r} * depth;
    if (in.m == 1) {
      halves_to_floats(a, row, in.k);
    } else {
      const half* from = a + (size_t{r / kSide} * (depth / kSide) * kSide + r % kSide) * kSide;
      for (uint32_t i = 0; i < depth; i += kSide, from += kSide * kSide) {
        halves_to_floats(from, row + i, kSide);
      }
    }
    std::fill(row + in.k, row + depth, 0.0f);
  }
  Product product;
  product.a = rows.data();
  product.b = reinterpret_cast<const half*>(core.memory(Buffer::kL0b) + in.b);
  product.c = reinterpret_cast<float*>(core.memory(Buffer::kL0c) + in.c);
  product.m = in.m, product.n = in.n, product.k = in.k;
  product.a_stride = depth, product.init = in.init;
  multiply_add(product);
}

}  // namespace

void multiply(const Call& call, const LocalMemory& c, const LocalMemory& a, const LocalMemory& b,
              const AscendC::MmadParams& params) {
  check_range(call, "m", params.m, 0, 4095);
  check_range(call, "n", params.n, 0, 4095);
  check_range(call, "k", params.k, 0, 4095);
  check_that(call, params.unitFlag == 0, "the twin does not emulate unitFlag: use M_FIX flags");
  check_that(call, !params.cmatrixSource && !params.isBias,
             "the twin does not emulate biases: cmatrixSource and isBias false");
  check_that(call, params.fmOffset == 0, "the twin does not emulate fmOffset");
  check_that(call, !params.enSsparse && !params.enWinogradA && !params.enWinogradB,
             "the twin emulates dense products only: enSsparse, enWinogradA, enWinogradB false");
  check_that(call, !params.kDirectionAlign, "kDirectionAlign is for float operands");
  if (params.m == 0 || params.n == 0 || params.k == 0) return;
  MmadInstruction in;
  in.a = a.address, in.b = b.address, in.c = c.address;
  in.m = static_cast<uint32_t>(params.m), in.n = static_cast<uint32_t>(params.n);
  in.k = static_cast<uint32_t>(params.k);
  in.init = params.cmatrixInitVal;
  const uint32_t m = up_to_side(in.m), n = up_to_side(in.n), k = up_to_side(in.k);
  const uint32_t a_bytes = (in.m == 1 ? k : m * k) * 2, b_bytes = k * n * 2, c_bytes = m * n * 4;
  check_operand(call, "fm", a, Buffer::kL0a, a_bytes, 512);
  check_operand(call, "filter", b, Buffer::kL0b, b_bytes, 512);
  check_operand(call, "dst", c, Buffer::kL0c, c_bytes, 1024);
  // The chip keeps accumulations into the same memory apart by itself when they are large enough.
  const bool own_order = (in.m / kSide) * (in.n / kSide) >= 10;
  call.core.Begin(PIPE_M, call.name, call.where);
  call.core.Reads(Buffer::kL0a, {in.a, a_bytes, 0, 1});
  call.core.Reads(Buffer::kL0b, {in.b, b_bytes, 0, 1});
  if (!in.init) call.core.Reads(Buffer::kL0c, {in.c, c_bytes, 0, 1}, true, own_order);
  call.core.Writes(Buffer::kL0c, {in.c, c_bytes, 0, 1}, own_order);
  Work work;
  work.multiply_adds = uint64_t{in.m} * in.n * in.k;
  work.m = in.m, work.n = in.n, work.k = in.k;
  call.core.Issue<&run_mmad>(in, work);
}

namespace {

struct FixpipeInstruction {
  uint8_t* to;
  uint64_t row_stride;        // bytes
  uint32_t from, from_strip;  // bytes
  uint32_t rows, strips;
  bool to_half;
  uint8_t add;
};

void run_fixpipe(SubCore& core, const FixpipeInstruction& in) {
  const std::byte* l0c = core.memory(Buffer::kL0c) + in.from;
  const uint32_t bytes = in.to_half ? 32 : 64;
  for (uint32_t strip = 0; strip < in.strips; ++strip) {
    const auto* from = reinterpret_cast<const float*>(l0c + strip * in.from_strip);
    uint8_t* to = in.to + size_t{strip} * bytes;
    for (uint32_t row = 0; row < in.rows; ++row, from += kSide, to += in.row_stride) {
      float values[kSide];
      std::memcpy(values, from, sizeof(values));
      half halves[kSide];
      if (in.to_half) floats_to_halves(values, halves, kSide);
      store_global(to,
                   in.to_half ? reinterpret_cast<const std::byte*>(halves)
                              : reinterpret_cast<const std::byte*>(values),
                   bytes, in.add);
    }
  }
}

}  // namespace

void fixpipe(const Call& call, void* target, const LocalMemory& source,
             const AscendC::FixpipeParamsV220& params, Element element) {
  check_range(call, "nSize", params.nSize, 0, 4095);
  check_range(call, "mSize", params.mSize, 0, 8192);
  check_range(call, "srcStride", params.srcStride, 0, 65535);
  check_range(call, "dstStride", params.dstStride, 1, 0xffffffff);
  check_that(call, params.nSize % kSide == 0, "nSize is not a multiple of 16");
  check_that(call, params.unitFlag == 0, "the twin does not emulate unitFlag: use M_FIX flags");
  check_that(call, !params.isChannelSplit, "the twin does not emulate isChannelSplit");
  check_that(call, !params.reluEn, "the twin does not emulate reluEn");
  check_range(call, "ndNum (the twin emulates one matrix)", params.ndNum, 0, 1);
  check_that(call, params.srcNdStride == 0 && params.dstNdStride == 0,
             "srcNdStride and dstNdStride are for several matrices: 0");
  check_that(call, params.deqScalar == 0, "deqScalar is for quantized results: 0");
  const bool to_half = element == Element::kHalf;
  check_that(call, params.quantPre == (to_half ? F322F16 : NoQuant),
             "quantPre has to be F322F16 for half and NoQuant for float");
  if (params.nSize == 0 || params.mSize == 0 || params.ndNum == 0) return;
  FixpipeInstruction in;
  in.to = static_cast<uint8_t*>(target);
  in.from = source.address, in.from_strip = static_cast<uint32_t>(params.srcStride) * 64;
  in.rows = static_cast<uint32_t>(params.mSize);
  in.strips = static_cast<uint32_t>(params.nSize) / kSide;
  in.to_half = to_half, in.add = call.core.atomic();
  const uint32_t bytes = to_half ? 32 : 64;  // of a strip's row
  in.row_stride = static_cast<uint64_t>(params.dstStride) * (to_half ? 2 : 4);
  check_that(call, in.add == 0 || in.add - 1 == static_cast<int>(element),
             "SetAtomicAdd was called for another type");
  check_operand(call, "src", source, Buffer::kL0c,
                uint64_t{in.strips - 1} * in.from_strip + uint64_t{in.rows} * 64, 64);
  call.core.Begin(PIPE_FIX, call.name, call.where);
  call.core.Touches(target, (in.rows - 1) * in.row_stride + in.strips * bytes);
  call.core.Reads(Buffer::kL0c, {in.from, in.rows * 64, in.from_strip, in.strips}, true);
  Work work;
  work.bytes = uint64_t{in.rows} * in.strips * bytes;
  work.global = {target, in.rows, in.strips * bytes, in.row_stride};
  call.core.Issue<&run_fixpipe>(in, work);
}

}  // namespace weft::twin
