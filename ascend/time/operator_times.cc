#include "time/operator_times.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention.h"
#include "kernels/barrier.h"
#include "kernels/embedding.h"
#include "kernels/matmul.h"
#include "kernels/matmul_int8.h"
#include "kernels/norm.h"
#include "kernels/rotary_store.h"
#include "kernels/sample.h"
#include "kernels/swiglu.h"

namespace weft::timing {
namespace {

using weft_ascend::Team;

// What one program does around its operator. GetSystemCycle marks when the team has met, when this
// program has done its part and when all have.
class Timed {
 public:
  explicit Timed(GM_ADDR flags) { barrier_.Init(pipe_, flags, team_, 0); }
  AscendC::TPipe& pipe() { return pipe_; }
  Team team() const { return team_; }

  template <class Operator>
  void Run(const Operator& run) {
    barrier_.Arrive();
    barrier_.Leave();
    AscendC::GetSystemCycle();
    run();
    AscendC::GetSystemCycle();
    barrier_.Arrive();
    barrier_.Leave();
    AscendC::GetSystemCycle();
  }

 private:
  AscendC::TPipe pipe_;
  weft_ascend::TeamBarrier barrier_;
  const Team team_ = weft_ascend::WholeLaunch();
};

template <class Arguments>
struct Call {
  GM_ADDR flags;
  Arguments arguments;
};

void RunEmbed(Call<weft_ascend::EmbedArgs> call) {
  Timed timed(call.flags);
  timed.Run([&] { weft_ascend::Embed(timed.pipe(), timed.team(), call.arguments); });
}
void RunNorm(Call<weft_ascend::AddNormArgs> call) {
  Timed timed(call.flags);
  timed.Run([&] { weft_ascend::AddNorm(timed.pipe(), timed.team(), call.arguments); });
}
// The first weights are there, as they are in a layer.
template <class Out>
void RunMatmul(Call<weft_ascend::MatmulArgs> call) {
  Timed timed(call.flags);
  weft_ascend::WeightsAhead ahead;
  weft_ascend::PrefetchWeights(timed.pipe(), timed.team(), call.arguments, ahead);
  timed.Run([&] { weft_ascend::Matmul<Out>(timed.pipe(), timed.team(), call.arguments, &ahead); });
}
template <class Out>
void RunMatmulInt8(Call<weft_ascend::MatmulArgs> call) {
  Timed timed(call.flags);
  timed.Run([&] { weft_ascend::MatmulInt8<Out>(timed.pipe(), timed.team(), call.arguments); });
}
void RunStore(Call<weft_ascend::RotaryStoreArgs> call) {
  Timed timed(call.flags);
  timed.Run([&] { weft_ascend::RotaryStore(timed.pipe(), timed.team(), call.arguments); });
}
void RunCopyRows(Call<weft_ascend::CopyRowsArgs> call) {
  Timed timed(call.flags);
  timed.Run([&] { weft_ascend::CopyRows(timed.pipe(), timed.team(), call.arguments); });
}
void RunPrefill(Call<weft_ascend::AttentionArgs> call) {
  Timed timed(call.flags);
  timed.Run([&] { weft_ascend::PrefillAttention(timed.pipe(), timed.team(), call.arguments); });
}
// As in a layer that is not the first: the same was done with the keys of the layer before. A
// launch that begins with it is slower by a third.
struct DecodeLayers {
  weft_ascend::AttentionArgs layer;
  GM_ADDR keys_before;
};
constexpr int kDecodeLayers = 2;
void RunDecode(Call<DecodeLayers> call) {
  Timed timed(call.flags);
  weft_ascend::AttentionArgs before = call.arguments.layer;
  before.kv = call.arguments.keys_before;
  weft_ascend::DecodeAttention(timed.pipe(), timed.team(), before);
  timed.Run(
      [&] { weft_ascend::DecodeAttention(timed.pipe(), timed.team(), call.arguments.layer); });
}
void RunMerge(Call<weft_ascend::AttentionArgs> call) {
  Timed timed(call.flags);
  timed.Run([&] { weft_ascend::DecodeAttentionMerge(timed.pipe(), timed.team(), call.arguments); });
}
void RunSwiGlu(Call<weft_ascend::SwiGluArgs> call) {
  Timed timed(call.flags);
  timed.Run([&] { weft_ascend::SwiGlu<half>(timed.pipe(), timed.team(), call.arguments); });
}
void RunSample(Call<weft_ascend::SampleArgs> call) {
  Timed timed(call.flags);
  timed.Run([&] { weft_ascend::Sample(timed.pipe(), timed.team(), call.arguments); });
}
struct Nothing {};
void RunBarrier(Call<Nothing> call) {
  Timed timed(call.flags);
  timed.Run([] {});
}

// Rows are simulated in steps that grow with their number. Up to kTileSteps, in whole steps, since
// that many more rows fill tiles that are there anyway.
int row_step(int rows) { return rows <= 256 ? 16 : rows <= 1024 ? 64 : 256; }
constexpr int kTileSteps = 1024;
constexpr int kContextStep = weft_ascend::kSegmentKeys;
// Of the barrier that ends it, the least that attention of a prompt takes: it and half another, by
// which programs begin apart. It does not shrink with the rows.
constexpr double kLeastBarriers = 1.5;

// Points of a grid around a value, and how far from the lower to the upper it lies.
struct Around {
  int low = 0;
  int high = 0;
  double share = 0;
};
// 0, 128, 256, 512, 1024 ...
Around firsts_around(int value) {
  constexpr int kFirst = 128;
  if (value <= kFirst) return {0, kFirst, static_cast<double>(value) / kFirst};
  int low = kFirst;
  while (2 * low < value) low *= 2;
  return {low, 2 * low, static_cast<double>(value - low) / low};
}

// 16, 24, 32, 48, 64, 96 ...
Around rows_around(int value) {
  constexpr int kFirst = 16;
  if (value <= kFirst) return {kFirst, kFirst, 0};
  int low = kFirst;
  while (2 * low < value) low *= 2;
  const int middle = low + low / 2;
  const int high = value <= middle ? middle : 2 * low;
  if (value > middle) low = middle;
  return {low, high, static_cast<double>(value - low) / (high - low)};
}

// To what the time of attention is nearly proportional.
double attention_size(int first, int rows) {
  return rows * (first + rows / 2.0 + weft_ascend::kBlockPositions);
}

OperatorTime between(const OperatorTime& low, const OperatorTime& high, double share) {
  return low * (1 - share) + high * share;
}

}  // namespace

OperatorTime& OperatorTime::operator+=(const OperatorTime& other) {
  seconds += other.seconds;
  work += other.work;
  hbm_bytes += other.hbm_bytes;
  multiply_adds += other.multiply_adds;
  for (size_t i = 0; i < pipes.size(); ++i) pipes[i] += other.pipes[i];
  return *this;
}

OperatorTime OperatorTime::operator*(double factor) const {
  OperatorTime scaled = *this;
  scaled.seconds *= factor;
  scaled.work *= factor;
  scaled.hbm_bytes *= factor;
  scaled.multiply_adds *= factor;
  for (double& pipe : scaled.pipes) pipe *= factor;
  return scaled;
}

OperatorTimes::OperatorTimes(const ChipModel& model, const ModelShape& shape, int cores)
    : shape_(shape), cores_(cores), bench_(model) {}

const OperatorTime& OperatorTimes::Find(const Key& key,
                                        const std::function<OperatorTime()>& simulate) {
  const auto found = times_.find(key);
  if (found != times_.end()) return found->second;
  OperatorTime time = simulate();
  bench_.Clear();
  return times_[key] = time;
}

template <auto kFunction, class Arguments>
OperatorTime OperatorTimes::Time(const Arguments& arguments, int layers) {
  Call<Arguments> call{bench_.Memory(static_cast<uint64_t>(weft_ascend::BarrierBytes(cores_))),
                       arguments};
  const Timing timing = bench_.Time<kFunction>(cores_, call);
  double met = 0;
  double ended = 0;
  for (const ProgramTimes& program : timing.programs) {
    if (program.clocks.empty()) continue;
    met = std::max(met, program.clocks[0]);
    ended = std::max(ended, program.clocks[2]);
  }
  OperatorTime time;
  time.seconds = ended - met;
  for (size_t block = 0; block < static_cast<size_t>(cores_); ++block) {
    double done = 0;
    for (size_t i = 0; i < kProgramsOfCore; ++i)
      done = std::max(done, timing.programs[block * kProgramsOfCore + i].clocks[1] - met);
    time.work += done / cores_;
  }
  time.hbm_bytes = timing.hbm_bytes / layers;
  time.multiply_adds = timing.multiply_adds / layers;
  for (int i = 0; i < twin::kPipes; ++i)
    time.pipes[i] = timing.busy(static_cast<pipe_t>(i)) / layers;
  return time;
}

// ---- Rows.

OperatorTime OperatorTimes::ByRows(Kind kind, int what, int rows,
                                   const std::function<OperatorTime(int)>& simulate) {
  if (rows <= 0) return {};
  const auto at = [&](int count) {
    return Find({kind, what, count}, [&] { return simulate(count); });
  };
  if (rows == 1) return at(1);
  const int step = row_step(rows);
  if (rows <= kTileSteps) return at((rows + step - 1) / step * step);
  const int low = rows / step * step;
  if (low == rows) return at(rows);
  return between(at(low), at(low + step), static_cast<double>(rows - low) / step);
}

OperatorTime OperatorTimes::Embed(int rows) {
  return ByRows(Kind::kEmbed, 0, rows, [&](int count) {
    weft_ascend::EmbedArgs args{};
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = i * 7919 % shape_.vocab;
    args.tokens = bench_.Table(tokens);
    args.table = bench_.Tensor(uint64_t{2} * shape_.vocab * shape_.hidden);
    args.out = bench_.Tensor(uint64_t{4} * count * shape_.hidden);
    args.rows = count;
    args.width = shape_.hidden;
    return Time<&RunEmbed>(args);
  });
}

OperatorTime OperatorTimes::Norm(int rows, bool adds) {
  return ByRows(adds ? Kind::kAddNorm : Kind::kNorm, 0, rows, [&](int count) {
    const uint64_t floats = uint64_t{4} * count * shape_.hidden;
    weft_ascend::AddNormArgs args{};
    args.hidden = bench_.Tensor(floats, true);
    if (adds) args.update = bench_.Tensor(floats, true);
    args.weights = bench_.Tensor(uint64_t{4} * shape_.hidden);
    args.normed = bench_.Tensor(floats / 2);
    args.rows = count;
    args.width = args.update_stride = args.normed_stride = shape_.hidden;
    args.eps = 1e-6F;
    return Time<&RunNorm>(args);
  });
}

OperatorTime OperatorTimes::SimulateMultiply(Matrix matrix, int rows) {
  weft_ascend::MatmulArgs args{};
  args.rows = rows;
  args.inputs = shape_.hidden;
  switch (matrix) {
    case Matrix::kQkv:
      args.outputs = shape_.qkv();
      break;
    case Matrix::kQueries:
      args.outputs = shape_.queries();
      break;
    case Matrix::kKeys:
      args.outputs = shape_.keys();
      break;
    case Matrix::kOut:
      args.inputs = shape_.queries();
      args.outputs = shape_.hidden;
      break;
    case Matrix::kGateUp:
      args.outputs = 2 * shape_.ffn;
      break;
    case Matrix::kDown:
      args.inputs = shape_.ffn;
      args.outputs = shape_.hidden;
      break;
    case Matrix::kHead:
      args.outputs = shape_.vocab / 16 * 16;
      break;
  }
  args.in_stride = args.inputs;
  args.out_stride = args.outputs;
  const bool halves = matrix == Matrix::kGateUp;
  args.in = bench_.Tensor(uint64_t{2} * rows * args.inputs, true);
  args.weights = bench_.Tensor(uint64_t{shape_.int8 ? 1U : 2U} * args.inputs * args.outputs);
  args.out = bench_.Tensor(uint64_t{halves ? 2U : 4U} * rows * args.outputs);
  if (shape_.int8) {
    const int groups = (args.inputs + weft_ascend::kGroupInputs - 1) / weft_ascend::kGroupInputs;
    args.scales = bench_.Tensor(uint64_t{2} * groups * args.outputs);
    args.workspace =
        bench_.Tensor(static_cast<uint64_t>(weft_ascend::MatmulInt8WorkspaceBytes(cores_)), true);
    return halves ? Time<&RunMatmulInt8<half>>(args) : Time<&RunMatmulInt8<float>>(args);
  }
  return halves ? Time<&RunMatmul<half>>(args) : Time<&RunMatmul<float>>(args);
}

OperatorTime OperatorTimes::Multiply(Matrix matrix, int rows) {
  return ByRows(Kind::kMultiply, static_cast<int>(matrix), rows,
                [&](int count) { return SimulateMultiply(matrix, count); });
}

OperatorTime OperatorTimes::Store(int rows, bool queries, bool keys) {
  const int what = (queries ? 1 : 0) + (keys ? 2 : 0);
  return ByRows(Kind::kStore, what, rows, [&](int count) {
    weft_ascend::RotaryStoreArgs args{};
    std::vector<int32_t> places(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) places[static_cast<size_t>(i)] = i;
    const auto blocks = static_cast<uint64_t>(count) / weft_ascend::kBlockPositions + 1;
    args.qkv = bench_.Tensor(uint64_t{4} * count * shape_.qkv(), true);
    if (shape_.qkv_bias) args.bias = bench_.Tensor(uint64_t{4} * shape_.qkv());
    if (shape_.qk_norm) {
      args.q_norm = bench_.Tensor(uint64_t{4} * shape_.head_dim);
      args.k_norm = bench_.Tensor(uint64_t{4} * shape_.head_dim);
    }
    args.cos = bench_.Tensor(uint64_t{2} * count * shape_.head_dim);
    args.sin = bench_.Tensor(uint64_t{2} * count * shape_.head_dim);
    args.positions = bench_.Table(places);
    args.places = bench_.Table(places);
    args.queries = bench_.Tensor(uint64_t{2} * count * shape_.queries());
    args.kv = bench_.Tensor(blocks * weft_ascend::kBlockPositions *
                            static_cast<uint64_t>(shape_.key_bytes()));
    args.rows = count;
    args.heads = queries ? shape_.heads : 0;
    args.kv_heads = keys ? shape_.kv_heads : 0;
    args.head_dim = args.rope_dims = shape_.head_dim;
    args.stride = shape_.qkv();
    args.q_stride = shape_.queries();
    args.eps = 1e-6F;
    return Time<&RunStore>(args);
  });
}

OperatorTime OperatorTimes::CopyRows(int rows) {
  return ByRows(Kind::kCopyRows, 0, rows, [&](int count) {
    weft_ascend::CopyRowsArgs args{};
    args.in = bench_.Tensor(uint64_t{4} * count * shape_.hidden, true);
    args.out = bench_.Tensor(uint64_t{4} * count * shape_.hidden);
    args.rows = count;
    args.width = shape_.hidden;
    return Time<&RunCopyRows>(args);
  });
}

OperatorTime OperatorTimes::SwiGlu(int rows) {
  return ByRows(Kind::kSwiGlu, 0, rows, [&](int count) {
    weft_ascend::SwiGluArgs args{};
    args.gate_up = bench_.Tensor(uint64_t{4} * count * shape_.ffn, true);
    args.out = bench_.Tensor(uint64_t{2} * count * shape_.ffn);
    args.rows = count;
    args.width = args.out_stride = shape_.ffn;
    args.in_stride = 2 * shape_.ffn;
    return Time<&RunSwiGlu>(args);
  });
}

OperatorTime OperatorTimes::Sample(int rows) {
  return ByRows(Kind::kSample, 0, rows, [&](int count) {
    weft_ascend::SampleArgs args{};
    weft_ascend::SampleRow row{};
    row.top_p = 1;
    std::vector<weft_ascend::SampleRow> params(static_cast<size_t>(count), row);
    for (int i = 0; i < count; ++i) params[static_cast<size_t>(i)].slot = i;
    args.logits = bench_.Tensor(uint64_t{4} * count * shape_.vocab, true);
    args.params = bench_.Table(params);
    args.results = bench_.Tensor(static_cast<uint64_t>(count) * sizeof(weft_ascend::SampleResult));
    args.slot_tokens =
        bench_.Tensor(uint64_t{4} * weft_ascend::kSlotStride * static_cast<uint64_t>(count));
    args.rows = count;
    args.vocab = args.stride = shape_.vocab / 16 * 16;
    return Time<&RunSample>(args);
  });
}

OperatorTime OperatorTimes::Barrier() {
  return Find({Kind::kBarrier, 0, 0}, [&] { return Time<&RunBarrier>(Nothing{}); });
}

// ---- Attention.

namespace {

// Segments over one pool of blocks, each sequence in blocks of its own.
weft_ascend::AttentionArgs attention_args(OperatorBench& bench, const ModelShape& shape, int cores,
                                          std::vector<weft_ascend::AttentionSegment> segments,
                                          int blocks_each) {
  weft_ascend::AttentionArgs args{};
  int rows = 0;
  std::vector<int32_t> table;
  for (weft_ascend::AttentionSegment& segment : segments) {
    segment.block_table_offset = static_cast<int32_t>(table.size());
    for (int i = 0; i < blocks_each; ++i) table.push_back(static_cast<int32_t>(table.size()));
    rows += segment.rows;
  }
  const auto pool =
      static_cast<uint64_t>(shape.key_bytes()) * weft_ascend::kBlockPositions * table.size();
  const auto partials = static_cast<uint64_t>(weft_ascend::AttentionPartialBytes(
      segments.data(), static_cast<int32_t>(segments.size()), shape.heads, shape.head_dim));
  args.queries = bench.Tensor(uint64_t{2} * rows * shape.queries(), true);
  args.kv = bench.Tensor(pool);
  args.out = bench.Tensor(uint64_t{2} * rows * shape.queries());
  args.segments = bench.Table(segments);
  args.block_tables = bench.Table(table);
  args.partials = bench.Tensor(partials, true);
  args.workspace = bench.Tensor(
      static_cast<uint64_t>(cores * weft_ascend::AttentionWorkspaceBytes(shape.head_dim)), true);
  args.segment_count = static_cast<int32_t>(segments.size());
  args.heads = shape.heads;
  args.kv_heads = shape.kv_heads;
  args.head_dim = shape.head_dim;
  args.q_stride = args.out_stride = shape.queries();
  args.scale = 0.1F;
  return args;
}

int blocks_of(int positions) {
  return (positions + weft_ascend::kBlockPositions - 1) / weft_ascend::kBlockPositions;
}

}  // namespace

OperatorTime OperatorTimes::SimulatePrefill(int first, int rows) {
  return Time<&RunPrefill>(
      attention_args(bench_, shape_, cores_, {{0, rows, first, 0}}, blocks_of(first + rows)));
}

OperatorTime OperatorTimes::SimulateDecode(int rows, int context) {
  std::vector<weft_ascend::AttentionSegment> segments(static_cast<size_t>(rows));
  for (int i = 0; i < rows; ++i) segments[static_cast<size_t>(i)] = {i, 1, context - 1, 0};
  const auto args = attention_args(bench_, shape_, cores_, segments, blocks_of(context));
  const auto pool = static_cast<uint64_t>(shape_.key_bytes()) * weft_ascend::kBlockPositions *
                    static_cast<uint64_t>(blocks_of(context)) * segments.size();
  OperatorTime time = Time<&RunDecode>(DecodeLayers{args, bench_.Tensor(pool)}, kDecodeLayers);
  return time += Time<&RunMerge>(args);
}

// Between simulated shapes, by what a row's look at a key takes in them.
OperatorTime OperatorTimes::Prefill(int first, int rows) {
  const Around firsts = firsts_around(first);
  const Around counts = rows_around(rows);
  const double size = attention_size(first, rows);
  const double least = kLeastBarriers * Barrier().seconds;  // however little there is to do
  const auto at = [&](int position, int count) {
    OperatorTime time =
        Find({Kind::kPrefill, position, count}, [&] { return SimulatePrefill(position, count); });
    const double factor = size / attention_size(position, count);
    const double seconds = std::max(0.0, time.seconds - least) * factor + least;
    time = time * factor;
    time.work = std::max(0.0, time.work + seconds - time.seconds);
    time.seconds = seconds;
    return time;
  };
  const auto at_first = [&](int position) {
    if (counts.share == 0) return at(position, counts.low);
    if (counts.share == 1) return at(position, counts.high);
    return between(at(position, counts.low), at(position, counts.high), counts.share);
  };
  if (firsts.share == 0) return at_first(firsts.low);
  if (firsts.share == 1) return at_first(firsts.high);
  return between(at_first(firsts.low), at_first(firsts.high), firsts.share);
}

OperatorTime OperatorTimes::Decode(int rows, double context) {
  if (rows <= 0) return {};
  const auto at = [&](int positions) {
    return Find({Kind::kDecode, rows, positions},
                [&] { return SimulateDecode(rows, std::max(1, positions)); });
  };
  const int low = static_cast<int>(context / kContextStep) * kContextStep;
  return between(at(low), at(low + kContextStep), (context - low) / kContextStep);
}

}  // namespace weft::timing
