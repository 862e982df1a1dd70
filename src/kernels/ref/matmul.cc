// The scalar matrix multiplication: weights stay as in the file, activations are floats, sums are
// exact to a double.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/kernel_table.h"
#include "kernels/ref/dequantize.h"

namespace weft::ref {
namespace {

constexpr int kPanelOutputs = 32;

int64_t packed_bytes(DType type, int64_t outputs, int64_t inputs) {
  return outputs * row_bytes(type, inputs);
}

void pack(DType type, const std::byte* rows, int64_t outputs, int64_t inputs, int64_t panel_begin,
          int64_t panel_end, std::byte* packed) {
  const int64_t bytes = row_bytes(type, inputs);
  const int64_t begin = panel_begin * kPanelOutputs;
  const int64_t end = std::min(panel_end * kPanelOutputs, outputs);
  std::memcpy(packed + begin * bytes, rows + begin * bytes,
              static_cast<size_t>((end - begin) * bytes));
}

void unpack_row(const PackedMatrix& matrix, int64_t row, float* out) {
  const int64_t bytes = row_bytes(matrix.type, matrix.inputs);
  dequantize(matrix.type, matrix.data + row * bytes, matrix.inputs, out);
}

ActivationFormat activation_format(DType /*type*/) { return ActivationFormat::kF32; }

int64_t activation_bytes(ActivationFormat format, int64_t rows, int64_t inputs) {
  WEFT_CHECK(format == ActivationFormat::kF32);
  return rows * inputs * static_cast<int64_t>(sizeof(float));
}

int64_t activation_pieces(ActivationFormat /*format*/, int64_t rows) { return rows; }

void rms_norm(const float* x, const float* weight, float eps, int64_t n, float* out) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += static_cast<double>(x[i]) * x[i];
  const auto scale = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(n) + eps));
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void swiglu(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i];
}

void pack_activations(ActivationFormat format, const RowSource& source, int64_t /*rows*/,
                      int64_t inputs, int64_t piece_begin, int64_t piece_end, std::byte* packed) {
  WEFT_CHECK(format == ActivationFormat::kF32);
  for (int64_t r = piece_begin; r < piece_end; ++r) {
    const float* x = source.row(r);
    float* out = reinterpret_cast<float*>(packed) + r * inputs;
    switch (source.op) {
      case RowSource::Op::kPlain:
        std::memcpy(out, x, static_cast<size_t>(inputs) * sizeof(float));
        break;
      case RowSource::Op::kRmsNorm:
        rms_norm(x, source.weight, source.eps, inputs, out);
        break;
      case RowSource::Op::kSwiGlu:
        swiglu(x, x + inputs, inputs, out);
        break;
    }
  }
}

void matmul(const PackedMatrix& matrix, const std::byte* activations, int64_t rows,
            int64_t panel_begin, int64_t panel_end, const MatmulOutput& out) {
  const int64_t end = std::min(panel_end * kPanelOutputs, matrix.outputs);
  std::vector<float> weights(static_cast<size_t>(matrix.inputs));
  for (int64_t o = panel_begin * kPanelOutputs; o < end; ++o) {
    unpack_row(matrix, o, weights.data());
    for (int64_t r = 0; r < rows; ++r) {
      const float* x = reinterpret_cast<const float*>(activations) + r * matrix.inputs;
      double sum = 0;
      for (int64_t i = 0; i < matrix.inputs; ++i) {
        sum += static_cast<double>(weights[static_cast<size_t>(i)]) * x[i];
      }
      float* y = out.out + r * out.stride + o;
      auto result = static_cast<float>(sum);
      if (out.bias != nullptr) result += out.bias[o];
      *y = out.accumulate ? *y + result : result;
    }
  }
}

}  // namespace

void fill_matmul(KernelTable& table) {
  table.panel_outputs = kPanelOutputs;
  table.packed_bytes = packed_bytes;
  table.pack = pack;
  table.unpack_row = unpack_row;
  table.activation_format = activation_format;
  table.activation_bytes = activation_bytes;
  table.activation_pieces = activation_pieces;
  table.pack_activations = pack_activations;
  table.matmul = matmul;
}

}  // namespace weft::ref
