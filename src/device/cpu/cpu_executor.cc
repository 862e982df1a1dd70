#include "device/cpu/cpu_executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/cpu.h"
#include "base/log.h"
#include "device/cpu/attention.h"
#include "device/cpu/batch.h"
#include "device/cpu/packed_weights.h"
#include "device/cpu/plan.h"
#include "device/cpu/rope_angles.h"
#include "device/cpu/thread_pool.h"
#include "device/cpu/workspace.h"
#include "device/sampler.h"

namespace weft {
namespace {

// Items of a loop that are taken at once: few enough that the workers end together.
int64_t grain(int64_t items, const ThreadPool::Worker& worker) {
  return std::max<int64_t>(1, items / (int64_t{8} * worker.count()));
}

class CpuExecutor final : public Executor {
 public:
  static Result<std::unique_ptr<Executor>> create(const Model& model, const Checkpoint& checkpoint,
                                                  const CpuOptions& options,
                                                  const std::function<void(double)>& progress);
  ~CpuExecutor() override {
    if (running_) pool_->join();
  }
  CpuExecutor(const CpuExecutor&) = delete;
  CpuExecutor& operator=(const CpuExecutor&) = delete;

  const ExecutorLimits& limits() const override { return options_.limits; }
  int layers() const override { return model_.config.layers; }
  int vocab() const override { return model_.config.vocab; }
  int groups() const override { return 1; }
  int cores(GroupId /*group*/) const override { return pool_->threads(); }
  std::string description() const override {
    return fmt::format("cpu {}, {} thread{}, kv {}", kernels_.name, pool_->threads(),
                       pool_->threads() == 1 ? "" : "s", kv_type_name(options_.kv_type));
  }

  void open_slot(SlotId slot, const SlotInit& init) override;
  void close_slot(SlotId slot) override;
  void start(GroupId group, const Quantum& quantum) override;
  std::optional<Completion> wait(TimePoint deadline) override;
  void drop_pass(PassId pass) override;

  void operator()(ThreadPool::Worker& worker) { run(worker); }  // the job of the pool

 private:
  // The rows that a layer works on; each worker walks through the same ones.
  struct Rows {
    int64_t count = 0;
    float* hidden = nullptr;  // [count, hidden]
    bool last_layer = false;
  };
  struct OpenPass {
    int next_layer = 0;
    int64_t rows = 0;
  };

  CpuExecutor(const Model& model, CpuOptions options)
      : model_(model), options_(std::move(options)), kernels_(*options_.kernels) {}

  KvLayout kv_layout() const {
    return {options_.kv_type, model_.config.kv_heads, model_.config.head_dim};
  }
  bool ends_at_head() const { return quantum_.layer_end == layers(); }
  void check_passes() const;
  Duration busy() const;
  void collect_outputs(Completion& completion);

  void run(ThreadPool::Worker& worker);
  void begin_rows(ThreadPool::Worker& worker);
  void move_rows(ThreadPool::Worker& worker, bool save);
  void run_step(ThreadPool::Worker& worker, const Step& step, int layer, Rows& rows);
  void multiply(ThreadPool::Worker& worker, const MultiplyStep& step, const Rows& rows, float* out);
  RowSource source(const MultiplyStep& step, const Rows& rows);
  void pack_together(ThreadPool::Worker& worker, const MultiplyStep& step, const Rows& rows);
  void pack_alone(const MultiplyStep& step, const Rows& rows, Workspace::Activations& out);
  void row_step(ThreadPool::Worker& worker, const RowStep& step, int layer);
  void keep_outputs_only(ThreadPool::Worker& worker, Rows& rows);
  void attention(ThreadPool::Worker& worker, int layer, const Rows& rows);
  void head(ThreadPool::Worker& worker, const Rows& rows);
  float* stream_rows(Stream stream, const Rows& rows) {
    return stream == Stream::kHidden ? rows.hidden : workspace_.stream(stream);
  }
  KvLayerView kv(int layer);

  const Model& model_;
  const CpuOptions options_;
  const KernelTable& kernels_;
  std::unique_ptr<ThreadPool> pool_;
  std::vector<int> cpus_;  // to pin to; empty: not at all
  bool pinned_ = false;

  PackedWeights weights_;
  Plan plan_;
  RopeAngles angles_;
  Workspace workspace_;
  AttentionPlan attention_;         // of all rows
  AttentionPlan output_attention_;  // of output rows, for the last layer
  std::vector<SamplerState> slots_;
  std::vector<OpenPass> passes_;
  Batch batch_{ExecutorLimits{}};

  Quantum quantum_;  // the one that runs
  bool running_ = false;
  TimePoint started_{};
  Duration busy_before_{};
};

// Holds the limits to a range in which no size of a buffer can overflow.
Status check_limits(const ExecutorLimits& limits, double bytes_per_block) {
  struct Limit {
    const char* name;
    int value;
    int max;
  };
  const Limit all[] = {
      {"slots", limits.slots, 1 << 16},
      {"passes", limits.passes, 1 << 16},
      {"rows", limits.rows, 1 << 24},
      {"output rows", limits.output_rows, 1 << 24},
      {"context positions", limits.context, 1 << 24},
      {"KV blocks", limits.blocks, INT32_MAX},
  };
  for (const Limit& limit : all) {
    if (limit.value < 1 || limit.value > limit.max) {
      return Error{ErrorKind::kInvalidArgument, fmt::format("{} {}: it has to be from 1 to {}",
                                                            limit.value, limit.name, limit.max)};
    }
  }
  if (bytes_per_block * limits.blocks > 0x1p46) {
    return Error{ErrorKind::kExhausted,
                 fmt::format("{} KV blocks of {:.0f} bytes are more than a process can address",
                             limits.blocks, bytes_per_block)};
  }
  return {};
}

Result<std::unique_ptr<Executor>> CpuExecutor::create(const Model& model,
                                                      const Checkpoint& checkpoint,
                                                      const CpuOptions& options,
                                                      const std::function<void(double)>& progress) {
  const ExecutorLimits& limits = options.limits;
  WEFT_CHECK(options.kernels != nullptr);
  WEFT_RETURN_IF_ERROR(check_limits(
      limits, static_cast<double>(kv_block_bytes(model, *options.kernels, options.kv_type))));
  std::unique_ptr<CpuExecutor> executor(new CpuExecutor(model, options));
  CpuExecutor& e = *executor;
  if (options.pin) {
    e.cpus_ = read_cpu_topology().cores;
    if (e.cpus_.size() < static_cast<size_t>(options.threads)) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("cannot pin {} threads: this process may use {} cores",
                               options.threads, e.cpus_.size())};
    }
    e.cpus_.resize(static_cast<size_t>(std::max(options.threads, 0)));
  }
  WEFT_ASSIGN(e.pool_, ThreadPool::create(options.threads, e.cpus_));
  WEFT_ASSIGN(e.weights_, PackedWeights::pack(model, checkpoint, e.kernels_, *e.pool_, progress));
  e.plan_ = make_plan(model, e.weights_, e.kernels_);
  WEFT_ASSIGN(e.angles_, RopeAngles::create(model.rope_frequencies, model.config.rope.interleaved,
                                            limits.context));
  const KvLayout layout = e.kv_layout();
  WEFT_ASSIGN(e.workspace_,
              Workspace::create(model, e.plan_, e.kernels_, layout, limits, options.threads));
  for (AttentionPlan* plan : {&e.attention_, &e.output_attention_}) {
    WEFT_ASSIGN(*plan, AttentionPlan::create(e.kernels_, layout, model.config.heads,
                                             options.threads, limits));
  }
  e.slots_.resize(static_cast<size_t>(limits.slots));
  e.passes_.resize(static_cast<size_t>(limits.passes));
  e.batch_ = Batch(limits);
  return std::unique_ptr<Executor>(std::move(executor));
}

// --- The engine thread's side -----------------------------------------------------------------

void CpuExecutor::open_slot(SlotId slot, const SlotInit& init) {
  WEFT_CHECK(slot >= 0 && slot < limits().slots, "slot {}", slot);
  slots_[static_cast<size_t>(slot)].open(init, vocab(), limits().context);
}

void CpuExecutor::close_slot(SlotId slot) {
  WEFT_CHECK(slot >= 0 && slot < limits().slots, "slot {}", slot);
}

void CpuExecutor::drop_pass(PassId pass) {
  WEFT_CHECK(pass >= 0 && pass < limits().passes, "pass {}", pass);
  passes_[static_cast<size_t>(pass)] = {};
}

Duration CpuExecutor::busy() const {
  Duration total{};
  for (int i = 0; i < pool_->threads(); ++i) total += pool_->busy(i);
  return total;
}

void CpuExecutor::check_passes() const {
  const Quantum& q = quantum_;
  WEFT_CHECK(!q.passes.empty(), "a quantum of no pass");
  WEFT_CHECK(q.layer_begin >= 0 && q.layer_begin < q.layer_end && q.layer_end <= layers(),
             "layers {} to {} of {}", q.layer_begin, q.layer_end, layers());
  for (const Pass* pass : q.passes) {
    WEFT_CHECK(pass->id >= 0 && pass->id < limits().passes, "pass {}", pass->id);
    const OpenPass& open = passes_[static_cast<size_t>(pass->id)];
    WEFT_CHECK(
        q.layer_begin == 0 || (open.next_layer == q.layer_begin && open.rows == pass->rows()),
        "pass {} of {} rows stands at layer {}, not {}", pass->id, open.rows, open.next_layer,
        q.layer_begin);
  }
}

void CpuExecutor::start(GroupId group, const Quantum& quantum) {
  WEFT_CHECK(group == 0 && !running_, "group {} is busy or does not exist", group);
  started_ = std::chrono::steady_clock::now();
  if (!cpus_.empty() && !pinned_) {
    pinned_ = true;
    if (const Status status = pin_this_thread(cpus_[0]); !status.ok()) {
      spdlog::warn("{}", status.error().message);
    }
  }
  quantum_ = quantum;
  check_passes();
  batch_.fill(quantum_, ends_at_head(), slots_, vocab());
  attention_.cut(batch_.sequences());
  if (ends_at_head()) output_attention_.cut(batch_.output_sequences());
  busy_before_ = busy();
  running_ = true;
  pool_->start(*this);
}

std::optional<Completion> CpuExecutor::wait(TimePoint /*deadline*/) {
  WEFT_CHECK(running_, "wait() without a started quantum");
  pool_->join();
  running_ = false;
  for (const Pass* pass : quantum_.passes) {
    OpenPass& open = passes_[static_cast<size_t>(pass->id)];
    open = ends_at_head() ? OpenPass{} : OpenPass{quantum_.layer_end, pass->rows()};
  }
  Completion completion;
  completion.quantum = quantum_.id;
  completion.start = started_;
  completion.busy_core_seconds = seconds(busy() - busy_before_);
  collect_outputs(completion);
  completion.end = std::chrono::steady_clock::now();
  return completion;
}

void CpuExecutor::collect_outputs(Completion& completion) {
  const auto outputs = batch_.outputs();
  completion.outputs.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Batch::Output& output = outputs[i];
    const Sample& sample = workspace_.samples[i];
    OutputRow& row = completion.outputs.emplace_back();
    row.pass = quantum_.passes[static_cast<size_t>(output.pass)]->id;
    row.segment = output.segment;
    row.row = output.segment_row;
    row.token = sample.token;
    row.finite = sample.finite;
    row.logprob = sample.logprob;
    row.log_sum_exp = sample.log_sum_exp;
    row.top.assign(sample.top.begin(), sample.top.begin() + sample.top_count);
    if (output.target == kSample && sample.finite) {
      slots_[static_cast<size_t>(output.slot)].accept(sample.token);
    }
  }
}

// --- The workers' side ------------------------------------------------------------------------

void CpuExecutor::run(ThreadPool::Worker& worker) {
  Rows rows;
  rows.count = static_cast<int64_t>(batch_.rows().size());
  rows.hidden = workspace_.stream(Stream::kHidden);
  begin_rows(worker);
  for (int layer = quantum_.layer_begin; layer < quantum_.layer_end; ++layer) {
    rows.last_layer = layer + 1 == layers();
    for (const Step& step : plan_.layers[static_cast<size_t>(layer)]) {
      run_step(worker, step, layer, rows);
    }
  }
  if (ends_at_head()) {
    head(worker, rows);
  } else {
    move_rows(worker, true);
  }
}

void CpuExecutor::begin_rows(ThreadPool::Worker& worker) {
  if (quantum_.layer_begin > 0) return move_rows(worker, false);
  const PackedMatrix embedding = weights_.matrix(model_.embedding);
  float* hidden = workspace_.stream(Stream::kHidden);
  const auto rows = batch_.rows();
  const auto count = static_cast<int64_t>(rows.size());
  worker.parallel_for(count, grain(count, worker), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      kernels_.unpack_row(embedding, rows[static_cast<size_t>(r)].token,
                          hidden + r * model_.config.hidden);
    }
  });
}

// Between quanta a pass keeps its rows at its own place; within one the rows of all passes lie
// together, so that multiplications see one batch.
void CpuExecutor::move_rows(ThreadPool::Worker& worker, bool save) {
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

void CpuExecutor::run_step(ThreadPool::Worker& worker, const Step& step, int layer, Rows& rows) {
  if (const auto* product = std::get_if<MultiplyStep>(&step)) {
    multiply(worker, *product, rows, stream_rows(product->out, rows));
  } else if (const auto* row = std::get_if<RowStep>(&step)) {
    row_step(worker, *row, layer);
  } else {
    if (rows.last_layer) keep_outputs_only(worker, rows);
    attention(worker, layer, rows);
  }
}

RowSource CpuExecutor::source(const MultiplyStep& step, const Rows& rows) {
  RowSource source;
  source.op = step.source;
  source.x = stream_rows(step.in, rows);
  source.stride = model_.width(step.in);
  source.weight = step.norm;
  source.eps = model_.config.rms_eps;
  return source;
}

// The pieces of all formats in one loop.
void CpuExecutor::pack_together(ThreadPool::Worker& worker, const MultiplyStep& step,
                                const Rows& rows) {
  const RowSource from = source(step, rows);
  std::array<int64_t, 4> first{};
  for (size_t f = 0; f < static_cast<size_t>(step.format_count); ++f) {
    first[f + 1] = first[f] + kernels_.activation_pieces(step.formats[f], rows.count);
  }
  const int64_t pieces = first[static_cast<size_t>(step.format_count)];
  worker.parallel_for(pieces, grain(pieces, worker), [&](int64_t begin, int64_t end) {
    for (size_t f = 0; f < static_cast<size_t>(step.format_count); ++f) {
      const int64_t piece_begin = std::max(begin, first[f]) - first[f];
      const int64_t piece_end = std::min(end, first[f + 1]) - first[f];
      if (piece_begin >= piece_end) continue;
      kernels_.pack_activations(step.formats[f], from, rows.count, step.inputs, piece_begin,
                                piece_end, workspace_.activations[f].data());
    }
  });
}

void CpuExecutor::pack_alone(const MultiplyStep& step, const Rows& rows,
                             Workspace::Activations& out) {
  const RowSource from = source(step, rows);
  for (size_t f = 0; f < static_cast<size_t>(step.format_count); ++f) {
    kernels_.pack_activations(step.formats[f], from, rows.count, step.inputs, 0, 1, out[f].data());
  }
}

void CpuExecutor::multiply(ThreadPool::Worker& worker, const MultiplyStep& step, const Rows& rows,
                           float* out) {
  if (rows.count == 0) return;
  // What only one worker could pack, each packs for itself at its first panel: that saves the wait.
  // Nobody writes what they read, since no multiplication writes the stream that it reads.
  const bool alone = step.packs_in_one_piece(kernels_, rows.count);
  bool packed = !alone;
  if (!alone) pack_together(worker, step, rows);
  Workspace::Activations& activations =
      alone ? workspace_.own_activations[static_cast<size_t>(worker.index())]
            : workspace_.activations;
  const int64_t stride = &step == &plan_.head ? vocab() : model_.width(step.out);
  worker.parallel_for(step.panels, grain(step.panels, worker), [&](int64_t begin, int64_t end) {
    if (!std::exchange(packed, true)) pack_alone(step, rows, activations);
    int64_t first = 0;
    for (size_t i = 0; i < static_cast<size_t>(step.product_count); ++i) {
      const MultiplyStep::Product& product = step.products[i];
      const int64_t from = std::max(begin - first, int64_t{0});
      const int64_t to = std::min(end - first, product.panels);
      first += product.panels;
      if (from >= to) continue;
      const MatmulOutput target{out + product.column, stride, product.bias, step.add};
      kernels_.matmul(product.matrix, activations[static_cast<size_t>(product.format)].data(),
                      rows.count, from, to, target);
    }
  });
}

KvLayerView CpuExecutor::kv(int layer) {
  const int64_t stride = workspace_.kv_block_bytes;
  return {workspace_.kv.data() + layer * limits().blocks * stride, stride};
}

void CpuExecutor::row_step(ThreadPool::Worker& worker, const RowStep& step, int layer) {
  const ModelConfig& c = model_.config;
  const KvLayout layout = kv_layout();
  const KvLayerView cache = kv(layer);
  const RopeTable& table = angles_.table();
  float* qkv = workspace_.stream(Stream::kQkv);
  const int64_t stride = model_.width(Stream::kQkv);
  const auto rows = batch_.rows();
  const auto count = static_cast<int64_t>(rows.size());
  worker.parallel_for(count, grain(count, worker), [&](int64_t begin, int64_t end) {
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
void CpuExecutor::keep_outputs_only(ThreadPool::Worker& worker, Rows& rows) {
  const auto outputs = batch_.outputs();
  const auto count = static_cast<int64_t>(outputs.size());
  if (count == rows.count) return;
  const int64_t width = model_.config.hidden;
  float* kept = workspace_.output_hidden.as<float>();
  worker.parallel_for(count, grain(count, worker), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(kept + i * width, rows.hidden + outputs[static_cast<size_t>(i)].row * width,
                  static_cast<size_t>(width) * sizeof(float));
    }
  });
  rows.hidden = kept;
  rows.count = count;
}

void CpuExecutor::attention(ThreadPool::Worker& worker, int layer, const Rows& rows) {
  AttentionPlan::Operands operands;
  operands.kv = kv(layer);
  operands.scale = model_.config.attention_scale;
  operands.q = workspace_.stream(Stream::kQkv);
  operands.q_stride = model_.width(Stream::kQkv);
  operands.out = workspace_.stream(Stream::kAttention);
  operands.out_stride = model_.width(Stream::kAttention);
  (rows.last_layer ? output_attention_ : attention_).run(worker, operands);
}

void CpuExecutor::head(ThreadPool::Worker& worker, const Rows& rows) {
  const auto outputs = batch_.outputs();
  float* logits = workspace_.logits.as<float>();
  for (int64_t first = 0; first < rows.count; first += workspace_.logit_rows) {
    const int64_t count = std::min<int64_t>(workspace_.logit_rows, rows.count - first);
    const Rows turn{count, rows.hidden + first * model_.config.hidden, true};
    multiply(worker, plan_.head, turn, logits);
    worker.parallel_for(count, 1, [&](int64_t r, int64_t /*end*/) {
      const auto index = static_cast<size_t>(first + r);
      const Batch::Output& output = outputs[index];
      const std::span<const float> row(logits + r * vocab(), static_cast<size_t>(vocab()));
      if (options_.on_logits) options_.on_logits(first + r, row);
      workspace_.samples[index] = sample_row(
          kernels_, row, slots_[static_cast<size_t>(output.slot)], output.position, output.target,
          workspace_.sampler_scratch[static_cast<size_t>(worker.index())]);
    });
  }
}

}  // namespace

int64_t kv_block_bytes(const Model& model, const KernelTable& kernels, KvType type) {
  const KvLayout layout{type, model.config.kv_heads, model.config.head_dim};
  return kernels.kv_block_bytes(layout) * model.config.layers;
}

int64_t packed_weight_bytes(const Model& model, const KernelTable& kernels) {
  return PackedWeights::bytes(model, kernels);
}

Result<std::unique_ptr<Executor>> make_cpu_executor(const Model& model,
                                                    const Checkpoint& checkpoint,
                                                    const CpuOptions& options,
                                                    const std::function<void(double)>& progress) {
  return CpuExecutor::create(model, checkpoint, options, progress);
}

}  // namespace weft
