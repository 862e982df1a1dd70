#include <cmath>
#include <limits>
#include <numeric>

#include "twin_testing.h"

// Vector instructions, each from global memory through UB and back.

namespace weft::twin {
namespace {

using namespace AscendC;  // NOLINT: as kernels do

constexpr uint32_t kCount = 200;  // no multiple of a repeat

// One vector core moves two arrays in, applies an operation and moves the result out.
template <class T, class Operation>
void apply(GM_ADDR x, GM_ADDR y, GM_ADDR z, Operation operation) {
  if ASCEND_IS_AIC
    return;
  if (GetSubBlockIdx() != 0) return;
  TPipe pipe;
  TQue<TPosition::VECIN, 2> in;
  TQue<TPosition::VECOUT, 1> out;
  TBuf<> spare;
  pipe.InitBuffer(in, 2, 4096);
  pipe.InitBuffer(out, 1, 8192);
  pipe.InitBuffer(spare, 8192);
  GlobalTensor<T> gx, gy;
  gx.SetGlobalBuffer(reinterpret_cast<T*>(x));
  gy.SetGlobalBuffer(reinterpret_cast<T*>(y));
  LocalTensor<T> a = in.AllocTensor<T>();
  DataCopyPad(a, gx, {1, static_cast<uint32_t>(kCount * sizeof(T)), 0, 0, 0},
              DataCopyPadExtParams<T>{true, 0, 0, T(0)});
  in.EnQue(a);
  LocalTensor<T> b = in.AllocTensor<T>();
  DataCopyPad(b, gy, {1, static_cast<uint32_t>(kCount * sizeof(T)), 0, 0, 0},
              DataCopyPadExtParams<T>{true, 0, 0, T(0)});
  in.EnQue(b);
  a = in.DeQue<T>();
  b = in.DeQue<T>();
  LocalTensor<uint8_t> d = out.AllocTensor<uint8_t>();
  const uint32_t bytes = operation(d, a, b, spare);
  in.FreeTensor(a);
  in.FreeTensor(b);
  out.EnQue(d);
  d = out.DeQue<uint8_t>();
  GlobalTensor<uint8_t> gz;
  gz.SetGlobalBuffer(z);
  DataCopyPad(gz, d, {1, bytes, 0, 0, 0});
  out.FreeTensor(d);
}

#define VECTOR_KERNEL(name, T, ...)                                             \
  void name(GM_ADDR x, GM_ADDR y, GM_ADDR z) {                                  \
    apply<T>(x, y, z,                                                           \
             [](LocalTensor<uint8_t> bytes, LocalTensor<T> a, LocalTensor<T> b, \
                TBuf<>& spare) -> uint32_t {                                    \
               (void)b, (void)spare;                                            \
               __VA_ARGS__                                                      \
             });                                                                \
  }

template <auto kKernel, class R, class T>
std::vector<R> run(const std::vector<T>& x, const std::vector<T>& y, size_t results) {
  std::vector<R> first;
  for (const Order order : {Order::kEager, Order::kLazy, Order::kMixed}) {
    Device device(few_cores(7, 1, order));
    Array<T> gx(device, x), gy(device, y);
    Array<R> gz(device, results);
    device.Launch<kKernel>(1, GM_ADDR(gx), GM_ADDR(gy), GM_ADDR(gz));
    expect_end(device);
    if (first.empty()) first = gz.values();
    EXPECT_EQ(0, std::memcmp(first.data(), gz.values().data(), results * sizeof(R)));
  }
  return first;
}

VECTOR_KERNEL(add_floats, float, {
  auto d = bytes.ReinterpretCast<float>();
  Add(d, a, b, kCount);
  PipeBarrier<PIPE_V>();
  Muls(d, d, 2.0f, kCount);
  return kCount * 4;
})

TEST(Vector, CountForm) {
  const auto x = ramp<float>(kCount, -3, 0.25f), y = ramp<float>(kCount, 1, 1);
  const auto z = run<add_floats, float>(x, y, kCount);
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(z[i], (x[i] + y[i]) * 2) << i;
}

VECTOR_KERNEL(divide_halves, half, {
  auto d = bytes.ReinterpretCast<half>();
  Div(d, a, b, kCount);
  return kCount * 2;
})

TEST(Vector, HalvesRoundOnce) {
  const auto x = ramp<half>(kCount, -3, 0.25f), y = ramp<half>(kCount, 1, 1);
  const auto z = run<divide_halves, half>(x, y, kCount);
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(z[i].bits, half(static_cast<float>(x[i]) / static_cast<float>(y[i])).bits) << i;
  }
}

VECTOR_KERNEL(subtract_row, float, {
  // Three rows of 64 minus one row of which every block is taken again for each of its repeats.
  auto d = bytes.ReinterpretCast<float>();
  Sub(d, a, b, 64, 3, {1, 1, 0, 8, 8, 1});
  return 192 * 4;
})

TEST(Vector, RepeatsWithStrides) {
  const auto x = ramp<float>(kCount, 0, 1), y = ramp<float>(kCount, 100, 10);
  const auto z = run<subtract_row, float>(x, y, 192);
  for (size_t i = 0; i < 192; ++i) {
    const size_t row = i / 64, lane = i % 8;
    EXPECT_EQ(z[i], x[i] - y[row * 8 + lane]) << i;
  }
}

VECTOR_KERNEL(unary_chain, float, {
  auto d = bytes.ReinterpretCast<float>();
  Abs(d, a, kCount);
  PipeBarrier<PIPE_V>();
  Adds(d, d, 1.0f, kCount);
  PipeBarrier<PIPE_V>();
  Sqrt(d, d, kCount);
  PipeBarrier<PIPE_V>();
  Reciprocal(d, d, kCount);
  PipeBarrier<PIPE_V>();
  Exp(d, d, kCount);
  PipeBarrier<PIPE_V>();
  Ln(d, d, kCount);
  PipeBarrier<PIPE_V>();
  Axpy(d, b, 3.0f, kCount);
  PipeBarrier<PIPE_V>();
  Maxs(d, d, -5.0f, kCount);
  return kCount * 4;
})

TEST(Vector, Functions) {
  const auto x = ramp<float>(kCount, -3, 0.25f), y = ramp<float>(kCount, -4, 0.5f);
  const auto z = run<unary_chain, float>(x, y, kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const float u = std::log(std::exp(1 / std::sqrt(std::fabs(x[i]) + 1)));
    EXPECT_FLOAT_EQ(z[i], std::max(-5.0f, u + 3 * y[i])) << i;
  }
}

VECTOR_KERNEL(extremes, float, {
  auto d = bytes.ReinterpretCast<float>();
  auto part = spare.Get<float>();
  Max(part, a, b, kCount);
  PipeBarrier<PIPE_V>();
  Mins(part, part, 9.0f, kCount);
  PipeBarrier<PIPE_V>();
  Rsqrt(part, part, kCount);
  Min(d, a, b, kCount);
  PipeBarrier<PIPE_V>();
  Relu(d, d, kCount);
  PipeBarrier<PIPE_V>();
  Sub(d, d, part, kCount);
  return kCount * 4;
})

TEST(Vector, ExtremesRsqrtRelu) {
  const auto x = ramp<float>(kCount, -3, 0.125f), y = ramp<float>(kCount, 12, -0.05f);
  const auto z = run<extremes, float>(x, y, kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const float greatest = std::min(std::max(x[i], y[i]), 9.0f);
    const float least = std::max(std::min(x[i], y[i]), 0.0f);
    EXPECT_FLOAT_EQ(z[i], least - 1.0f / std::sqrt(greatest)) << i;
  }
}

VECTOR_KERNEL(casts_of_integers, int32_t, {
  auto d = bytes.ReinterpretCast<float>();
  Cast(d, a, RoundMode::CAST_NONE, 64);
  Cast(d[64], a, RoundMode::CAST_FLOOR, 64);
  Cast(d[128], a, RoundMode::CAST_CEIL, 64);
  Cast(d[192], a, RoundMode::CAST_TRUNC, 64);
  Cast(d[256], a, RoundMode::CAST_ROUND, 64);
  return 320 * 4;
})

TEST(Vector, IntegersBecomeFloatsByTheirRoundMode) {
  std::vector<int32_t> x(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const auto odd = static_cast<int32_t>((1 << 24) + 2 * i + 1);  // between two floats
    x[i] = i % 2 == 0 ? odd : -odd;
  }
  x[5] = std::numeric_limits<int32_t>::max();
  const auto z = run<casts_of_integers, float>(x, x, 320);
  for (size_t i = 0; i < 64; ++i) {
    const auto exact = static_cast<double>(x[i]);
    const double floor = z[64 + i], ceil = z[128 + i];
    EXPECT_EQ(z[i], static_cast<float>(x[i])) << i;
    EXPECT_LT(floor, exact) << i;
    EXPECT_GT(ceil, exact) << i;
    EXPECT_EQ(std::nextafter(z[64 + i], INFINITY), z[128 + i]) << i;
    EXPECT_EQ(z[192 + i], exact < 0 ? z[128 + i] : z[64 + i]) << i;
    const double up = ceil - exact, down = exact - floor;
    const bool rise = up < down || (up == down && exact > 0);
    EXPECT_EQ(z[256 + i], rise ? z[128 + i] : z[64 + i]) << i;
  }
}

VECTOR_KERNEL(casts, float, {
  Duplicate(bytes.ReinterpretCast<float>(), 0.0f, 512);
  PipeBarrier<PIPE_V>();
  auto h = bytes.ReinterpretCast<half>();
  Cast(h, a, RoundMode::CAST_RINT, kCount);
  auto i = bytes.ReinterpretCast<int32_t>()[256];
  Cast(i, a, RoundMode::CAST_FLOOR, kCount);
  return 256 * 4 + kCount * 4;
})

TEST(Vector, Casts) {
  const auto x = ramp<float>(kCount, -3.3f, 0.37f);
  const auto z = run<casts, uint8_t>(x, x, 256 * 4 + kCount * 4);
  for (size_t i = 0; i < kCount; ++i) {
    half h;
    int32_t n = 0;
    std::memcpy(&h, z.data() + i * 2, 2);
    std::memcpy(&n, z.data() + 1024 + i * 4, 4);
    EXPECT_EQ(h.bits, half(x[i]).bits);
    EXPECT_EQ(n, static_cast<int32_t>(std::floor(x[i])));
  }
}

VECTOR_KERNEL(reductions, float, {
  Duplicate(bytes.ReinterpretCast<float>(), 0.0f, 512);
  PipeBarrier<PIPE_V>();
  auto d = bytes.ReinterpretCast<float>();
  auto tmp = spare.Get<float>();
  ReduceMax(d, a, tmp, kCount, true);
  PipeBarrier<PIPE_V>();
  ReduceSum(d[8], a, tmp, kCount);
  WholeReduceSum(d[16], a, 64, 3, 1, 1, 8);
  WholeReduceMax(d[24], a, 64, 3, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
  BlockReduceMax(d[32], a, 3, 64, 1, 1, 8);
  BlockReduceSum(d[128], a, 3, 64, 1, 1, 8);
  WholeReduceMax(d[160], a, 64, 3, 1, 1, 8);
  Brcb(d[64], b, 1, {1, 8});
  return 192 * 4;
})

TEST(Vector, Reductions) {
  auto x = ramp<float>(kCount, -3, 0.25f);
  x[70] = x[90] = 1000;
  const auto y = ramp<float>(kCount, 5, 1);
  const auto z = run<reductions, float>(x, y, 192);
  EXPECT_EQ(z[0], 1000);
  uint32_t index = 0;
  std::memcpy(&index, &z[1], 4);
  EXPECT_EQ(index, 70u);
  double sum = 0;
  for (const float value : x) sum += value;
  EXPECT_FLOAT_EQ(z[8], static_cast<float>(sum));
  for (size_t row = 0; row < 3; ++row) {
    double row_sum = 0;
    float row_max = -1e9f;
    for (size_t i = 0; i < 64; ++i) {
      row_sum += x[row * 64 + i];
      row_max = std::max(row_max, x[row * 64 + i]);
    }
    EXPECT_FLOAT_EQ(z[16 + row], static_cast<float>(row_sum));
    EXPECT_EQ(z[24 + row], row_max);
    EXPECT_EQ(z[160 + 2 * row], row_max);
    std::memcpy(&index, &z[161 + 2 * row], 4);
    EXPECT_EQ(x[row * 64 + index], row_max);
    EXPECT_EQ(index, row == 1 ? 6u : 63u);
    for (size_t block = 0; block < 8; ++block) {
      const size_t first = row * 64 + block * 8;
      EXPECT_EQ(z[32 + row * 8 + block],
                *std::max_element(x.begin() + first, x.begin() + first + 8));
      EXPECT_FLOAT_EQ(z[128 + row * 8 + block],
                      std::accumulate(x.begin() + first, x.begin() + first + 8, 0.0f));
    }
  }
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(z[64 + i], y[i / 8]);
}

VECTOR_KERNEL(choices, float, {
  Duplicate(bytes.ReinterpretCast<float>(), 0.0f, 512);
  PipeBarrier<PIPE_V>();
  auto d = bytes.ReinterpretCast<float>();
  auto mask = spare.Get<uint8_t>();
  auto other = spare.GetWithOffset<uint8_t>(64, 512);
  auto index = spare.GetWithOffset<int32_t>(256, 1024);
  CompareScalar(mask, a, 2.0f, CMPMODE::GE, 192);
  PipeBarrier<PIPE_V>();
  Select(d, mask, a, -1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 192);
  Compare(other, a, b, CMPMODE::LT, 64);
  PipeBarrier<PIPE_V>();
  Select(d[192], other, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);
  CreateVecIndex(index, 0, 64);
  PipeBarrier<PIPE_V>();
  Muls(index, index, 8, 64);
  PipeBarrier<PIPE_V>();
  Gather(d[256], b, index.ReinterpretCast<uint32_t>(), 0, 64);
  Duplicate(d[320], 7.0f, 64);
  PipeBarrier<PIPE_V>();
  uint64_t odd[2] = {0xaaaaaaaaaaaaaaaau, 0};
  Duplicate(d[320], 8.0f, odd, 1, 1, 8);
  return 384 * 4;
})

TEST(Vector, CompareSelectGather) {
  const auto x = ramp<float>(kCount, -3, 0.25f), y = ramp<float>(kCount, 5, 1);
  const auto z = run<choices, float>(x, y, 384);
  for (size_t i = 0; i < 192; ++i) EXPECT_EQ(z[i], x[i] >= 2 ? x[i] : -1) << i;
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(z[192 + i], std::min(x[i], y[i])) << i;
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(z[256 + i], y[2 * i]) << i;
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(z[320 + i], i % 2 == 0 ? 7 : 8) << i;
}

TEST(Vector, ExponentialIsWithinAUnit) {
  EXPECT_EQ(exponential(0.0f), 1.0f);
  EXPECT_EQ(exponential(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_EQ(exponential(std::numeric_limits<float>::infinity()),
            std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
  for (int i = -10400; i < 8870; ++i) {
    const float x = static_cast<float>(i) * 0.01f + 0.0003f;
    const double exact = std::exp(static_cast<double>(x));
    const auto near = static_cast<float>(exact);
    const double unit = std::nextafter(near, std::numeric_limits<float>::infinity()) - near;
    EXPECT_LE(std::fabs(exponential(x) - exact), 1.01 * unit) << x;
  }
}

TEST(Half, Conversions) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    half h;
    h.bits = static_cast<uint16_t>(bits);
    const float f = h;
    if (std::isnan(f)) continue;
    EXPECT_EQ(half(f).bits, h.bits) << bits;
    float wide = 0;
    halves_to_floats(&h, &wide, 1);
    EXPECT_EQ(wide, f);
  }
  std::vector<float> values;
  for (uint32_t i = 0; i < 4000; ++i) {
    values.push_back(std::bit_cast<float>(0x33000000u + i * 0x3507u));
    values.push_back(-std::bit_cast<float>(0x47000000u + i * 0x107u));
  }
  std::vector<half> fast(values.size()), plain(values.size());
  floats_to_halves(values.data(), fast.data(), values.size());
  use_plain_arithmetic(true);
  floats_to_halves(values.data(), plain.data(), values.size());
  use_plain_arithmetic(false);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(fast[i].bits, plain[i].bits) << values[i];
}

}  // namespace
}  // namespace weft::twin
