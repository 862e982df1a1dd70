#include "time/kernel_bars.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/matmul_int8.h"
#include "time/operator_bench.h"
#include "time/operator_times.h"

namespace weft::timing {
namespace {

void RunMatmul(weft_ascend::MatmulArgs args) {
  AscendC::TPipe pipe;
  weft_ascend::Matmul<half>(pipe, weft_ascend::WholeLaunch(), args);
}
void RunMatmulInt8(weft_ascend::MatmulArgs args) {
  AscendC::TPipe pipe;
  weft_ascend::MatmulInt8<half>(pipe, weft_ascend::WholeLaunch(), args);
}
void RunAttention(weft_ascend::AttentionArgs args) {
  AscendC::TPipe pipe;
  weft_ascend::PrefillAttention(pipe, weft_ascend::WholeLaunch(), args);
}

// "4,096"
std::string grouped(int number) {
  if (number < 1000) return std::to_string(number);
  return fmt::format("{},{:03}", grouped(number / 1000), number % 1000);
}

void set_times(KernelBar& bar, const Timing& timing) {
  bar.seconds = timing.seconds;
  const auto cores = static_cast<double>(timing.programs.size()) / kProgramsOfCore;
  for (size_t i = 0; i < timing.programs.size(); ++i) {
    const auto& busy = timing.programs[i].busy;
    if (i % kProgramsOfCore > 0) {
      bar.vector += busy[PIPE_V] / (timing.seconds * 2 * cores);
      continue;
    }
    bar.cube += busy[PIPE_M] / (timing.seconds * cores);
    bar.mte1 += busy[PIPE_MTE1] / (timing.seconds * cores);
    bar.mte2 += busy[PIPE_MTE2] / (timing.seconds * cores);
    bar.fixpipe += busy[PIPE_FIX] / (timing.seconds * cores);
  }
}

}  // namespace

KernelBar time_matmul(const ChipModel& model, int rows, int inputs, int outputs, bool int8) {
  OperatorBench bench(model);
  const auto n = static_cast<uint64_t>(outputs);
  const auto k = static_cast<uint64_t>(inputs);
  const auto m = static_cast<uint64_t>(rows);
  weft_ascend::MatmulArgs args{};
  args.in = bench.Tensor(2 * m * k);
  args.weights = bench.Tensor((int8 ? 1 : 2) * n * k);
  args.out = bench.Tensor(2 * m * n);
  args.rows = rows;
  args.inputs = args.in_stride = inputs;
  args.outputs = args.out_stride = outputs;
  const double flops = 2.0 * rows * inputs * outputs;
  double bytes = 2.0 * static_cast<double>(m * k + m * n) + static_cast<double>(n * k);
  const auto cores = static_cast<int>(model.cores);
  if (int8) {
    const uint64_t scales =
        2 * n * ((k + weft_ascend::kGroupInputs - 1) / weft_ascend::kGroupInputs);
    args.scales = bench.Tensor(scales);
    args.workspace =
        bench.Tensor(static_cast<uint64_t>(weft_ascend::MatmulInt8WorkspaceBytes(cores)), true);
    bytes += static_cast<double>(scales);
  } else {
    bytes += static_cast<double>(n * k);
  }
  KernelBar bar;
  bar.name = fmt::format("{} x {} x {}, {}", grouped(rows), grouped(inputs), grouped(outputs),
                         int8 ? "int8" : "half");
  set_times(bar,
            int8 ? bench.Time<&RunMatmulInt8>(cores, args) : bench.Time<&RunMatmul>(cores, args));
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
  bar.name = fmt::format("attention, one head of 128, {} keys", grouped(rows));
  set_times(bar, bench.Time<&RunAttention>(cores, args));
  const double flops = 4.0 * rows * rows * kHead;
  bar.bound =
      std::max(flops / model.peak_flops(), 4 * static_cast<double>(bytes) / model.hbm_bandwidth);
  return bar;
}

KernelBar time_stream_attention(const ChipModel& model, int keys) {
  constexpr int kHeads = 32;
  constexpr int kHead = 128;
  ModelShape shape;
  shape.heads = shape.kv_heads = kHeads;
  shape.head_dim = kHead;
  OperatorTimes times(model, shape, static_cast<int>(model.cores));
  KernelBar bar;
  bar.name = fmt::format("attention of a stream, 32 heads, {} keys", grouped(keys));
  bar.seconds = times.SimulateDecode(1, keys).seconds;
  bar.bound = std::max(4.0 * shape.queries() * keys / model.peak_flops(),
                       shape.key_bytes() * keys / model.hbm_bandwidth);
  return bar;
}

KernelBar time_barrier(const ChipModel& model) {
  OperatorTimes times(model, {}, static_cast<int>(model.cores));
  KernelBar bar;
  bar.name = fmt::format("barrier of {} cores", times.cores());
  bar.seconds = times.Barrier().seconds;
  return bar;
}

std::vector<KernelBar> kernel_bars(const ChipModel& model) {
  std::vector<KernelBar> bars;
  for (const int n : {4096, 8192}) bars.push_back(time_matmul(model, n, n, n));
  for (const int rows : {1024, 16, 1}) {
    for (const bool int8 : {false, true})
      bars.push_back(time_matmul(model, rows, 4096, 22016, int8));
  }
  constexpr std::pair<int, double> kReported[] = {
      {4096, 88.9e-6}, {8192, 293e-6}, {32768, 3263e-6}};
  for (const auto& [rows, reported] : kReported) {
    bars.push_back(time_attention(model, rows));
    if (model.name == "910b2") bars.back().reported = reported;
  }
  bars.push_back(time_stream_attention(model, 4096));
  bars.push_back(time_barrier(model));
  return bars;
}

}  // namespace weft::timing
