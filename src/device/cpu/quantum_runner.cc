#include "device/cpu/quantum_runner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

namespace weft {
namespace {

constexpr int64_t kManyRows = 16;

}  // namespace

Result<std::unique_ptr<QuantumRunner>> QuantumRunner::create(SharedState& shared, int threads) {
  const Model& model = shared.model;
  auto runner = std::make_unique<QuantumRunner>(shared);
  WEFT_ASSIGN(runner->workspace_,
              Workspace::create(model, shared.plan, shared.kernels, shared.limits, threads));
  WEFT_ASSIGN(runner->experts_,
              Experts::create(model.config, shared.plan, shared.kernels, shared.limits, threads));
  for (AttentionPlan* plan : {&runner->attention_, &runner->output_attention_}) {
    WEFT_ASSIGN(*plan, AttentionPlan::create(shared.kernels, shared.kv.layout(), model.config.heads,
                                             threads, shared.limits));
  }
  return runner;
}

QuantumRunner::QuantumRunner(SharedState& shared)
    : shared_(shared), kernels_(shared.kernels), batch_(shared.limits) {
  quantum_.passes.reserve(static_cast<size_t>(shared.limits.passes));
}

void QuantumRunner::prepare(const Quantum& quantum, int threads) {
  quantum_ = quantum;
  batch_.fill(quantum_, ends_at_head(), shared_.slots, shared_.model.config.vocab);
  all_reach_head_ = batch_.outputs().size() == batch_.rows().size();
  attention_.cut(batch_.sequences(), threads);
  if (ends_at_head() && !all_reach_head_) {
    output_attention_.cut(batch_.output_sequences(), threads);
  }
  for (const Pass* pass : quantum_.passes) {
    if (pass->sends != kNoBoard && quantum_.layer_begin == 0) shared_.board.reset(pass->sends);
  }
}

const std::vector<Step>& QuantumRunner::steps(int layer) const {
  const bool last = layer + 1 == shared_.model.config.layers;
  return last && !all_reach_head_ ? shared_.plan.last_layer_outputs
                                  : shared_.plan.layers[static_cast<size_t>(layer)];
}

void QuantumRunner::operator()(ThreadPool::Worker& worker) {
  Rows rows;
  rows.count = static_cast<int64_t>(batch_.rows().size());
  rows.hidden = workspace_.stream(Stream::kHidden);
  begin_rows(worker);
  for (int layer = quantum_.layer_begin; layer < quantum_.layer_end; ++layer) {
    for (const Step& step : steps(layer)) run_step(worker, step, layer, rows);
    if (worker.index() == 0) {
      const TimePoint now = std::chrono::steady_clock::now();
      shared_.last_layer_end.store(now.time_since_epoch().count(), std::memory_order_relaxed);
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
  const PackedMatrix embedding = shared_.weights.matrix(shared_.model.embedding);
  const int64_t width = shared_.model.config.hidden;
  float* hidden = workspace_.stream(Stream::kHidden);
  const auto rows = batch_.rows();
  const auto count = static_cast<int64_t>(rows.size());
  worker.parallel_for(count, worker.grain(count), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      kernels_.unpack_row(embedding, rows[static_cast<size_t>(r)].token, hidden + r * width);
    }
  });
}

// Between quanta a pass keeps its rows at its own place; within one the rows of all passes lie
// together, so that multiplications see one batch.
void QuantumRunner::move_rows(ThreadPool::Worker& worker, bool save) {
  const int64_t width = shared_.model.config.hidden;
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
    float* own = shared_.passes.rows(moved.id) + begin * width;
    float* joint = together + (first + begin) * width;
    const auto bytes = static_cast<size_t>((end - begin) * width) * sizeof(float);
    std::memcpy(save ? own : joint, save ? joint : own, bytes);
  });
}

void QuantumRunner::run_step(ThreadPool::Worker& worker, const Step& step, int layer, Rows& rows) {
  if (const auto* product = std::get_if<MultiplyStep>(&step)) {
    multiply(worker, *product, rows, stream_rows(product->out, rows));
  } else if (const auto* row = std::get_if<RowStep>(&step)) {
    if (row->store) wait_for_senders(worker, layer);
    row_step(worker, *row, layer, rows);
  } else if (const auto* mixture = std::get_if<ExpertsStep>(&step)) {
    experts(worker, *mixture, rows);
  } else if (std::holds_alternative<KeepOutputsStep>(step)) {
    keep_outputs(worker, rows);
  } else {
    attention(worker, layer, rows);
    send(worker, layer);
  }
}

RowSource QuantumRunner::source(const MultiplyStep& step, const Rows& rows) {
  RowSource source;
  source.op = step.source;
  source.x = stream_rows(step.in, rows);
  source.stride = shared_.model.width(step.in);
  source.weight = step.norm;
  source.eps = shared_.model.config.rms_eps;
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
  const int64_t stride =
      &step == &shared_.plan.head ? shared_.model.config.vocab : shared_.model.width(step.out);
  const MatmulOutput first{.out = out, .stride = stride, .accumulate = step.add};
  // Of many rows a panel takes so long that taking it costs nothing beside.
  const int64_t grain = worker.grain(step.panels, rows.count < kManyRows ? 8 : 32);
  worker.parallel_for(step.panels, grain, [&](int64_t begin, int64_t end) {
    if (!std::exchange(packed, true)) {
      step.pack(kernels_, source(step, rows), rows.count, 0, 1, activations);
    }
    step.multiply(kernels_, 0, activations, rows.count, begin, end, first);
  });
}

void QuantumRunner::row_step(ThreadPool::Worker& worker, const RowStep& step, int layer,
                             const Rows& rows) {
  const ModelConfig& c = shared_.model.config;
  const KvLayout layout = shared_.kv.layout();
  const KvLayerView cache = shared_.kv.layer(layer);
  const RopeTable& table = shared_.angles.table();
  float* qkv = workspace_.stream(Stream::kQkv);
  const int64_t stride = shared_.model.width(Stream::kQkv);
  const int64_t q_width = int64_t{c.heads} * c.head_dim;
  const int64_t k_width = int64_t{c.kv_heads} * c.head_dim;
  // Queries and keys lie side by side and are rotated together.
  const int64_t rotated_from = step.queries ? 0 : q_width;
  const int rotated_heads = (step.queries ? c.heads : 0) + (step.keys ? c.kv_heads : 0);
  worker.parallel_for(rows.count, worker.grain(rows.count), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const auto index = static_cast<size_t>(r);
      const Batch::Row& row =
          batch_
              .rows()[rows.outputs_only ? static_cast<size_t>(batch_.outputs()[index].row) : index];
      float* q = qkv + r * stride;
      float* k = q + q_width;
      if (step.query_norm != nullptr && step.queries) {
        kernels_.head_norm(q, c.heads, c.head_dim, step.query_norm, c.rms_eps);
      }
      if (step.key_norm != nullptr && step.keys) {
        kernels_.head_norm(k, c.kv_heads, c.head_dim, step.key_norm, c.rms_eps);
      }
      if (step.rope) {
        kernels_.rope(q + rotated_from, rotated_heads, c.head_dim, row.position, table);
      }
      if (step.store) {
        kernels_.store_kv(layout, cache.base + row.block * cache.block_stride, row.offset, k,
                          k + k_width);
      }
    }
  });
}

// The barrier behind attention has been passed: what was to be stored in this layer is, and the
// blocks are read no more. In the last layer rows that do not reach the head attend to nothing, so
// that this comes right after the storing.
void QuantumRunner::send(ThreadPool::Worker& worker, int layer) {
  if (worker.index() != 0) return;
  for (const Pass* pass : quantum_.passes) {
    if (pass->sends != kNoBoard) shared_.board.send(pass->sends, layer);
  }
}

// Attention reads whole tiles of keys and throws away what a row does not see. So who follows
// writes to its sender's last block only when that one has read it; in one quantum barriers see to
// that.
void QuantumRunner::wait_for_senders(ThreadPool::Worker& worker, int layer) {
  const auto sent_here = [this](BoardId board) {
    return std::any_of(quantum_.passes.begin(), quantum_.passes.end(),
                       [board](const Pass* pass) { return pass->sends == board; });
  };
  for (const Pass* pass : quantum_.passes) {
    const BoardId board = pass->follows;
    if (board == kNoBoard || sent_here(board) || shared_.board.recv(board) > layer) continue;
    worker.wait([&] { shared_.board.wait(board, layer); });
  }
}

// Once the last layer's keys and values are stored, only rows that reach the head matter: from here
// on they are the batch.
void QuantumRunner::keep_outputs(ThreadPool::Worker& worker, Rows& rows) {
  const auto outputs = batch_.outputs();
  const auto count = static_cast<int64_t>(outputs.size());
  const int64_t width = shared_.model.config.hidden;
  float* kept = workspace_.output_hidden.as<float>();
  worker.parallel_for(count, worker.grain(count), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(kept + i * width, rows.hidden + outputs[static_cast<size_t>(i)].row * width,
                  static_cast<size_t>(width) * sizeof(float));
    }
  });
  rows = {count, kept, true};
}

void QuantumRunner::attention(ThreadPool::Worker& worker, int layer, const Rows& rows) {
  const Model& model = shared_.model;
  AttentionPlan::Operands operands;
  operands.kv = shared_.kv.layer(layer);
  operands.scale = model.config.attention_scale;
  operands.q = workspace_.stream(Stream::kQkv);
  operands.q_stride = model.width(Stream::kQkv);
  operands.out = workspace_.stream(Stream::kAttention);
  operands.out_stride = model.width(Stream::kAttention);
  (rows.outputs_only ? output_attention_ : attention_).run(worker, operands);
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
  const int64_t vocab = shared_.model.config.vocab;
  float* logits = workspace_.logits.as<float>();
  for (int64_t first = 0; first < rows.count; first += workspace_.logit_rows) {
    const int64_t count = std::min<int64_t>(workspace_.logit_rows, rows.count - first);
    const Rows turn{count, rows.hidden + first * shared_.model.config.hidden, true};
    multiply(worker, shared_.plan.head, turn, logits);
    worker.parallel_for(count, 1, [&](int64_t r, int64_t /*end*/) {
      const auto index = static_cast<size_t>(first + r);
      const Batch::Output& output = outputs[index];
      const std::span<const float> row(logits + r * vocab, static_cast<size_t>(vocab));
      if (shared_.on_logits) shared_.on_logits(first + r, row);
      workspace_.samples[index] = sample_row(
          kernels_, row, shared_.slots[static_cast<size_t>(output.slot)], output.position,
          output.target, workspace_.sampler_scratch[static_cast<size_t>(worker.index())]);
    });
  }
}

}  // namespace weft
