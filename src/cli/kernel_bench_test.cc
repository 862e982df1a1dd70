#include "cli/kernel_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;

TEST(BoundOf, IsTheSlowerOfComputingAndReading) {
  const MachineLimits limits{.read_bytes = 10, .int8_ops = 100, .bf16_ops = 50, .f32_ops = 25};
  KernelFigure figure;
  figure.operations = 200;
  figure.bytes = 10;
  figure.peak = Peak::kInt8;
  EXPECT_EQ(bound_of(figure, limits).seconds, 2);
  EXPECT_FALSE(bound_of(figure, limits).memory);
  figure.peak = Peak::kBF16;
  EXPECT_EQ(bound_of(figure, limits).seconds, 4);
  figure.peak = Peak::kF32;
  EXPECT_EQ(bound_of(figure, limits).seconds, 8);
  figure.bytes = 90;
  EXPECT_EQ(bound_of(figure, limits).seconds, 9);
  EXPECT_TRUE(bound_of(figure, limits).memory);
}

TEST(LayerMatrices, OfADenseModel) {
  const auto is = [](const char* name, int64_t outputs, int64_t inputs) {
    return ::testing::AllOf(Field(&LayerMatrix::name, name), Field(&LayerMatrix::outputs, outputs),
                            Field(&LayerMatrix::inputs, inputs));
  };
  EXPECT_THAT(layer_matrices(*find_dummy_shape("qwen2.5-0.5b")),
              ElementsAre(is("q+k+v", 1152, 896), is("output", 896, 896), is("gate+up", 9728, 896),
                          is("down", 896, 4864)));
  EXPECT_THAT(layer_matrices(*find_dummy_shape("qwen3-30b-a3b")),
              ElementsAre(is("q+k+v", 5120, 2048), is("output", 2048, 4096),
                          is("expert gate+up", 1536, 2048), is("expert down", 2048, 768)));
}

TEST(KernelBench, MeasuresEveryKernelOfEveryTable) {
  for (const KernelTable* kernels : available_kernels()) {
    SCOPED_TRACE(kernels->name);
    int rounds = 0;
    auto made = KernelBench::create({kernels, 2, 1, 1 << 20}, [&] { ++rounds; });
    ASSERT_TRUE(made.ok());
    KernelBench& bench = **made;
    DummyShape shape = *find_dummy_shape("smollm2-135m");
    shape.vocab = 500;
    const auto matrices = bench.matmul("small", {"matrix", 70, 256}, DType::kQ4_K, {1, 5});
    ASSERT_EQ(matrices.size(), 2);
    EXPECT_EQ(matrices[1].operations, 2.0 * 5 * 70 * 256);
    EXPECT_GT(matrices[1].bytes, 70 * 256 / 2);
    for (const KernelFigure& figure :
         {matrices[0], matrices[1], bench.prefill_attention(shape, KvType::kF16, 33),
          bench.decode_attention(shape, KvType::kF16, 33, 3), bench.sampling(shape)}) {
      SCOPED_TRACE(figure.kernel);
      EXPECT_GT(figure.seconds, 0);
    }
    EXPECT_EQ(rounds, 4);
    EXPECT_GT(bench.limits().read_bytes, 0);
    EXPECT_GT(bench.limits().int8_ops, 0);
    EXPECT_GT(bench.limits_of_one_thread().f32_ops, 0);
  }
}

}  // namespace
}  // namespace weft
