// The matrix multiplication of every table this CPU can run, for every type, against the meaning of
// the weights.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/half.h"
#include "kernels/kernel_table.h"
#include "kernels/ref/dequantize.h"
#include "kernels/ref/quant_blocks.h"
#include "kernels/testing.h"

namespace weft {
namespace {

using testing::AlignedBytes;
using testing::random_blocks;
using testing::random_floats;
using testing::through_bf16;

// A matrix as a file holds it, packed for one table, and its values.
struct TestMatrix {
  TestMatrix(const KernelTable& table, DType type, int64_t outputs, int64_t inputs, uint32_t seed)
      : TestMatrix(table, random_blocks(type, outputs * inputs, seed), type, outputs, inputs) {}
  TestMatrix(const KernelTable& table, std::vector<std::byte> blocks, DType type, int64_t outputs,
             int64_t inputs)
      : bytes(std::move(blocks)),
        values(static_cast<size_t>(outputs * inputs)),
        storage(table.packed_bytes(type, outputs, inputs)) {
    dequantize(type, bytes.data(), outputs * inputs, values.data());
    magnitudes = values;
    for (float& magnitude : magnitudes) magnitude = std::fabs(magnitude);
    factors = values;
    if (type == DType::kF16 && testing::has_bf16_dots(table)) {
      for (float& factor : factors) factor = through_bf16(factor);
    }
    if (is_quantized(type) && quant_format(type).has_minimum) add_minimums(type);
    panels = (outputs + table.panel_outputs - 1) / table.panel_outputs;
    // In two parts, last first, as two threads would.
    table.pack(type, bytes.data(), outputs, inputs, panels / 2, panels, storage.data());
    table.pack(type, bytes.data(), outputs, inputs, 0, panels / 2, storage.data());
    packed = {type, outputs, inputs, storage.data()};
  }
  void add_minimums(DType type) {
    const DTypeInfo& info = dtype_info(type);
    QuantBlock block;
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t in_block = i % static_cast<size_t>(info.block_elems);
      const size_t index = i / static_cast<size_t>(info.block_elems);
      if (in_block == 0) {
        split_block(type, bytes.data() + index * static_cast<size_t>(info.block_bytes), block);
      }
      const int group = static_cast<int>(in_block) / quant_format(type).group;
      const float minimum = group_scale(type, block, group).minimum;
      magnitudes[i] = std::fabs(values[i] - minimum) + std::fabs(minimum);
    }
  }

  std::vector<std::byte> bytes;
  std::vector<float> values;      // [outputs, inputs]
  std::vector<float> factors;     // values as they are multiplied
  std::vector<float> magnitudes;  // of what a value is the sum of: |scale * level| + |minimum|
  AlignedBytes storage;
  int64_t panels = 0;
  PackedMatrix packed;
};

// The identity matrix as F32, BF16 or Q8_0.
std::vector<std::byte> identity_blocks(DType type, int64_t n) {
  std::vector<std::byte> bytes(static_cast<size_t>(n * row_bytes(type, n)));
  for (int64_t i = 0; i < n; ++i) {
    std::byte* row = bytes.data() + i * row_bytes(type, n);
    const float one = 1;
    if (type == DType::kF32) {
      std::memcpy(row + 4 * i, &one, 4);
    } else if (type == DType::kBF16) {
      const uint16_t bits = float_to_bfloat16(one);
      std::memcpy(row + 2 * i, &bits, 2);
    } else {
      const uint16_t scale = float_to_half(one);
      std::memcpy(row + i / 32 * 34, &scale, 2);
      row[i / 32 * 34 + 2 + i % 32] = std::byte{1};
    }
  }
  return bytes;
}

// Packs the rows and multiplies; the result is [rows, outputs].
std::vector<float> multiply(const KernelTable& table, const TestMatrix& matrix,
                            const RowSource& source, int64_t rows) {
  const ActivationFormat format = table.activation_format(matrix.packed.type);
  AlignedBytes activations(table.activation_bytes(format, rows, matrix.packed.inputs));
  const int64_t pieces = table.activation_pieces(format, rows);
  for (int64_t piece = 0; piece < pieces; ++piece) {
    table.pack_activations(format, source, rows, matrix.packed.inputs, piece, piece + 1,
                           activations.data());
  }
  std::vector<float> out(static_cast<size_t>(rows * matrix.packed.outputs), std::nanf(""));
  table.matmul(matrix.packed, activations.data(), rows, 0, matrix.panels,
               {.out = out.data(), .stride = matrix.packed.outputs});
  return out;
}

std::vector<float> multiply(const KernelTable& table, const TestMatrix& matrix,
                            const std::vector<float>& x, int64_t rows) {
  return multiply(table, matrix, {.x = x.data(), .stride = matrix.packed.inputs}, rows);
}

// The rule of ActivationFormat::kQ8 in scalar code: the value that a float becomes.
std::vector<float> through_q8(const std::vector<float>& x) {
  std::vector<float> out(x.size());
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    float maximum = 0;
    for (size_t i = begin; i < begin + 32; ++i) maximum = std::max(maximum, std::fabs(x[i]));
    const float scale =
        std::bit_cast<float>(std::bit_cast<uint32_t>(maximum * (1.0F / 127.0F)) & ~3U);
    const float inverse = 1.0F / scale;
    for (size_t i = begin; i < begin + 32; ++i) {
      out[i] = maximum < 1e-30F ? 0.0F : scale * std::nearbyint(x[i] * inverse);
    }
  }
  return out;
}

// The value that each float becomes on its way into a product.
std::vector<float> through(ActivationFormat format, std::vector<float> x) {
  if (format == ActivationFormat::kQ8) return through_q8(x);
  if (format == ActivationFormat::kBF16) {
    for (float& value : x) value = through_bf16(value);
  }
  return x;
}

// What an output must be, in doubles, and the sum of the magnitudes of all that is added up on the
// way to it: to that every rounding error is proportional.
struct Expected {
  double exact = 0;
  double magnitude = 0;
};
Expected expected(const TestMatrix& matrix, const float* x, int64_t output) {
  Expected result;
  const auto row = static_cast<size_t>(output * matrix.packed.inputs);
  for (size_t i = 0; i < static_cast<size_t>(matrix.packed.inputs); ++i) {
    result.exact += static_cast<double>(matrix.factors[row + i]) * x[i];
    result.magnitude += static_cast<double>(matrix.magnitudes[row + i]) * std::fabs(x[i]);
  }
  return result;
}

int64_t smallest_inputs(DType type) { return dtype_info(type).block_elems; }

// Additions: one an input for float weights; for quantized ones one or two a group of 16 or 32, the
// integers between being exact. Each rounds by half an epsilon at most, by a whole one where NEON
// adds products of bf16. Beside them a product's factors are rounded a few times.
double rounding_bound(DType type, int64_t inputs, double magnitude) {
  const double additions = is_quantized(type)
                               ? 2.0 * static_cast<double>(inputs) / quant_format(type).group
                               : static_cast<double>(inputs);
  const double epsilons = type == DType::kF16 || type == DType::kBF16 ? 1 : 0.5;
  return (additions + 6) * epsilons * std::numeric_limits<float>::epsilon() * magnitude + 1e-37;
}

class MatmulTest : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  const KernelTable& table() const { return testing::tested_table(std::get<0>(GetParam())); }
  DType type() const { return static_cast<DType>(std::get<1>(GetParam())); }
  ActivationFormat format() const { return table().activation_format(type()); }

  // How much x[at] times a weight may be off, relative to the weight.
  double rounding_of(const std::vector<float>& x, size_t at) const {
    if (format() == ActivationFormat::kBF16) {
      const double roundings = type() == DType::kF16 ? 2.01 : 1;
      return roundings * testing::kBf16Rounding * std::fabs(x[at]);
    }
    if (format() == ActivationFormat::kF32) return 0;
    float step = 0;
    for (size_t j = at / 32 * 32; j < at / 32 * 32 + 32; ++j) {
      step = std::max(step, std::fabs(x[j]) / 127);
    }
    return 0.5 * step;
  }

  void expect_product(int64_t outputs, int64_t inputs, int64_t rows, uint32_t seed) {
    const TestMatrix matrix(table(), type(), outputs, inputs, seed);
    const std::vector<float> x = random_floats(rows * inputs, seed + 1);
    const std::vector<float> seen = through(format(), x);
    const std::vector<float> out = multiply(table(), matrix, x, rows);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t o = 0; o < outputs; ++o) {
        const Expected e = expected(matrix, seen.data() + r * inputs, o);
        ASSERT_NEAR(out[static_cast<size_t>(r * outputs + o)], e.exact,
                    rounding_bound(type(), inputs, e.magnitude))
            << outputs << " x " << inputs << ", " << rows << " rows: row " << r << ", output " << o;
      }
    }
  }
};

// Against the float activations of `ref`: each may be off by half a step of its block, or be
// rounded to bf16 as F16 weights then are too.
TEST_P(MatmulTest, IsWithinTheQuantizationBoundOfRef) {
  constexpr int64_t kRows = 5;
  constexpr int64_t kInputs = 512;
  const KernelTable& ref = *find_kernels("ref").value();
  const TestMatrix matrix(table(), type(), 40, kInputs, 18);
  const TestMatrix ref_matrix(ref, type(), 40, kInputs, 18);
  const std::vector<float> x = random_floats(kRows * kInputs, 19);
  const std::vector<float> out = multiply(table(), matrix, x, kRows);
  const std::vector<float> ref_out = multiply(ref, ref_matrix, x, kRows);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t o = 0; o < 40; ++o) {
      double bound = 1e-5;
      for (int64_t i = 0; i < kInputs; ++i) {
        const auto at = static_cast<size_t>(r * kInputs + i);
        const float weight = std::fabs(matrix.values[static_cast<size_t>(o * kInputs + i)]);
        bound += weight * rounding_of(x, at);
      }
      const auto at = static_cast<size_t>(r * 40 + o);
      ASSERT_NEAR(out[at], ref_out[at], bound) << "row " << r << ", output " << o;
    }
  }
}

// The error of ordinary numbers: 0.54 % for int8 activations, 0.17 % for bf16 ones and 0.24 % where
// the weights are rounded as well.
TEST_P(MatmulTest, RelativeErrorAgainstRef) {
  constexpr int64_t kRows = 8;
  constexpr int64_t kInputs = 1024;
  constexpr int64_t kOutputs = 64;
  const KernelTable& ref = *find_kernels("ref").value();
  const std::vector<float> x = random_floats(kRows * kInputs, 22);
  const auto product = [&](const KernelTable& table) {
    return multiply(table, TestMatrix(table, type(), kOutputs, kInputs, 23), x, kRows);
  };
  const std::vector<float> out = product(table());
  const std::vector<float> exact = product(ref);
  double errors = 0;
  double squares = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    errors += std::pow(static_cast<double>(out[i]) - exact[i], 2);
    squares += std::pow(static_cast<double>(exact[i]), 2);
  }
  const double most = format() == ActivationFormat::kQ8    ? 0.0065
                      : format() == ActivationFormat::kF32 ? 1e-6
                      : type() == DType::kF16              ? 0.0028
                                                           : 0.0020;
  EXPECT_LE(std::sqrt(errors / squares), most);
}

TEST_P(MatmulTest, OutputsAroundPanelEdges) {
  for (int64_t outputs = 1; outputs <= 2 * table().panel_outputs + 1; ++outputs) {
    expect_product(outputs, smallest_inputs(type()), 3, static_cast<uint32_t>(outputs));
  }
}

TEST_P(MatmulTest, InputsFromOneBlockUp) {
  const int64_t step = smallest_inputs(type());
  const int64_t most = step == 1 ? 67 : step == 32 ? 20 : 5;
  for (int64_t blocks = 1; blocks <= most; ++blocks) {
    expect_product(33, blocks * step, 1, 100);
    expect_product(33, blocks * step, 6, 101);
  }
}

TEST_P(MatmulTest, ManyRows) {
  for (const int64_t rows : {1, 2, 3, 4, 5, 7, 12, 13, 25, 61, 130}) {
    expect_product(40, 1024, rows, static_cast<uint32_t>(rows));
  }
}

// Rows that together outgrow the second cache.
TEST_P(MatmulTest, ManyLongRows) {
  const int64_t outputs = is_quantized(type()) ? 3 : table().panel_outputs + 3;
  const int64_t inputs = smallest_inputs(type()) == 1 ? 8195 : 8192;
  expect_product(outputs, inputs, 80, 50);
}

// The promise that every test of whole models rests on.
TEST_P(MatmulTest, ARowsBitsDoNotDependOnTheOthers) {
  constexpr int64_t kRows = 70;
  constexpr int64_t kInputs = 768;
  const int64_t outputs = 2 * table().panel_outputs + 5;
  const TestMatrix matrix(table(), type(), outputs, kInputs, 7);
  const std::vector<float> x = random_floats(kRows * kInputs, 8);
  const std::vector<float> whole = multiply(table(), matrix, x, kRows);
  const auto same = [&](const std::vector<float>& part, int64_t first_row, int64_t rows) {
    return std::memcmp(part.data(), whole.data() + first_row * outputs,
                       static_cast<size_t>(rows * outputs) * sizeof(float)) == 0;
  };
  for (int64_t rows = 1; rows <= kRows; ++rows) {
    // The first rows and the last, so that a row sits at different places of its tile.
    const std::vector<float> head(x.begin(), x.begin() + rows * kInputs);
    const std::vector<float> tail(x.end() - rows * kInputs, x.end());
    ASSERT_TRUE(same(multiply(table(), matrix, head, rows), 0, rows)) << rows;
    ASSERT_TRUE(same(multiply(table(), matrix, tail, rows), kRows - rows, rows)) << rows;
  }
}

TEST_P(MatmulTest, BitsDoNotDependOnTheSplitOfPanels) {
  constexpr int64_t kRows = 14;
  constexpr int64_t kInputs = 512;
  const int64_t outputs = 4 * table().panel_outputs + 3;
  const TestMatrix matrix(table(), type(), outputs, kInputs, 9);
  const std::vector<float> x = random_floats(kRows * kInputs, 10);
  const std::vector<float> whole = multiply(table(), matrix, x, kRows);

  const ActivationFormat format = table().activation_format(type());
  AlignedBytes activations(table().activation_bytes(format, kRows, kInputs));
  table().pack_activations(format, {.x = x.data(), .stride = kInputs}, kRows, kInputs, 0,
                           table().activation_pieces(format, kRows), activations.data());
  std::vector<float> parts(whole.size());
  for (int64_t panel = matrix.panels; panel-- > 0;) {
    table().matmul(matrix.packed, activations.data(), kRows, panel, panel + 1,
                   {.out = parts.data(), .stride = outputs});
  }
  EXPECT_EQ(std::memcmp(parts.data(), whole.data(), whole.size() * sizeof(float)), 0);
}

TEST_P(MatmulTest, BiasAccumulationAndStride) {
  constexpr int64_t kInputs = 256;
  const int64_t outputs = table().panel_outputs + 7;
  const int64_t stride = outputs + 3;
  const TestMatrix matrix(table(), type(), outputs, kInputs, 11);
  for (const int64_t rows : {1, 5, 30}) {
    const std::vector<float> x = random_floats(rows * kInputs, 12);
    const std::vector<float> bias = random_floats(outputs, 13);
    const std::vector<float> before = random_floats(rows * stride, 14);
    const std::vector<float> plain = multiply(table(), matrix, x, rows);
    const ActivationFormat format = table().activation_format(type());
    AlignedBytes activations(table().activation_bytes(format, rows, kInputs));
    table().pack_activations(format, {.x = x.data(), .stride = kInputs}, rows, kInputs, 0,
                             table().activation_pieces(format, rows), activations.data());
    std::vector<float> out = before;
    table().matmul(matrix.packed, activations.data(), rows, 0, matrix.panels,
                   {.out = out.data(), .stride = stride, .bias = bias.data(), .accumulate = true});
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t o = 0; o < stride; ++o) {
        const auto at = static_cast<size_t>(r * stride + o);
        const float expected = o < outputs
                                   ? before[at] + (plain[static_cast<size_t>(r * outputs + o)] +
                                                   bias[static_cast<size_t>(o)])
                                   : before[at];
        ASSERT_EQ(out[at], expected) << "row " << r << ", output " << o;
      }
    }
  }
}

TEST_P(MatmulTest, UnpackingGivesTheValues) {
  const int64_t outputs = table().panel_outputs + 5;
  const int64_t inputs = smallest_inputs(type()) == 1 ? 37 : 3 * smallest_inputs(type());
  const TestMatrix matrix(table(), type(), outputs, inputs, 15);
  std::vector<float> row(static_cast<size_t>(inputs));
  for (int64_t o = 0; o < outputs; ++o) {
    table().unpack_row(matrix.packed, o, row.data());
    ASSERT_EQ(
        std::memcmp(row.data(), matrix.values.data() + o * inputs, row.size() * sizeof(float)), 0)
        << o;
  }
}

TEST_P(MatmulTest, RowsThatAreZeroOrNotFinite) {
  constexpr int64_t kInputs = 256;
  const TestMatrix matrix(table(), type(), 33, kInputs, 16);
  std::vector<float> x = random_floats(4 * kInputs, 17);
  std::fill_n(x.begin(), kInputs, 0.0F);
  x[kInputs + 40] = std::numeric_limits<float>::quiet_NaN();
  x[2 * kInputs + 41] = std::numeric_limits<float>::infinity();
  const std::vector<float> out = multiply(table(), matrix, x, 4);
  const std::vector<float> alone = multiply(table(), matrix, {x.begin() + 3 * kInputs, x.end()}, 1);
  for (size_t o = 0; o < 33; ++o) {
    EXPECT_EQ(out[o], 0.0F);
    EXPECT_FALSE(std::isfinite(out[33 + o]));
    EXPECT_EQ(out[3 * 33 + o], alone[o]);
  }
}

// What a RowSource stands for, in doubles.
std::vector<float> apply(const RowSource& source, int64_t rows, int64_t inputs) {
  std::vector<float> out;
  for (int64_t r = 0; r < rows; ++r) {
    const float* x = source.x + r * source.stride;
    double squares = 0;
    for (int64_t i = 0; i < inputs; ++i) squares += static_cast<double>(x[i]) * x[i];
    for (int64_t i = 0; i < inputs; ++i) {
      double value = x[i];
      if (source.op == RowSource::Op::kRmsNorm) {
        value =
            x[i] / std::sqrt(squares / static_cast<double>(inputs) + source.eps) * source.weight[i];
      } else if (source.op == RowSource::Op::kSwiGlu) {
        value = x[i] / (1 + std::exp(-static_cast<double>(x[i]))) * x[inputs + i];
      }
      out.push_back(static_cast<float>(value));
    }
  }
  return out;
}

class RowSourceTest
    : public ::testing::TestWithParam<std::tuple<std::string, DType, RowSource::Op>> {};

// An identity matrix shows the packed activations themselves: exactly the values the operation
// gives for F32 weights, up to half a step of their block for quantized ones, rounded where bf16 is
// multiplied.
TEST_P(RowSourceTest, TheOperationIsAppliedBeforeTheProduct) {
  const KernelTable& table = testing::tested_table(std::get<0>(GetParam()));
  const DType type = std::get<1>(GetParam());
  for (const int64_t inputs : {32, 96, 1056, 45}) {
    if (inputs % dtype_info(type).block_elems != 0) continue;
    constexpr int64_t kRows = 7;
    const std::vector<float> x = random_floats(kRows * (2 * inputs + 3), 20, 3);
    const std::vector<float> weight = random_floats(inputs, 21);
    const RowSource source = {.op = std::get<2>(GetParam()),
                              .x = x.data(),
                              .stride = 2 * inputs + 3,
                              .weight = weight.data(),
                              .eps = 1e-5F};
    const TestMatrix matrix(table, identity_blocks(type, inputs), type, inputs, inputs);
    const std::vector<float> out = multiply(table, matrix, source, kRows);
    const std::vector<float> values = apply(source, kRows, inputs);
    const bool quantizes = table.activation_format(type) == ActivationFormat::kQ8;
    const bool rounds = table.activation_format(type) == ActivationFormat::kBF16;
    for (size_t i = 0; i < out.size(); ++i) {
      float step = 0;
      for (size_t j = i / 32 * 32; quantizes && j < i / 32 * 32 + 32; ++j)
        step = std::max(step, std::fabs(values[j]) / 127);
      ASSERT_NEAR(out[i], values[i],
                  0.5001 * step + (rounds ? 0.00391 : 2e-6) * std::fabs(values[i]))
          << inputs << " inputs, value " << i;
    }
  }
}

std::vector<std::string> table_names() {
  std::vector<std::string> names;
  for (const KernelTable* table : testing::tested_tables()) names.emplace_back(table->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, MatmulTest,
                         ::testing::Combine(::testing::ValuesIn(table_names()),
                                            ::testing::Range(0, kDTypeCount)),
                         [](const auto& info) {
                           const auto type = static_cast<DType>(std::get<1>(info.param));
                           return std::get<0>(info.param) + "_" +
                                  std::string(dtype_info(type).name);
                         });

std::string row_source_test_name(const ::testing::TestParamInfo<RowSourceTest::ParamType>& info) {
  constexpr const char* kOps[] = {"Plain", "RmsNorm", "SwiGlu"};
  const auto& [table, type, op] = info.param;
  return table + "_" + std::string(dtype_info(type).name) + "_" + kOps[static_cast<size_t>(op)];
}

INSTANTIATE_TEST_SUITE_P(
    All, RowSourceTest,
    ::testing::Combine(::testing::ValuesIn(table_names()),
                       ::testing::Values(DType::kF32, DType::kBF16, DType::kQ8_0),
                       ::testing::Values(RowSource::Op::kPlain, RowSource::Op::kRmsNorm,
                                         RowSource::Op::kSwiGlu)),
    row_source_test_name);

}  // namespace
}  // namespace weft
