#include "time/full_run.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/prefill_kernel.h"

namespace weft::timing {
namespace {

using namespace weft_ascend;

void RunQuantum(GM_ADDR launch, GM_ADDR descriptor) {
  AscendC::TPipe pipe;
  Program program(pipe, launch);
  PrefillKernel kernel(pipe, program);
  kernel.Run(descriptor, kTeamAll);
}

// The groups' descriptors; `launch` says which blocks are whose.
void RunGroups(GM_ADDR launch, GM_ADDR prompts, GM_ADDR streams) {
  AscendC::TPipe pipe;
  Program program(pipe, launch);
  PrefillKernel kernel(pipe, program);
  if (program.ring() == 0) {
    kernel.Run(prompts, kTeamPrefill);
  } else {
    kernel.Run(streams, kTeamDecode);
  }
}

GmAddress address(GM_ADDR memory) { return reinterpret_cast<GmAddress>(memory); }

class Builder {
 public:
  Builder(OperatorBench& bench, const ModelShape& shape, int cores, const FullQuantum& quantum)
      : bench_(bench), shape_(shape), cores_(cores), quantum_(quantum) {}

  GM_ADDR Launched() {
    Launch launch = Begun(cores_);
    launch.blocks[0] = cores_;
    launch.workspaces = Put(Memory());
    launch.barriers[kTeamAll] = Barriers(cores_);
    return reinterpret_cast<GM_ADDR>(Put(launch));
  }

  // With a second group, whose memory `other` lays out.
  GM_ADDR Launched(Builder& other) {
    Launch launch = Begun(cores_ + other.cores_);
    launch.blocks[0] = cores_;
    launch.blocks[1] = other.cores_;
    launch.workspaces = Put(std::vector<Workspace>{Memory(), other.Memory()});
    launch.barriers[kTeamAll] = Barriers(cores_ + other.cores_);
    launch.barriers[kTeamPrefill] = Barriers(cores_);
    launch.barriers[kTeamDecode] = Barriers(other.cores_);
    return reinterpret_cast<GM_ADDR>(Put(launch));
  }

  GM_ADDR Described(TeamKind team = kTeamAll) {
    Descriptor d{};
    d.wanted = 1;
    d.team = team;
    d.layer_end = shape_.layers;
    d.passes = 1;
    d.all_output = quantum_.rows == 0 ? 1 : 0;
    d.head_rows = quantum_.streams;
    d.samples_here = quantum_.streams > 0 ? 1 : 0;
    d.rows = RowsOf(true);
    d.outputs = RowsOf(false);
    d.tokens = address(bench_.Table(std::vector<int32_t>(static_cast<size_t>(rows()), 1)));
    PassEntry pass{};
    pass.rows = rows();
    pass.sends = pass.follows = -1;
    d.pass_table = Put(pass);
    d.block_table = address(bench_.Table(blocks_));
    std::vector<int32_t> output_rows(static_cast<size_t>(quantum_.streams));
    std::iota(output_rows.begin(), output_rows.end(), quantum_.rows);
    d.output_rows = address(bench_.Table(output_rows));
    std::vector<SampleRow> samples(static_cast<size_t>(quantum_.streams));
    for (size_t i = 0; i < samples.size(); ++i) {
      samples[i].slot = static_cast<int32_t>(i);
      samples[i].top_p = 1;
    }
    d.samples = address(bench_.Table(samples));
    d.results =
        address(bench_.Tensor(static_cast<uint64_t>(quantum_.streams + 1) * sizeof(SampleResult)));
    return reinterpret_cast<GM_ADDR>(Put(d));
  }

 private:
  Launch Begun(int cores) {
    Launch launch{};
    launch.ring_entries = 1;
    launch.epoch_quanta = 1;
    launch.model = Put(Model());
    launch.decisions = address(bench_.Memory(kTeamKinds * kFlagBytes));
    launch.boards = address(bench_.Memory(kFlagBytes));
    launch.progress = address(bench_.Memory(kRings * sizeof(GroupProgress)));
    launch.reports =
        address(bench_.Memory(static_cast<uint64_t>(cores) * kPrograms * sizeof(ProgramReport)));
    return launch;
  }
  GmAddress Barriers(int cores) { return address(bench_.Memory(BarrierBytes(cores))); }

  int rows() const { return quantum_.rows + quantum_.streams; }
  template <class T>
  GmAddress Put(const T& value) {
    return address(bench_.Table(std::span<const T>(&value, 1)));
  }
  template <class T>
  GmAddress Put(const std::vector<T>& values) {
    return address(bench_.Table(values));
  }
  GmAddress Floats(int64_t count, bool warm = false) {
    return address(bench_.Tensor(static_cast<uint64_t>(count) * 4, warm));
  }
  GmAddress Halves(int64_t count, bool warm = false) {
    return address(bench_.Tensor(static_cast<uint64_t>(count) * 2, warm));
  }

  MatrixWeights Matrix(int inputs, int outputs, bool bias) {
    MatrixWeights matrix{};
    matrix.inputs = inputs;
    matrix.outputs = outputs;
    const int64_t weights = int64_t{inputs} * outputs;
    if (shape_.int8) {
      matrix.weights = address(bench_.Tensor(static_cast<uint64_t>(weights)));
      matrix.scales = Halves(int64_t{outputs} * CeilDiv(inputs, kGroupInputs));
    } else {
      matrix.weights = Halves(weights);
    }
    if (bias) matrix.bias = Floats(outputs);
    return matrix;
  }

  LayerWeights Layer() {
    LayerWeights layer{};
    layer.attention_norm = Floats(shape_.hidden);
    layer.ffn_norm = Floats(shape_.hidden);
    if (shape_.qk_norm) {
      layer.query_norm = Floats(shape_.head_dim);
      layer.key_norm = Floats(shape_.head_dim);
    }
    layer.qkv = Matrix(shape_.hidden, shape_.qkv(), shape_.qkv_bias);
    layer.queries = layer.qkv;
    layer.queries.outputs = shape_.queries();
    layer.keys = layer.qkv;
    const auto before = static_cast<GmAddress>(shape_.queries());
    layer.keys.weights += before * shape_.hidden * (shape_.int8 ? 1 : 2);
    if (shape_.int8) layer.keys.scales += before * CeilDiv(shape_.hidden, kGroupInputs) * 2;
    layer.keys.outputs = shape_.keys();
    layer.out = Matrix(shape_.queries(), shape_.hidden, false);
    layer.gate_up = Matrix(shape_.hidden, 2 * shape_.ffn, false);
    layer.down = Matrix(shape_.ffn, shape_.hidden, false);
    return layer;
  }

  DeviceModel Model() {
    DeviceModel model{};
    model.layers = shape_.layers;
    model.hidden = shape_.hidden;
    model.heads = shape_.heads;
    model.kv_heads = shape_.kv_heads;
    model.head_dim = shape_.head_dim;
    model.ffn = shape_.ffn;
    model.vocab = shape_.vocab / kFractal * kFractal;
    model.rope_dims = shape_.head_dim;
    model.context = longest();
    model.rms_eps = 1e-6F;
    model.attention_scale = 0.1F;
    const int64_t blocks = sequences() * blocks_each();
    model.kv_layer_bytes = static_cast<int64_t>(shape_.key_bytes()) * kBlockPositions * blocks;
    model.pass_rows = rows();
    model.embedding = Halves(int64_t{shape_.vocab} * shape_.hidden);
    model.final_norm = Floats(shape_.hidden);
    model.head = Matrix(shape_.hidden, model.vocab, false);
    std::vector<LayerWeights> layers(static_cast<size_t>(shape_.layers));
    for (LayerWeights& layer : layers) layer = Layer();
    model.layer_weights = Put(layers);
    model.rope_cos = Floats(int64_t{longest()} * shape_.head_dim / 2);
    model.rope_sin = Floats(int64_t{longest()} * shape_.head_dim / 2);
    model.kv_pool = Halves(model.kv_layer_bytes / 2 * shape_.layers);
    model.slot_tokens = address(
        bench_.Tensor(uint64_t{4} * kSlotStride * static_cast<uint64_t>(quantum_.streams + 1)));
    model.passes = Floats(int64_t{rows()} * shape_.hidden);
    return model;
  }

  Workspace Memory() {
    const int64_t n = rows();
    Workspace to{};
    to.hidden = Floats(n * shape_.hidden);
    to.output_hidden = Floats(n * shape_.hidden);
    to.update = Floats(n * shape_.hidden);
    to.normed = Halves(n * shape_.hidden);
    to.output_normed = Halves(n * shape_.hidden);
    to.qkv = Floats(n * shape_.qkv());
    to.queries = Halves(n * shape_.queries());
    to.attention = Halves(n * shape_.queries());
    to.gate_up = Halves(n * 2 * shape_.ffn);
    to.ffn = Halves(n * shape_.ffn);
    to.logits = Floats(static_cast<int64_t>(quantum_.streams + 1) * shape_.vocab);
    to.partials = Floats(static_cast<int64_t>(quantum_.streams + 1) * KeySegments(longest()) *
                         AttentionPartialFloats(shape_.heads, shape_.head_dim));
    if (shape_.int8)
      to.matmul = address(bench_.Tensor(static_cast<uint64_t>(cores_) * kInt8BlockBytes, true));
    to.scratch = address(bench_.Tensor(
        static_cast<uint64_t>(cores_ * AttentionWorkspaceBytes(shape_.head_dim)), true));
    return to;
  }

  int longest() const { return std::max(quantum_.first + quantum_.rows, quantum_.context); }
  int sequences() const { return (quantum_.rows > 0 ? 1 : 0) + quantum_.streams; }
  int blocks_each() const { return CeilDiv(longest(), kBlockPositions); }

  // All rows, or those that reach the head.
  RowTables RowsOf(bool all) {
    std::vector<int32_t> positions, places;
    std::vector<AttentionSegment> segments;
    const auto add = [&](int first, int count) {
      const auto table = static_cast<int32_t>(blocks_.size());
      segments.push_back({static_cast<int32_t>(positions.size()), count, first, table});
      for (int i = 0; i < blocks_each(); ++i) blocks_.push_back(table + i);
      for (int i = first; i < first + count; ++i) {
        positions.push_back(i);
        places.push_back((table + i / kBlockPositions) * kBlockPositions + i % kBlockPositions);
      }
    };
    blocks_.clear();
    if (quantum_.rows > 0) {
      add(quantum_.first, quantum_.rows);
      if (!all) segments.clear(), positions.clear(), places.clear();
    }
    RowTables rows{};
    rows.prefill_segments = all && quantum_.rows > 0 ? 1 : 0;
    for (int i = 0; i < quantum_.streams; ++i) add(quantum_.context - 1, 1);
    rows.decode_segments = quantum_.streams;
    rows.rows = static_cast<int32_t>(positions.size());
    rows.positions = Put(positions);
    rows.kv_rows = Put(places);
    rows.segments = Put(segments);
    return rows;
  }

  OperatorBench& bench_;
  const ModelShape& shape_;
  const int cores_;
  const FullQuantum& quantum_;
  std::vector<int32_t> blocks_;
};

double sum_of(const std::vector<Step>& steps) {
  double sum = 0;
  for (const Step& step : steps) sum += step.time.seconds;
  return sum;
}

}  // namespace

Recording record_quantum(OperatorBench& bench, const ModelShape& shape, int cores,
                         const FullQuantum& quantum) {
  Builder builder(bench, shape, cores, quantum);
  GM_ADDR descriptor = builder.Described();
  return bench.Record<&RunQuantum>(cores, builder.Launched(), descriptor);
}

Recording record_groups(OperatorBench& bench, const ModelShape& shape,
                        const std::array<int, 2>& cores, const std::array<FullQuantum, 2>& quanta) {
  Builder prompts(bench, shape, cores[0], quanta[0]);
  Builder streams(bench, shape, cores[1], quanta[1]);
  GM_ADDR first = prompts.Described(kTeamPrefill);
  GM_ADDR second = streams.Described(kTeamDecode);
  return bench.Record<&RunGroups>(cores[0] + cores[1], prompts.Launched(streams), first, second);
}

QuantumRows rows_of(const FullQuantum& quantum) {
  QuantumRows rows;
  if (quantum.rows > 0) rows.prompts.push_back({quantum.first, quantum.rows});
  rows.contexts.assign(static_cast<size_t>(quantum.streams), quantum.context);
  rows.output_contexts = rows.contexts;
  return rows;
}

FixedCosts measure_fixed_costs(OperatorTimes& times) {
  OperatorBench bench(times.model());
  constexpr FullQuantum kRow = {.first = 0, .rows = 0, .streams = 1, .context = 1};
  const auto beside = [&](int layers) {  // the operators
    ModelShape shape = times.shape();
    shape.layers = layers;
    const Timing full = bench.Replay(record_quantum(bench, shape, times.cores(), kRow));
    bench.Clear();
    return full.seconds - sum_of(steps_of(times, rows_of(kRow), {0, layers, layers}, {}));
  };
  const double two = beside(2);
  FixedCosts fixed;
  fixed.layer = std::max(0.0, beside(3) - two);
  fixed.quantum = std::max(0.0, two - 2 * fixed.layer);
  return fixed;
}

}  // namespace weft::timing
