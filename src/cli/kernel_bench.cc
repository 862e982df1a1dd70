#include "cli/kernel_bench.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "base/check.h"
#include "cli/paired_ratio.h"
#include "device/cpu/attention.h"
#include "device/sampler.h"

namespace weft {
namespace {

constexpr double kSampleSeconds = 0.01;  // a timing lasts at least so long

// Any type's blocks can be read from these bytes: whatever place one has, it is part of an ordinary
// number. Values do not change how long a kernel takes, but those that are not numbers could.
void fill_with_weights(std::span<std::byte> out) {
  std::minstd_rand random(1);
  for (std::byte& byte : out) byte = static_cast<std::byte>(0x28U | (random() >> 8U & 0x87U));
}

std::vector<float> random_rows(int64_t count) {
  std::minstd_rand random(2);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(random);
  return values;
}

// Most tokens are unlikely, and a few stand out.
std::vector<float> model_like_logits(int vocab) {
  constexpr size_t kLikely = 2048;  // one in so many
  std::minstd_rand random(3);
  std::normal_distribution<float> normal(0, 2.5F);
  std::vector<float> logits(static_cast<size_t>(vocab));
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = normal(random) + (i % kLikely == 0 ? 10.0F : 0.0F);
  }
  return logits;
}

Peak peak_of(ActivationFormat format) {
  switch (format) {
    case ActivationFormat::kQ8:
      return Peak::kInt8;
    case ActivationFormat::kBF16:
      return Peak::kBF16;
    case ActivationFormat::kF32:
      return Peak::kF32;
  }
  WEFT_CHECK(false, "activation format {}", static_cast<int>(format));
}

// Rows of some sequences that attend, and the blocks of their caches.
struct AttendingRows {
  std::vector<BlockId> ids;
  std::vector<SequenceRows> sequences;

  // Rows [first, context) of each of `count` sequences, whose blocks follow one another as far as
  // there are `blocks`.
  AttendingRows(int count, int first, int context, int64_t blocks) {
    const int64_t each = (context + kBlockPositions - 1) / kBlockPositions;
    for (int64_t i = 0; i < count * each; ++i) ids.push_back(static_cast<BlockId>(i % blocks));
    for (int64_t s = 0; s < count; ++s) {
      const int64_t at = s * (context - first);
      sequences.push_back({ids.data() + s * each, first, context - first, at});
    }
  }
};

// Queries times keys and weights times values, two operations each, for every key that a row sees.
double attention_operations(const DummyShape& shape, double keys) {
  return 4.0 * shape.heads * shape.head_dim * keys;
}

}  // namespace

Bound bound_of(const KernelFigure& figure, const MachineLimits& limits) {
  const double peak = figure.peak == Peak::kInt8   ? limits.int8_ops
                      : figure.peak == Peak::kBF16 ? limits.bf16_ops
                                                   : limits.f32_ops;
  const double compute = figure.operations / peak;
  const double memory = figure.bytes / limits.read_bytes;
  return {std::max(compute, memory), memory > compute};
}

std::vector<LayerMatrix> layer_matrices(const DummyShape& shape) {
  const int64_t q = int64_t{shape.heads} * shape.head_dim;
  const int64_t kv = int64_t{shape.kv_heads} * shape.head_dim;
  const bool experts = shape.experts > 0;
  const int64_t ffn = experts ? shape.expert_ffn : shape.ffn;
  const std::string of = experts ? "expert " : "";
  return {{"q+k+v", q + 2 * kv, shape.hidden},
          {"output", shape.hidden, q},
          {of + "gate+up", 2 * ffn, shape.hidden},
          {of + "down", shape.hidden, ffn}};
}

Result<std::unique_ptr<KernelBench>> KernelBench::create(const Options& options, OnRound on_round) {
  std::unique_ptr<KernelBench> bench(new KernelBench(options, std::move(on_round)));
  WEFT_ASSIGN(bench->pool_, ThreadPool::create(options.threads));
  WEFT_ASSIGN(bench->one_, ThreadPool::create(1));
  WEFT_ASSIGN(bench->memory_, Buffer::allocate(options.memory / 4096 * 4096));
  std::byte* memory = bench->memory_.data();
  const auto bytes = static_cast<int64_t>(bench->memory_.size());
  bench->pool_->run([&](ThreadPool::Worker& worker) {
    worker.parallel_for(bytes, 1 << 20, [&](int64_t begin, int64_t end) {
      fill_with_weights({memory + begin, static_cast<size_t>(end - begin)});
    });
  });
  const std::span<const std::byte> whole(memory, bench->memory_.size());
  bench->all_threads_ = std::make_unique<LimitProbe>(*options.kernels, *bench->pool_, whole);
  bench->one_thread_ = std::make_unique<LimitProbe>(*options.kernels, *bench->one_, whole);
  return bench;
}

void KernelBench::look_at_limits() {
  all_threads_->look();
  one_thread_->look();
}

std::vector<double> KernelBench::time(const std::vector<Work>& works) {
  std::vector<std::vector<double>> samples(works.size());
  std::vector<int64_t> runs(works.size(), 1);  // of a sample
  std::vector<int64_t> next(works.size(), 0);
  const auto sample = [&](size_t w) {
    const TimePoint begin = std::chrono::steady_clock::now();
    pool_->run([&](ThreadPool::Worker& worker) {
      for (int64_t i = 0; i < runs[w]; ++i) works[w](worker, next[w] + i);
    });
    next[w] += runs[w];
    return seconds(std::chrono::steady_clock::now() - begin);
  };
  for (size_t w = 0; w < works.size(); ++w) {  // the first run warms up
    while (sample(w) < kSampleSeconds) runs[w] *= 2;
  }
  for (int round = 0; round < options_.rounds; ++round) {
    look_at_limits();
    on_round_();
    for (size_t w = 0; w < works.size(); ++w) {
      samples[w].push_back(sample(w) / static_cast<double>(runs[w]));
    }
  }
  std::vector<double> medians;
  medians.reserve(samples.size());
  for (std::vector<double>& values : samples) medians.push_back(median(std::move(values)));
  return medians;
}

std::vector<KernelFigure> KernelBench::matmul(const std::string& model, const LayerMatrix& matrix,
                                              DType type, const std::vector<int>& rows) {
  const KernelTable& kernels = *options_.kernels;
  const int64_t bytes = kernels.packed_bytes(type, matrix.outputs, matrix.inputs);
  const int64_t step = (bytes + 63) / 64 * 64;
  const int64_t copies = static_cast<int64_t>(memory_.size()) / step;
  WEFT_CHECK(copies > 0, "{} bytes of weights, {} of memory", bytes, memory_.size());
  const int64_t panels = (matrix.outputs + kernels.panel_outputs - 1) / kernels.panel_outputs;
  const ActivationFormat format = kernels.activation_format(type);

  const int most = *std::max_element(rows.begin(), rows.end());
  const std::vector<float> x = random_rows(most * matrix.inputs);
  Result<Buffer> out = Buffer::allocate(sizeof(float) * static_cast<size_t>(most * matrix.outputs));
  WEFT_CHECK(out.ok(), "{}", out.error().message);
  std::vector<std::unique_ptr<Buffer>> packed;
  packed.reserve(rows.size());
  std::vector<Work> works;
  for (const int count : rows) {
    Result<Buffer> buffer = Buffer::allocate(
        static_cast<size_t>(kernels.activation_bytes(format, count, matrix.inputs)));
    WEFT_CHECK(buffer.ok(), "{}", buffer.error().message);
    packed.push_back(std::make_unique<Buffer>(std::move(buffer).value()));
    RowSource source;
    source.x = x.data();
    source.stride = matrix.inputs;
    const int64_t pieces = kernels.activation_pieces(format, count);
    kernels.pack_activations(format, source, count, matrix.inputs, 0, pieces,
                             packed.back()->data());
    works.emplace_back([&, count, activations = packed.back()->data()](ThreadPool::Worker& worker,
                                                                       int64_t run) {
      const PackedMatrix weights{type, matrix.outputs, matrix.inputs,
                                 memory_.data() + run % copies * step};
      worker.parallel_for(panels, worker.grain(panels), [&](int64_t begin, int64_t end) {
        kernels.matmul(weights, activations, count, begin, end, {out->as<float>(), matrix.outputs});
      });
    });
  }
  const std::vector<double> taken = time(works);
  std::vector<KernelFigure> figures;
  figures.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    KernelFigure figure;
    figure.kernel = "matmul";
    figure.type = dtype_info(type).name;
    figure.shape = fmt::format("{} {} {}x{}", model, matrix.name, matrix.outputs, matrix.inputs);
    figure.rows = rows[i];
    figure.seconds = taken[i];
    figure.operations = 2.0 * rows[i] * static_cast<double>(matrix.outputs * matrix.inputs);
    figure.bytes = static_cast<double>(bytes);
    figure.peak = peak_of(format);
    figures.push_back(std::move(figure));
  }
  return figures;
}

KernelFigure KernelBench::prefill_attention(const DummyShape& shape, KvType type, int context) {
  return attention(shape, type, context, 0, 1);
}

KernelFigure KernelBench::decode_attention(const DummyShape& shape, KvType type, int context,
                                           int sequences) {
  return attention(shape, type, context, context - 1, sequences);
}

// Rows [first, context) of each sequence.
KernelFigure KernelBench::attention(const DummyShape& shape, KvType type, int context, int first,
                                    int sequences) {
  const KernelTable& kernels = *options_.kernels;
  const KvLayout layout = {type, shape.kv_heads, shape.head_dim};
  const int64_t block_bytes = (kernels.kv_block_bytes(layout) + 63) / 64 * 64;
  const int64_t blocks = static_cast<int64_t>(memory_.size()) / block_bytes;
  WEFT_CHECK(blocks > 0, "{} bytes of a block, {} of memory", block_bytes, memory_.size());
  AttendingRows batch(sequences, first, context, blocks);
  const auto cache_bytes = static_cast<int64_t>(batch.ids.size()) * block_bytes;
  const int64_t copies = std::max<int64_t>(1, static_cast<int64_t>(memory_.size()) / cache_bytes);
  const int count = context - first;
  ExecutorLimits limits;
  limits.rows = count * sequences;
  limits.context = context;
  Result<AttentionPlan> plan =
      AttentionPlan::create(kernels, layout, shape.heads, options_.threads, limits);
  WEFT_CHECK(plan.ok(), "{}", plan.error().message);
  plan->cut(batch.sequences, options_.threads);

  AttentionPlan::Operands operands;
  operands.scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
  operands.q_stride = int64_t{shape.heads} * shape.head_dim;
  operands.out_stride = operands.q_stride;
  const std::vector<float> q = random_rows(limits.rows * operands.q_stride);
  std::vector<float> out(q.size());
  operands.q = q.data();
  operands.out = out.data();
  const Work work = [&](ThreadPool::Worker& worker, int64_t run) {
    AttentionPlan::Operands of_run = operands;
    of_run.kv = {memory_.data() + run % copies * cache_bytes, block_bytes};
    plan->run(worker, of_run);
  };

  KernelFigure figure;
  figure.seconds = time({work})[0];
  const bool prefill = first == 0;
  figure.kernel = prefill ? "prefill attention" : "decode attention";
  figure.type = kv_type_name(type);
  figure.shape = fmt::format("{} {}x{}, {} keys", shape.name, shape.heads, shape.head_dim, context);
  figure.rows = prefill ? count : sequences;
  const double keys = prefill ? 0.5 * context * (context + 1.0) : 1.0 * context * sequences;
  figure.operations = attention_operations(shape, keys);
  figure.bytes = prefill ? 0 : static_cast<double>(cache_bytes);
  const bool pairs = type == KvType::kBF16 && kernels.peak_bf16(1) > 0;
  figure.peak = pairs ? Peak::kBF16 : Peak::kF32;
  return figure;
}

KernelFigure KernelBench::sampling(const DummyShape& shape) {
  const std::vector<float> logits = model_like_logits(shape.vocab);
  SamplerState state;
  SlotInit slot;
  slot.sampling.temperature = 0.7F;
  slot.sampling.top_p = 0.95F;
  state.open(slot, shape.vocab, 1);
  SamplerScratch scratch(shape.vocab);
  const Work work = [&](ThreadPool::Worker& worker, int64_t run) {
    worker.parallel_for(1, 1, [&](int64_t, int64_t) {
      sample_row(*options_.kernels, logits, state, run, kSample, scratch);
    });
  };
  KernelFigure figure;
  figure.kernel = "sampling";
  figure.type = "F32";
  figure.shape = fmt::format("{} {} logits, top-p", shape.name, shape.vocab);
  figure.rows = 1;
  figure.seconds = time({work})[0];
  return figure;
}

}  // namespace weft
