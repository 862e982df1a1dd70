#include "matmul_int8.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "matmul.h"
#include "matmul_testing.h"

namespace weft_ascend {
namespace {

using testing::Cores;
using testing::ExpectEnded;
using testing::OnDevice;
using testing::Problem;
using testing::Shape;
using weft::twin::Device;

void Int8FloatKernel(MatmulArgs args) {
  AscendC::TPipe pipe;
  MatmulInt8<float>(pipe, WholeLaunch(), args);
}

void Int8HalfKernel(MatmulArgs args) {
  AscendC::TPipe pipe;
  MatmulInt8<half>(pipe, WholeLaunch(), args);
}

void HalfWeightsKernel(MatmulArgs args) {
  AscendC::TPipe pipe;
  Matmul<float>(pipe, WholeLaunch(), args);
}

// Random int8 weights with a scale for each 32 inputs of an output, as the kernel reads them. The
// last group of an odd multiple of 16 inputs is half as long.
struct QuantizedWeights {
  std::vector<int8_t> values;
  std::vector<uint16_t> scales;
  std::vector<float> weights;  // [outputs, inputs]: half(value * scale)

  explicit QuantizedWeights(const Shape& shape) {
    const auto layout = weft::FractalLayout::of(shape.outputs, shape.inputs).value();
    values.resize(static_cast<size_t>(layout.values()));
    scales.resize(static_cast<size_t>(layout.scales()));
    std::mt19937 random(11);
    for (int32_t output = 0; output < shape.outputs; ++output) {
      half scale(0);
      for (int32_t input = 0; input < shape.inputs; ++input) {
        if (input % kGroupInputs == 0) {
          scale = half(static_cast<float>(random() % 2048 + 1) * 0x1p-18F);
          scales[static_cast<size_t>(layout.scale_at(output, input / kGroupInputs))] = scale.bits;
        }
        const auto value = static_cast<int8_t>(static_cast<int32_t>(random() % 256) - 128);
        values[static_cast<size_t>(layout.value_at(output, input))] = value;
        weights.push_back(half(static_cast<float>(value) * static_cast<float>(scale)));
      }
    }
  }
};

struct Int8Problem {
  explicit Int8Problem(const Shape& shape) : problem(shape), quantized(shape) {
    problem.set_weights(quantized.weights);
  }
  Problem problem;
  QuantizedWeights quantized;
};

template <auto kKernel, class Out>
std::vector<Out> MultiplyInt8(const Int8Problem& int8, int blocks, uint64_t seed) {
  Device device(Cores(blocks, seed));
  OnDevice on_device(device, int8.problem, sizeof(Out));
  MatmulArgs& args = on_device.args();
  args.weights = on_device.Upload(int8.quantized.values);
  args.scales = on_device.Upload(int8.quantized.scales);
  args.workspace = on_device.Allocate(static_cast<uint64_t>(MatmulInt8WorkspaceBytes(blocks)));
  device.Launch<kKernel>(blocks, args);
  ExpectEnded(device);
  return on_device.Out<Out>();
}

std::vector<float> MultiplyInt8(const Int8Problem& int8, int blocks, uint64_t seed) {
  return MultiplyInt8<&Int8FloatKernel, float>(int8, blocks, seed);
}

std::vector<float> MultiplyHalf(const Problem& problem, int blocks) {
  Device device(Cores(blocks, 1));
  OnDevice on_device(device, problem, sizeof(float));
  device.Launch<&HalfWeightsKernel>(blocks, on_device.args());
  ExpectEnded(device);
  return on_device.Out<float>();
}

// The bits of Matmul with the same weights as halves, which its own tests hold to the reference,
// whatever the team.
void ExpectRight(const Shape& shape) {
  SCOPED_TRACE(::testing::Message() << shape);
  const Int8Problem int8(shape);
  const std::vector<float> out = MultiplyHalf(int8.problem, 1);
  EXPECT_EQ(MultiplyInt8(int8, 1, 1), out);
  EXPECT_EQ(MultiplyInt8(int8, 2, 2), out);
  EXPECT_EQ(MultiplyInt8(int8, 3, 3), out);
}

TEST(MatmulInt8, RowsAroundEveryTileEdge) {
  for (const int32_t rows : {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 200}) {
    ExpectRight({rows, 160, 304});
  }
}

TEST(MatmulInt8, InputsAroundEveryGroupAndStep) {
  for (const int32_t inputs : {16, 32, 48, 64, 80, 96, 272, 576, 1024, 1040, 1056, 1536}) {
    ExpectRight({3, inputs, 16});
    ExpectRight({130, inputs, 272});
  }
}

TEST(MatmulInt8, OutputsAroundEveryTile) {
  for (const int32_t outputs : {16, 32, 48, 256, 272, 496, 576, 1552}) {
    ExpectRight({17, 96, outputs});
  }
}

TEST(MatmulInt8, HalfOutputIsTheFloatRoundedOnce) {
  const Int8Problem int8({17, 288, 272});
  const std::vector<float> floats = MultiplyInt8(int8, 2, 1);
  const std::vector<half> halves = MultiplyInt8<&Int8HalfKernel, half>(int8, 2, 1);
  ASSERT_EQ(halves.size(), floats.size());
  for (size_t i = 0; i < halves.size(); ++i) {
    ASSERT_EQ(halves[i].bits, half(floats[i]).bits) << "element " << i;
  }
}

// One operator after another in one kernel, as a layer has them: each takes the pipe, the flags and
// the workspace over from the one before.
struct ChainArgs {
  MatmulArgs half_weights;
  MatmulArgs int8_weights;
  MatmulArgs half_weights_again;
  MatmulArgs int8_weights_again;
};

void ChainKernel(ChainArgs args) {
  AscendC::TPipe pipe;
  const Team team = WholeLaunch();
  Matmul<float>(pipe, team, args.half_weights);
  MatmulInt8<float>(pipe, team, args.int8_weights);
  Matmul<float>(pipe, team, args.half_weights_again);
  MatmulInt8<float>(pipe, team, args.int8_weights_again);
}

TEST(MatmulInt8, OperatorsFollowEachOther) {
  const Int8Problem int8({33, 304, 592});
  const std::vector<float> out = MultiplyHalf(int8.problem, 2);
  for (int seed = 1; seed <= testing::Seeds(); ++seed) {
    Device device(Cores(2, static_cast<uint64_t>(seed)));
    OnDevice first(device, int8.problem, sizeof(float));
    OnDevice second(device, int8.problem, sizeof(float));
    OnDevice third(device, int8.problem, sizeof(float));
    OnDevice fourth(device, int8.problem, sizeof(float));
    for (OnDevice* quantized : {&second, &fourth}) {
      quantized->args().weights = first.Upload(int8.quantized.values);
      quantized->args().scales = first.Upload(int8.quantized.scales);
    }
    second.args().workspace = first.Allocate(static_cast<uint64_t>(MatmulInt8WorkspaceBytes(2)));
    fourth.args().workspace = second.args().workspace;
    device.Launch<&ChainKernel>(
        2, ChainArgs{first.args(), second.args(), third.args(), fourth.args()});
    ExpectEnded(device);
    for (OnDevice* run : {&first, &second, &third, &fourth}) {
      ASSERT_EQ(run->Out<float>(), out) << "seed " << seed;
    }
  }
}

TEST(MatmulInt8, TheSameBitsInEveryOrder) {
  const Int8Problem int8({65, 560, 592});
  const std::vector<float> out = MultiplyInt8(int8, 2, 1);
  for (int seed = 2; seed <= testing::Seeds(); ++seed) {
    ASSERT_EQ(MultiplyInt8(int8, 2, static_cast<uint64_t>(seed)), out) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weft_ascend
