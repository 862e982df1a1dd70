#include "device/cpu/quantum_runner.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace weft {

QuantumRunner::QuantumRunner(const Model& model, const CpuOptions& options, PackedWeights weights)
    : model_(model),
      limits_(options.limits),
      kernels_(*options.kernels),
      layout_{options.kv_type, model.config.kv_heads, model.config.head_dim},
      on_logits_(options.on_logits),
      weights_(std::move(weights)),
      plan_(make_plan(model, weights_, kernels_)),
      batch_(options.limits) {}

Status QuantumRunner::allocate(const CpuOptions& options) {
  WEFT_ASSIGN(angles_, RopeAngles::create(model_.rope_frequencies, model_.config.rope.interleaved,
                                          limits_.context));
  WEFT_ASSIGN(workspace_,
              Workspace::create(model_, plan_, kernels_, layout_, limits_, options.threads));
  WEFT_ASSIGN(experts_, Experts::create(model_.config, plan_, kernels_, limits_, options.threads));
  for (AttentionPlan* plan : {&attention_, &output_attention_}) {
    WEFT_ASSIGN(*plan, AttentionPlan::create(kernels_, layout_, model_.config.heads,
                                             options.threads, limits_));
  }
  return {};
}

void QuantumRunner::prepare(const Quantum& quantum, std::span<const SamplerState> slots) {
  quantum_ = quantum;
  slots_ = slots;
  batch_.fill(quantum_, ends_at_head(), slots, model_.config.vocab);
  attention_.cut(batch_.sequences());
  if (ends_at_head()) output_attention_.cut(batch_.output_sequences());
}

void QuantumRunner::drop_rows(PassId pass, int64_t first, int64_t count, int64_t rows) {
  const int64_t width = model_.config.hidden;
  float* hidden = workspace_.pass_rows(pass);
  std::memmove(hidden + first * width, hidden + (first + count) * width,
               static_cast<size_t>((rows - first - count) * width) * sizeof(float));
}

void QuantumRunner::operator()(ThreadPool::Worker& worker) {
  Rows rows;
  rows.count = static_cast<int64_t>(batch_.rows().size());
  rows.hidden = workspace_.stream(Stream::kHidden);
  begin_rows(worker);
  for (int layer = quantum_.layer_begin; layer < quantum_.layer_end; ++layer) {
    rows.last_layer = layer + 1 == model_.config.layers;
    for (const Step& step : plan_.layers[static_cast<size_t>(layer)]) {
      run_step(worker, step, layer, rows);
    }
    if (worker.index() == 0) {
      const TimePoint now = std::chrono::steady_clock::now();
      last_layer_end_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
    }
  }
  if (ends_at_head()) {
    head(worker, rows);
  } else {
    move_rows(worker, true);
  }
}

void QuantumRunner::begin_rows(ThreadPool::Worker& worker) {
  if (quantum_.layer_begin > 0) return move_rows(worker, false);
  const PackedMatrix embedding = weights_.matrix(model_.embedding);
  float* hidden = workspace_.stream(Stream::kHidden);
  const auto rows = batch_.rows();
  const auto count = static_cast<int64_t>(rows.size());
  worker.parallel_for(count, worker.grain(count), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      kernels_.unpack_row(embedding, rows[static_cast<size_t>(r)].token,
                          hidden + r * model_.config.hidden);
    }
  });
}

// Between quanta a pass keeps its rows at its own place; within one the rows of all passes lie
// together, so that multiplications see one batch.
void QuantumRunner::move_rows(ThreadPool::Worker& worker, bool save) {
  const int64_t width = model_.config.hidden;
  float* together = workspace_.stream(Stream::kHidden);
  const auto passes = static_cast<int64_t>(quantum_.passes.size());
  const auto workers = int64_t{worker.count()};
  // Each pass in as many parts as there are workers.
  worker.parallel_for(passes * workers, 1, [&](int64_t item, int64_t /*end*/) {
    const int64_t pass = item / workers;
    int64_t first = 0;
    for (int64_t p = 0; p < pass; ++p) first += quantum_.passes[static_cast<size_t>(p)]->rows();
    const Pass& moved = *quantum_.passes[static_cast<size_t>(pass)];
    const int64_t rows = moved.rows();
    const int64_t begin = rows * (item % workers) / workers;
    const int64_t end = rows * (item % workers + 1) / workers;
    float* own = workspace_.pass_rows(moved.id) + begin * width;
    float* joint = together + (first + begin) * width;
    const auto bytes = static_cast<size_t>((end - begin) * width) * sizeof(float);
    std::memcpy(save ? own : joint, save ? joint : own, bytes);
  });
}

void QuantumRunner::run_step(ThreadPool::Worker& worker, const Step& step, int layer, Rows& rows) {
  if (const auto* product = std::get_if<MultiplyStep>(&step)) {
    multiply(worker, *product, rows, stream_rows(product->out, rows));
  } else if (const auto* row = std::get_if<RowStep>(&step)) {
    row_step(worker, *row, layer);
  } else if (const auto* mixture = std::get_if<ExpertsStep>(&step)) {
    experts(worker, *mixture, rows);
  } else {
    if (rows.last_layer) keep_outputs_only(worker, rows);
    attention(worker, layer, rows);
  }
}

RowSource QuantumRunner::source(const MultiplyStep& step, const Rows& rows) {
  RowSource source;
  source.op = step.source;
  source.x = stream_rows(step.in, rows);
  source.stride = model_.width(step.in);
  source.weight = step.norm;
  source.eps = model_.config.rms_eps;
  return source;
}

// The pieces of all formats in one loop.
void QuantumRunner::pack_together(ThreadPool::Worker& worker, const MultiplyStep& step,
                                  const Rows& rows) {
  const RowSource from = source(step, rows);
  std::array<int64_t, 4> first{};
  for (size_t f = 0; f < static_cast<size_t>(step.format_count); ++f) {
    first[f + 1] = first[f] + kernels_.activation_pieces(step.formats[f], rows.count);
  }
  const int64_t pieces = first[static_cast<size_t>(step.format_count)];
  worker.parallel_for(pieces, worker.grain(pieces), [&](int64_t begin, int64_t end) {
    for (size_t f = 0; f < static_cast<size_t>(step.format_count); ++f) {
      const int64_t piece_begin = std::max(begin, first[f]) - first[f];
      const int64_t piece_end = std::min(end, first[f + 1]) - first[f];
      if (piece_begin >= piece_end) continue;
      kernels_.pack_activations(step.formats[f], from, rows.count, step.inputs, piece_begin,
                                piece_end, workspace_.activations[f].data());
    }
  });
}

void QuantumRunner::multiply(ThreadPool::Worker& worker, const MultiplyStep& step, const Rows& rows,
                             float* out) {
  if (rows.count == 0) return;
  // What only one worker could pack, each packs for itself at its first panel: that saves the wait.
  // Nobody writes what they read, since no multiplication writes the stream that it reads.
  const bool alone = step.packs_in_one_piece(kernels_, rows.count);
  bool packed = !alone;
  if (!alone) pack_together(worker, step, rows);
  const Activations activations =
      starts(alone ? workspace_.own_activations[static_cast<size_t>(worker.index())]
                   : workspace_.activations);
  const int64_t stride = &step == &plan_.head ? model_.config.vocab : model_.width(step.out);
  const MatmulOutput first{.out = out, .stride = stride, .accumulate = step.add};
  worker.parallel_for(step.panels, worker.grain(step.panels), [&](int64_t begin, int64_t end) {
    if (!std::exchange(packed, true)) {
      step.pack(kernels_, source(step, rows), rows.count, 0, 1, activations);
    }
    step.multiply(kernels_, 0, activations, rows.count, begin, end, first);
  });
}

KvLayerView QuantumRunner::kv(int layer) {
  const int64_t stride = workspace_.kv_block_bytes;
  return {workspace_.kv.data() + layer * limits_.blocks * stride, stride};
}

void QuantumRunner::row_step(ThreadPool::Worker& worker, const RowStep& step, int layer) {
  const ModelConfig& c = model_.config;
  const KvLayout layout = layout_;
  const KvLayerView cache = kv(layer);
  const RopeTable& table = angles_.table();
  float* qkv = workspace_.stream(Stream::kQkv);
  const int64_t stride = model_.width(Stream::kQkv);
  const auto rows = batch_.rows();
  const auto count = static_cast<int64_t>(rows.size());
  worker.parallel_for(count, worker.grain(count), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const Batch::Row& row = rows[static_cast<size_t>(r)];
      float* q = qkv + r * stride;
      float* k = q + int64_t{c.heads} * c.head_dim;
      float* v = k + int64_t{c.kv_heads} * c.head_dim;
      if (step.query_norm != nullptr) {
        kernels_.head_norm(q, c.heads, c.head_dim, step.query_norm, c.rms_eps);
        kernels_.head_norm(k, c.kv_heads, c.head_dim, step.key_norm, c.rms_eps);
      }
      if (step.rope) kernels_.rope(q, c.heads + c.kv_heads, c.head_dim, row.position, table);
      if (step.store) {
        kernels_.store_kv(layout, cache.base + row.block * cache.block_stride, row.offset, k, v);
      }
    }
  });
}

// Once the last layer's keys and values are stored, only rows that reach the head matter: from here
// on they are the batch.
void QuantumRunner::keep_outputs_only(ThreadPool::Worker& worker, Rows& rows) {
  const auto outputs = batch_.outputs();
  const auto count = static_cast<int64_t>(outputs.size());
  if (count == rows.count) return;
  const int64_t width = model_.config.hidden;
  float* kept = workspace_.output_hidden.as<float>();
  worker.parallel_for(count, worker.grain(count), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(kept + i * width, rows.hidden + outputs[static_cast<size_t>(i)].row * width,
                  static_cast<size_t>(width) * sizeof(float));
    }
  });
  rows.hidden = kept;
  rows.count = count;
}

void QuantumRunner::attention(ThreadPool::Worker& worker, int layer, const Rows& rows) {
  AttentionPlan::Operands operands;
  operands.kv = kv(layer);
  operands.scale = model_.config.attention_scale;
  operands.q = workspace_.stream(Stream::kQkv);
  operands.q_stride = model_.width(Stream::kQkv);
  operands.out = workspace_.stream(Stream::kAttention);
  operands.out_stride = model_.width(Stream::kAttention);
  (rows.last_layer ? output_attention_ : attention_).run(worker, operands);
}

void QuantumRunner::experts(ThreadPool::Worker& worker, const ExpertsStep& step, const Rows& rows) {
  Experts::Operands operands;
  operands.logits = workspace_.stream(Stream::kRouter);
  operands.in = source(step.gate_up, rows);
  operands.out = rows.hidden;
  operands.rows = rows.count;
  experts_.run(worker, step, operands);
}

void QuantumRunner::head(ThreadPool::Worker& worker, const Rows& rows) {
  const auto outputs = batch_.outputs();
  float* logits = workspace_.logits.as<float>();
  for (int64_t first = 0; first < rows.count; first += workspace_.logit_rows) {
    const int64_t count = std::min<int64_t>(workspace_.logit_rows, rows.count - first);
    const Rows turn{count, rows.hidden + first * model_.config.hidden, true};
    multiply(worker, plan_.head, turn, logits);
    worker.parallel_for(count, 1, [&](int64_t r, int64_t /*end*/) {
      const auto index = static_cast<size_t>(first + r);
      const Batch::Output& output = outputs[index];
      const std::span<const float> row(logits + r * model_.config.vocab,
                                       static_cast<size_t>(model_.config.vocab));
      if (on_logits_) on_logits_(first + r, row);
      workspace_.samples[index] = sample_row(
          kernels_, row, slots_[static_cast<size_t>(output.slot)], output.position, output.target,
          workspace_.sampler_scratch[static_cast<size_t>(worker.index())]);
    });
  }
}

}  // namespace weft
