// The way of a multiplication: rows to L1 as NZ, fractals to L0, Mmad, Fixpipe, at sizes around 16.

#include <cmath>

#include "compute.h"
#include "twin_testing.h"

namespace weft::twin {
namespace {

using namespace AscendC;  // NOLINT: as kernels do

struct Shape {
  int32_t m, n, k, transposed_b;
};

int32_t up(int32_t value) { return (value + 15) / 16 * 16; }

// z[m][n] = x[m][k] * w, where w is [n][k] (columns contiguous) or, transposed_b, [k][n].
void multiply_kernel(GM_ADDR x, GM_ADDR w, GM_ADDR z, Shape shape, int32_t to_half) {
  if ASCEND_IS_AIV
    return;
  TPipe pipe;
  TBuf<TPosition::A1> a1;
  TBuf<TPosition::B1> b1;
  TBuf<TPosition::A2> a2;
  TBuf<TPosition::B2> b2;
  TBuf<TPosition::CO1> co1;
  const int32_t m = up(shape.m), n = up(shape.n), k = up(shape.k);
  pipe.InitBuffer(a1, m * k * 2);
  pipe.InitBuffer(b1, n * k * 2);
  pipe.InitBuffer(a2, m * k * 2);
  pipe.InitBuffer(b2, n * k * 2);
  pipe.InitBuffer(co1, m * n * 4);
  GlobalTensor<half> gx, gw;
  gx.SetGlobalBuffer(reinterpret_cast<half*>(x));
  gw.SetGlobalBuffer(reinterpret_cast<half*>(w));
  auto la = a1.Get<half>();
  auto lb = b1.Get<half>();
  DataCopy(la, gx, Nd2NzParams(1, shape.m, shape.k, 0, shape.k, m, 1, 0));
  if (shape.transposed_b != 0) {
    DataCopy(lb, gw, Nd2NzParams(1, shape.k, shape.n, 0, shape.n, k, 1, 0));
  } else {
    DataCopy(lb, gw, Nd2NzParams(1, shape.n, shape.k, 0, shape.k, n, 1, 0));
  }
  SetFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
  WaitFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
  auto l0a = a2.Get<half>();
  auto l0b = b2.Get<half>();
  // L1 holds strips of 16 columns of k; L0A wants rows of fractals.
  for (int32_t i = 0; i < m / 16; ++i) {
    LoadData(l0a[i * k * 16], la[i * 256], LoadData2DParams(0, k / 16, m / 16, 0, 0, false, 0));
  }
  if (shape.transposed_b != 0) {
    for (int32_t i = 0; i < k / 16; ++i) {
      LoadDataWithTranspose(l0b[i * n * 16], lb[i * 256],
                            LoadData2dTransposeParams(0, n / 16, k / 16, 0, 0, 0));
    }
  } else {
    LoadData(l0b, lb, LoadData2DParams(0, k / 16 * n / 16, 1, 0, 0, false, 0));
  }
  SetFlag<HardEvent::MTE1_M>(EVENT_ID0);
  WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);
  auto c = co1.Get<float>();
  Mmad(c, l0a, l0b, MmadParams(shape.m, shape.n, shape.k, 0, false, true));
  PipeBarrier<PIPE_M>();
  Mmad(c, l0a, l0b, MmadParams(shape.m, shape.n, shape.k, 0, false, false));
  SetFlag<HardEvent::M_FIX>(EVENT_ID0);
  WaitFlag<HardEvent::M_FIX>(EVENT_ID0);
  FixpipeParamsV220 out(n, shape.m, m, n, false);
  if (to_half != 0) {
    GlobalTensor<half> gz;
    gz.SetGlobalBuffer(reinterpret_cast<half*>(z));
    out.quantPre = F322F16;
    Fixpipe(gz, c, out);
  } else {
    GlobalTensor<float> gz;
    gz.SetGlobalBuffer(reinterpret_cast<float*>(z));
    Fixpipe(gz, c, out);
  }
}

std::vector<half> noise(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<half> values(count);
  for (half& value : values) value = half(static_cast<float>(rng.Below(2001)) / 1000.0f - 1);
  return values;
}

class CubeShapes : public testing::TestWithParam<Shape> {};

TEST_P(CubeShapes, TwiceTheProduct) {
  const Shape shape = GetParam();
  const auto x = noise(shape.m * shape.k, 1), w = noise(shape.n * shape.k, 2);
  const int32_t n = up(shape.n);
  Device device(few_cores(3, 1));
  Array<half> gx(device, x), gw(device, w);
  Array<float> gz(device, up(shape.m) * n);
  Array<half> gh(device, up(shape.m) * n);
  device.Launch<multiply_kernel>(1, GM_ADDR(gx), GM_ADDR(gw), GM_ADDR(gz), shape, 0);
  device.Launch<multiply_kernel>(1, GM_ADDR(gx), GM_ADDR(gw), GM_ADDR(gh), shape, 1);
  expect_end(device);
  for (int32_t i = 0; i < shape.m; ++i) {
    for (int32_t j = 0; j < shape.n; ++j) {
      double sum = 0;
      for (int32_t l = 0; l < shape.k; ++l) {
        const half b = shape.transposed_b != 0 ? w[l * shape.n + j] : w[j * shape.k + l];
        sum += double{x[i * shape.k + l]} * double{b};
      }
      ASSERT_NEAR(gz[i * n + j], 2 * sum, 1e-4) << i << " " << j;
      ASSERT_EQ(gh[i * n + j].bits, half(gz[i * n + j]).bits);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Edges, CubeShapes,
                         testing::Values(Shape{2, 16, 16, 0}, Shape{15, 17, 31, 0},
                                         Shape{16, 16, 16, 1}, Shape{17, 33, 48, 1},
                                         Shape{33, 64, 80, 0}, Shape{40, 50, 70, 1},
                                         Shape{64, 128, 128, 0}, Shape{5, 4, 3, 0}));

// With m = 1 the chip takes the left matrix as one plain row.
TEST(Cube, OneRowIsRead) {
  const Shape shape{1, 32, 16, 0};
  const auto x = noise(16, 1), w = noise(32 * 16, 2);
  Device device(few_cores(3, 1));
  Array<half> gx(device, x), gw(device, w);
  Array<float> gz(device, 16 * 32);
  device.Launch<multiply_kernel>(1, GM_ADDR(gx), GM_ADDR(gw), GM_ADDR(gz), shape, 0);
  expect_end(device);
  for (int32_t j = 0; j < 32; ++j) {
    double sum = 0;
    for (int32_t l = 0; l < 16; ++l) sum += double{x[l]} * double{w[j * 16 + l]};
    EXPECT_NEAR(gz[j], 2 * sum, 1e-4);
  }
}

Product product_of(const std::vector<float>& a, const std::vector<half>& b, std::vector<float>& c,
                   uint32_t m, uint32_t n, uint32_t k) {
  Product product;
  product.a = a.data(), product.b = b.data(), product.c = c.data();
  product.m = m, product.n = n, product.k = k, product.a_stride = (k + 15) / 16 * 16;
  product.init = true;
  return product;
}

TEST(Cube, SameBitsWithAndWithoutVectors) {
  const uint32_t m = 19, n = 37, k = 75, k16 = 80, n16 = 48;
  std::vector<float> a(m * k16, 0.0f);
  const auto values = noise(m * k, 5);
  for (uint32_t r = 0; r < m; ++r) {
    for (uint32_t i = 0; i < k; ++i) a[r * k16 + i] = values[r * k + i];
  }
  const auto b = noise(k16 * n16, 6);
  std::vector<float> fast(32 * n16, 0.0f), plain = fast, alone = fast;
  multiply_add(product_of(a, b, fast, m, n, k));
  use_plain_arithmetic(true);
  multiply_add(product_of(a, b, plain, m, n, k));
  use_plain_arithmetic(false);
  EXPECT_EQ(fast, plain);
  for (const uint32_t rows : {1u, 2u, 3u}) {
    const auto some = noise(64 * 48, 7);
    std::vector<float> left(3 * 64), one(16 * 48, 0.5f);
    for (size_t i = 0; i < left.size(); ++i) left[i] = some[i];
    std::vector<float> other = one;
    Product product = product_of(left, some, one, rows, 48, 64);
    product.init = false;
    multiply_add(product);
    product.c = other.data();
    use_plain_arithmetic(true);
    multiply_add(product);
    use_plain_arithmetic(false);
    EXPECT_EQ(one, other) << rows;
  }
  // A row's bits do not depend on the rows beside it.
  std::vector<float> one(a.begin() + 7 * k16, a.begin() + 8 * k16);
  multiply_add(product_of(one, b, alone, 1, n, k));
  for (uint32_t j = 0; j < n; ++j) {
    EXPECT_EQ(alone[j / 16 * 256 + j % 16], fast[j / 16 * 512 + 7 * 16 + j % 16]);
  }
}

}  // namespace
}  // namespace weft::twin
