#pragma once
// LayerOperators: the operators of a layer, each called on the memory and the tables of the quantum
// that runs. None of them waits for another core: LayerProgram has the order and the barriers.

#include <cstdint>

#include "attention.h"
#include "descriptor.h"
#include "embedding.h"
#include "matmul.h"
#include "matmul_int8.h"
#include "memory.h"
#include "norm.h"
#include "rotary_store.h"
#include "sample.h"
#include "swiglu.h"

namespace weft_ascend {

static_assert(MatmulInt8WorkspaceBytes(1) == kInt8BlockBytes, "the host takes as much");

// Rows that a layer works on, and where they lie.
struct LayerRows {
  RowTables tables;
  GmAddress hidden;
  GmAddress normed;
};

class LayerOperators {
 public:
  __aicore__ inline LayerOperators(AscendC::TPipe& pipe, GM_ADDR model) : pipe_(pipe) {
    ReadStruct(model, model_);
  }

  // The quantum and the team that all others work for from here on.
  __aicore__ inline void Begin(const Descriptor& d, GM_ADDR workspace, Team team) {
    ReadStruct(workspace, memory_);
    d_ = d;
    team_ = team;
    all_ = {d_.rows, memory_.hidden, memory_.normed};
    outputs_ = d_.all_output != 0
                   ? all_
                   : LayerRows{d_.outputs, memory_.output_hidden, memory_.output_normed};
    updates_ = false;
  }
  // The layer that they work on.
  __aicore__ inline void ReadLayer(int32_t layer) {
    layer_ = next_ = layer;
    ReadStruct(Pointer(model_.layer_weights) + layer * sizeof(LayerWeights), weights_);
  }
  // What the next layer will need, if there is one in the quantum; once is enough.
  __aicore__ inline void ReadNextLayer() {
    if (next_ > layer_ || layer_ + 1 >= d_.layer_end) return;
    next_ = layer_ + 1;
    ReadStruct(Pointer(model_.layer_weights) + next_ * sizeof(LayerWeights), next_weights_);
  }
  // Requires that it was read.
  __aicore__ inline void EnterNextLayer() {
    layer_ = next_;
    weights_ = next_weights_;
  }

  __aicore__ inline const DeviceModel& model() const { return model_; }
  __aicore__ inline const LayerWeights& weights() const { return weights_; }
  __aicore__ inline const LayerRows& all() const { return all_; }
  __aicore__ inline const LayerRows& outputs() const { return outputs_; }

  // --- rows in and out

  __aicore__ inline void EmbedRows() {
    EmbedArgs args = {};
    args.tokens = Pointer(d_.tokens);
    args.slot_tokens = Pointer(model_.slot_tokens);
    args.table = Pointer(model_.embedding);
    args.out = Pointer(memory_.hidden);
    args.rows = d_.rows.rows;
    args.width = model_.hidden;
    Embed(pipe_, team_, args);
  }

  // Between quanta each pass has its rows at its own place; within one they lie together, so that
  // multiplications see one batch.
  __aicore__ inline void MoveRows(const PassEntry& pass, bool save) {
    const int64_t row_bytes = static_cast<int64_t>(model_.hidden) * sizeof(float);
    GM_ADDR own = Pointer(model_.passes) + pass.pass * model_.pass_rows * row_bytes;
    GM_ADDR together = Pointer(memory_.hidden) + pass.first_row * row_bytes;
    CopyRowsArgs args = {};
    args.in = save ? together : own;
    args.out = save ? own : together;
    args.rows = pass.rows;
    args.width = model_.hidden;
    CopyRows(pipe_, team_, args);
  }

  // The rows that reach the head, out of all of them.
  __aicore__ inline void KeepOutputs() {
    CopyRowsArgs args = {};
    args.in = Pointer(all_.hidden);
    args.from = Pointer(d_.output_rows);
    args.out = Pointer(outputs_.hidden);
    args.rows = outputs_.tables.rows;
    args.width = model_.hidden;
    CopyRows(pipe_, team_, args);
  }

  // --- vector

  // What the last multiplication left to be added, and the norm, if there are weights.
  __aicore__ inline void Norm(const LayerRows& rows, GmAddress weights) {
    AddNormArgs args = {};
    args.hidden = Pointer(rows.hidden);
    args.update = updates_ ? Pointer(memory_.update) : nullptr;
    args.bias = updates_ ? Pointer(bias_) : nullptr;
    args.weights = Pointer(weights);
    args.normed = Pointer(rows.normed);
    args.rows = rows.tables.rows;
    args.width = model_.hidden;
    args.update_stride = model_.hidden;
    args.normed_stride = model_.hidden;
    args.eps = model_.rms_eps;
    AddNorm(pipe_, team_, args);
    updates_ = false;
  }

  __aicore__ inline void ClearFreshBlocks() {
    if (d_.fresh_blocks == 0) return;
    ClearBlocksArgs args = {};
    args.kv = Pool();
    args.blocks = Pointer(d_.fresh);
    args.count = d_.fresh_blocks;
    args.kv_heads = model_.kv_heads;
    args.head_dim = model_.head_dim;
    ClearBlocks(pipe_, team_, args);
  }

  // Queries for attention, keys and values into the cache, or either.
  __aicore__ inline void Store(const LayerRows& rows, bool queries, bool keys) {
    RotaryStoreArgs args = {};
    const int32_t skipped = queries ? 0 : QueryWidth();
    args.qkv = Pointer(memory_.qkv + skipped * sizeof(float));
    if (weights_.qkv.bias != 0) args.bias = Pointer(weights_.qkv.bias + skipped * sizeof(float));
    args.q_norm = Pointer(weights_.query_norm);
    args.k_norm = Pointer(weights_.key_norm);
    args.cos = Pointer(model_.rope_cos);
    args.sin = Pointer(model_.rope_sin);
    args.positions = Pointer(rows.tables.positions);
    args.places = Pointer(rows.tables.kv_rows);
    args.queries = Pointer(memory_.queries);
    args.kv = Pool();
    args.rows = rows.tables.rows;
    args.heads = queries ? model_.heads : 0;
    args.kv_heads = keys ? model_.kv_heads : 0;
    args.head_dim = model_.head_dim;
    args.rope_dims = model_.rope_dims;
    args.stride = QkvWidth();
    args.q_stride = QueryWidth();
    args.eps = model_.rms_eps;
    RotaryStore(pipe_, team_, args);
  }

  __aicore__ inline void Activate(const LayerRows& rows) {
    SwiGluArgs args = {};
    args.gate_up = Pointer(memory_.gate_up);
    args.bias = Pointer(weights_.gate_up.bias);
    args.out = Pointer(memory_.ffn);
    args.rows = rows.tables.rows;
    args.width = model_.ffn;
    args.in_stride = 2 * model_.ffn;
    args.out_stride = model_.ffn;
    SwiGlu<half>(pipe_, team_, args);
  }

  __aicore__ inline void SampleRows() {
    SampleArgs args = {};
    args.logits = Pointer(memory_.logits);
    args.params = Pointer(d_.samples);
    args.results = Pointer(d_.results);
    args.slot_tokens = Pointer(model_.slot_tokens);
    args.rows = d_.head_rows;
    args.vocab = model_.vocab;
    args.stride = model_.vocab;
    Sample(pipe_, team_, args);
  }

  // --- attention

  __aicore__ inline void AttendPrompts(const LayerRows& rows) {
    AttentionArgs args = Attention(rows);
    args.segment_count = rows.tables.prefill_segments;
    PrefillAttention(pipe_, team_, args);
  }
  __aicore__ inline void AttendStreams(const LayerRows& rows) {
    DecodeAttention(pipe_, team_, StreamsAttention(rows));
  }
  __aicore__ inline void MergeStreams(const LayerRows& rows) {
    DecodeAttentionMerge(pipe_, team_, StreamsAttention(rows));
  }

  // --- cube

  __aicore__ inline void Qkv() {
    Multiply<float>(weights_.qkv, all_.normed, model_.hidden, memory_.qkv, QkvWidth(),
                    all_.tables.rows);
  }
  __aicore__ inline void Keys() {
    const GmAddress keys = memory_.qkv + QueryWidth() * sizeof(float);
    Multiply<float>(weights_.keys, all_.normed, model_.hidden, keys, QkvWidth(), all_.tables.rows);
  }
  __aicore__ inline void Queries() {
    Multiply<float>(weights_.queries, outputs_.normed, model_.hidden, memory_.qkv, QkvWidth(),
                    outputs_.tables.rows);
  }
  __aicore__ inline void AttentionOut(const LayerRows& rows) {
    Multiply<float>(weights_.out, memory_.attention, QueryWidth(), memory_.update, model_.hidden,
                    rows.tables.rows);
    Adds(weights_.out.bias);
  }
  __aicore__ inline void GateUp(const LayerRows& rows) {
    Multiply<half>(weights_.gate_up, rows.normed, model_.hidden, memory_.gate_up, 2 * model_.ffn,
                   rows.tables.rows);
  }
  __aicore__ inline void Down(const LayerRows& rows) {
    Multiply<float>(weights_.down, memory_.ffn, model_.ffn, memory_.update, model_.hidden,
                    rows.tables.rows);
    Adds(weights_.down.bias);
  }
  __aicore__ inline void Head() {
    const GmAddress in =
        outputs_.normed + static_cast<GmAddress>(d_.head_begin) * model_.hidden * sizeof(half);
    Multiply<float>(model_.head, in, model_.hidden, memory_.logits, model_.vocab, d_.head_rows);
  }
  // The first weights of the next multiplication; only vector operators may lie between.
  __aicore__ inline void Prefetch(const MatrixWeights& next, int32_t rows) {
    if (next.scales == 0 && rows > 0) {
      PrefetchWeights(pipe_, team_, Multiplication(next, rows), ahead_);
    }
  }

 private:
  __aicore__ inline int32_t QueryWidth() const { return model_.heads * model_.head_dim; }
  __aicore__ inline int32_t QkvWidth() const {
    return (model_.heads + 2 * model_.kv_heads) * model_.head_dim;
  }
  __aicore__ inline GM_ADDR Pool() const {
    return Pointer(model_.kv_pool) + layer_ * model_.kv_layer_bytes;
  }

  // The next norm adds memory_.update, and this bias, to the residual stream.
  __aicore__ inline void Adds(GmAddress bias) {
    updates_ = true;
    bias_ = bias;
  }

  __aicore__ inline AttentionArgs Attention(const LayerRows& rows) const {
    AttentionArgs args = {};
    args.queries = Pointer(memory_.queries);
    args.kv = Pool();
    args.out = Pointer(memory_.attention);
    args.segments = Pointer(rows.tables.segments);
    args.block_tables = Pointer(d_.block_table);
    args.partials = Pointer(memory_.partials);
    args.workspace = Pointer(memory_.scratch);
    args.heads = model_.heads;
    args.kv_heads = model_.kv_heads;
    args.head_dim = model_.head_dim;
    args.q_stride = QueryWidth();
    args.out_stride = QueryWidth();
    args.scale = model_.attention_scale;
    return args;
  }
  __aicore__ inline AttentionArgs StreamsAttention(const LayerRows& rows) const {
    AttentionArgs args = Attention(rows);
    args.segments += rows.tables.prefill_segments * sizeof(AttentionSegment);
    args.segment_count = rows.tables.decode_segments;
    return args;
  }

  __aicore__ inline MatmulArgs Multiplication(const MatrixWeights& matrix, int32_t rows) const {
    MatmulArgs args = {};
    args.weights = Pointer(matrix.weights);
    args.scales = Pointer(matrix.scales);
    args.workspace = Pointer(memory_.matmul);
    args.rows = rows;
    args.inputs = matrix.inputs;
    args.outputs = matrix.outputs;
    return args;
  }

  template <class Out>
  __aicore__ inline void Multiply(const MatrixWeights& matrix, GmAddress in, int32_t in_stride,
                                  GmAddress out, int32_t out_stride, int32_t rows) {
    MatmulArgs args = Multiplication(matrix, rows);
    args.in = Pointer(in);
    args.out = Pointer(out);
    args.in_stride = in_stride;
    args.out_stride = out_stride;
    if (matrix.scales != 0) {
      MatmulInt8<Out>(pipe_, team_, args);
    } else {
      Matmul<Out>(pipe_, team_, args, &ahead_);
    }
  }

  AscendC::TPipe& pipe_;
  DeviceModel model_ = {};
  LayerWeights weights_ = {};
  LayerWeights next_weights_ = {};
  Workspace memory_ = {};
  Descriptor d_ = {};
  Team team_ = {};
  WeightsAhead ahead_ = {};
  LayerRows all_ = {};
  LayerRows outputs_ = {};
  int32_t layer_ = 0;
  int32_t next_ = 0;  // the layer of next_weights_, if it is another
  bool updates_ = false;
  GmAddress bias_ = 0;
};

}  // namespace weft_ascend
