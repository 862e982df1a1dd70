#include "time/kernel_bars.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "time/operator_bench.h"

namespace weft::timing {
namespace {

void RunMatmul(weft_ascend::MatmulArgs args) {
  AscendC::TPipe pipe;
  weft_ascend::Matmul<half>(pipe, weft_ascend::WholeLaunch(), args);
}
void RunAttention(weft_ascend::AttentionArgs args) {
  AscendC::TPipe pipe;
  weft_ascend::PrefillAttention(pipe, weft_ascend::WholeLaunch(), args);
}

}  // namespace

KernelBar time_matmul(const ChipModel& model, int rows, int inputs, int outputs) {
  OperatorBench bench(model);
  const auto n = static_cast<uint64_t>(outputs);
  const auto k = static_cast<uint64_t>(inputs);
  const auto m = static_cast<uint64_t>(rows);
  weft_ascend::MatmulArgs args{};
  args.in = bench.Tensor(2 * m * k);
  args.weights = bench.Tensor(2 * n * k);
  args.out = bench.Tensor(2 * m * n);
  args.rows = rows;
  args.inputs = args.in_stride = inputs;
  args.outputs = args.out_stride = outputs;
  const double flops = 2.0 * rows * inputs * outputs;
  const double bytes = 2.0 * static_cast<double>(m * k + n * k + m * n);
  KernelBar bar;
  bar.name = fmt::format("matmul {} x {} x {}", rows, inputs, outputs);
  bar.seconds = bench.Time<&RunMatmul>(static_cast<int>(model.cores), args).seconds;
  bar.bound = std::max(flops / model.peak_flops(), bytes / model.hbm_bandwidth);
  return bar;
}

KernelBar time_attention(const ChipModel& model, int rows) {
  constexpr int kHead = 128;
  constexpr int kTile = weft_ascend::kAttentionRows;
  OperatorBench bench(model);
  const auto cores = static_cast<int>(model.cores);
  const auto bytes = static_cast<uint64_t>(rows) * kHead * 2;
  // The kernel is causal: each tile of rows stands behind all other keys.
  std::vector<weft_ascend::AttentionSegment> segments;
  for (int row = 0; row < rows; row += kTile)
    segments.push_back({row, std::min(kTile, rows - row), rows - kTile, 0});
  std::vector<int32_t> table;
  for (int i = 0; i <= rows / weft_ascend::kBlockPositions; ++i) table.push_back(i);
  weft_ascend::AttentionArgs args{};
  args.queries = bench.Tensor(bytes);
  args.kv = bench.Tensor(2 * bytes + 2 * uint64_t{kHead} * 2 * weft_ascend::kBlockPositions);
  args.out = bench.Tensor(bytes);
  args.segments = bench.Table(segments);
  args.block_tables = bench.Table(table);
  args.workspace = bench.Tensor(
      static_cast<uint64_t>(cores * weft_ascend::AttentionWorkspaceBytes(kHead)), true);
  args.segment_count = static_cast<int32_t>(segments.size());
  args.heads = args.kv_heads = 1;
  args.head_dim = args.q_stride = args.out_stride = kHead;
  args.scale = 0.1F;
  KernelBar bar;
  bar.name = fmt::format("attention, one head of 128, {} keys", rows);
  bar.seconds = bench.Time<&RunAttention>(cores, args).seconds;
  const double flops = 4.0 * rows * rows * kHead;
  bar.bound =
      std::max(flops / model.peak_flops(), 4 * static_cast<double>(bytes) / model.hbm_bandwidth);
  return bar;
}

std::vector<KernelBar> kernel_bars(const ChipModel& model) {
  std::vector<KernelBar> bars;
  for (const int n : {4096, 8192}) bars.push_back(time_matmul(model, n, n, n));
  bars.push_back(time_matmul(model, 1024, 4096, 22016));
  bars.push_back(time_matmul(model, 16, 4096, 22016));
  constexpr std::pair<int, double> kReported[] = {
      {4096, 88.9e-6}, {8192, 293e-6}, {32768, 3263e-6}};
  for (const auto& [rows, reported] : kReported) {
    bars.push_back(time_attention(model, rows));
    if (model.name == "910b2") bars.back().reported = reported;
  }
  return bars;
}

}  // namespace weft::timing
