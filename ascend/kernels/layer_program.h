#pragma once
// LayerProgram: one quantum through its layers, as a sequence of operators with a team's barrier
// between each two.
//
// A layer:
//    normed = rms_norm(hidden += update)              vector  and fresh KV blocks are zeroed
//    qkv = normed x W                                 cube
//    (wait for the passes that this one follows)
//    queries, and keys and values into the cache      vector  head norm, rotation
//    attention of prompts, of streams, its merge      both
//    (send the layer)
//    update = attention x W                           cube
//    normed = rms_norm(hidden += update)              vector
//    gate_up = normed x W                             cube
//    ffn = silu(gate) * up                            vector
//    update = ffn x W                                 cube
// In the last layer rows that do not reach the head have their keys and values stored and are then
// left out.

#include <cstdint>

#include "attention.h"
#include "embedding.h"
#include "matmul.h"
#include "matmul_int8.h"
#include "norm.h"
#include "program.h"
#include "rotary_store.h"
#include "sample.h"
#include "swiglu.h"

namespace weft_ascend {

static_assert(MatmulInt8WorkspaceBytes(1) == kInt8BlockBytes, "the host takes as much");

class LayerProgram {
 public:
  __aicore__ inline LayerProgram(AscendC::TPipe& pipe, Program& program)
      : pipe_(pipe), program_(program) {
    ReadStruct(Pointer(program.launch().model), model_);
  }

  // The part of a team in a quantum that is not wanted any more.
  __aicore__ inline bool Skip(int32_t team) {
    kind_ = team;
    program_.At(kInEnd, 0);
    return Sync(Work::kVector);
  }

  // False: the launch is lost.
  __aicore__ inline bool Run(GM_ADDR descriptor) {
    ReadStruct(descriptor, d_);
    kind_ = d_.team;
    team_ = program_.TeamOf(kind_);
    ReadStruct(
        Pointer(program_.launch().workspaces) + (kind_ == kTeamDecode ? 1 : 0) * sizeof(Workspace),
        memory_);
    all_ = {d_.rows, memory_.hidden, memory_.normed};
    outputs_ =
        d_.all_output != 0 ? all_ : Rows{d_.outputs, memory_.output_hidden, memory_.output_normed};
    updates_ = false;
    program_.StartClock();
    if (d_.layer_begin < d_.layer_end && !RunLayers()) return false;
    if (d_.head_rows > 0 && !Head()) return false;
    program_.At(kInEnd, d_.layer_end);
    program_.Report();
    return Sync(Work::kVector);
  }

 private:
  // Rows that a layer works on, and where they lie.
  struct Rows {
    RowTables tables;
    GmAddress hidden;
    GmAddress normed;
  };

  __aicore__ inline bool RunLayers() {
    ReadLayer(d_.layer_begin);
    if (!BeginRows()) return false;
    for (int32_t layer = d_.layer_begin; layer < d_.layer_end; ++layer) {
      if (!RunLayer(layer)) return false;
      program_.LayerEnded();
    }
    return d_.layer_end == model_.layers ? FinalNorm() : LeaveRows();
  }

  // --- hidden states between quanta

  __aicore__ inline bool BeginRows() {
    if (d_.layer_begin == 0) {
      program_.At(kInEmbedding, 0);
      EmbedArgs args = {};
      args.tokens = Pointer(d_.tokens);
      args.slot_tokens = Pointer(model_.slot_tokens);
      args.table = Pointer(model_.embedding);
      args.out = Pointer(memory_.hidden);
      args.rows = d_.rows.rows;
      args.width = model_.hidden;
      Embed(pipe_, team_, args);
    } else {
      program_.At(kInRows, d_.layer_begin);
      MoveRows(false);
    }
    return SyncAhead(Work::kVector, FirstWeights(d_.layer_begin), all_.tables.rows);
  }

  __aicore__ inline bool LeaveRows() {
    program_.At(kInRows, d_.layer_end);
    AddNormArgs add = Norm(all_, 0);
    AddNorm(pipe_, team_, add);
    if (!Sync(Work::kVector)) return false;
    MoveRows(true);
    return Sync(Work::kVector);
  }

  // Between quanta each pass has its rows at its own place; within one they lie together, so that
  // multiplications see one batch.
  __aicore__ inline void MoveRows(bool save) {
    const int64_t row_bytes = static_cast<int64_t>(model_.hidden) * sizeof(float);
    for (int32_t i = 0; i < d_.passes; ++i) {
      const PassEntry pass = Pass(i);
      GM_ADDR own = Pointer(model_.passes) + pass.pass * model_.pass_rows * row_bytes;
      GM_ADDR together = Pointer(memory_.hidden) + pass.first_row * row_bytes;
      CopyRowsArgs args = {};
      args.in = save ? together : own;
      args.out = save ? own : together;
      args.rows = pass.rows;
      args.width = model_.hidden;
      CopyRows(pipe_, team_, args);
    }
  }

  __aicore__ inline PassEntry Pass(int32_t index) const {
    PassEntry pass = {};
    ReadStruct(Pointer(d_.pass_table) + index * sizeof(PassEntry), pass);
    return pass;
  }

  // --- a layer

  __aicore__ inline void ReadLayer(int32_t layer) {
    ReadStruct(Pointer(model_.layer_weights) + layer * sizeof(LayerWeights), weights_);
  }

  __aicore__ inline bool RunLayer(int32_t layer) {
    layer_ = layer;
    if (!AttentionNorm()) return false;
    if (!(KeysOnly(layer) ? KeysOfAllRows() : QueriesAndKeys())) return false;
    const Rows& rows = KeysOnly(layer) ? outputs_ : all_;
    if (rows.tables.rows > 0 && !Attend(rows)) return false;
    SendLayer();
    if (rows.tables.rows == 0) return true;
    return AttentionOut(rows) && FeedForward(rows);
  }

  __aicore__ inline bool AttentionNorm() {
    program_.At(kInAttentionNorm, layer_);
    if (d_.fresh_blocks > 0) {
      ClearBlocksArgs clear = {};
      clear.kv = Pool();
      clear.blocks = Pointer(d_.fresh);
      clear.count = d_.fresh_blocks;
      clear.kv_heads = model_.kv_heads;
      clear.head_dim = model_.head_dim;
      ClearBlocks(pipe_, team_, clear);
    }
    AddNorm(pipe_, team_, Norm(all_, weights_.attention_norm));
    updates_ = false;
    return Sync(Work::kVector);
  }

  // In the last layer not all rows need queries.
  __aicore__ inline bool KeysOnly(int32_t layer) const {
    return layer + 1 == model_.layers && d_.all_output == 0;
  }
  __aicore__ inline const MatrixWeights& FirstWeights(int32_t layer) const {
    return KeysOnly(layer) ? weights_.keys : weights_.qkv;
  }

  __aicore__ inline bool QueriesAndKeys() {
    program_.At(kInQkv, layer_);
    Multiply<float>(weights_.qkv, all_.normed, model_.hidden, memory_.qkv, QkvWidth(),
                    all_.tables.rows);
    if (!Sync(Work::kCube) || !AwaitSenders()) return false;
    program_.At(kInStore, layer_);
    RotaryStore(pipe_, team_, Rotary(all_, true, true));
    return Sync(Work::kVector);
  }

  // Keys and values of all rows; then the rows that reach the head go on alone, with queries.
  __aicore__ inline bool KeysOfAllRows() {
    program_.At(kInQkv, layer_);
    const GmAddress keys = memory_.qkv + QueryWidth() * sizeof(float);
    Multiply<float>(weights_.keys, all_.normed, model_.hidden, keys, QkvWidth(), all_.tables.rows);
    if (!Sync(Work::kCube) || !AwaitSenders()) return false;
    program_.At(kInStore, layer_);
    RotaryStore(pipe_, team_, Rotary(all_, false, true));
    if (!Sync(Work::kVector)) return false;
    if (outputs_.tables.rows == 0) return true;
    program_.At(kInOutputs, layer_);
    CopyRowsArgs kept = {};
    kept.in = Pointer(all_.hidden);
    kept.from = Pointer(d_.output_rows);
    kept.out = Pointer(outputs_.hidden);
    kept.rows = outputs_.tables.rows;
    kept.width = model_.hidden;
    CopyRows(pipe_, team_, kept);
    if (!Sync(Work::kVector)) return false;
    AddNorm(pipe_, team_, Norm(outputs_, weights_.attention_norm));
    if (!Sync(Work::kVector)) return false;
    Multiply<float>(weights_.queries, outputs_.normed, model_.hidden, memory_.qkv, QkvWidth(),
                    outputs_.tables.rows);
    if (!Sync(Work::kCube)) return false;
    RotaryStore(pipe_, team_, Rotary(outputs_, true, false));
    return Sync(Work::kVector);
  }

  // Attention reads whole blocks: who writes into a block of another pass waits until that one has
  // read it in this layer.
  __aicore__ inline bool AwaitSenders() {
    program_.At(kInBoard, layer_);
    for (int32_t i = 0; i < d_.passes; ++i) {
      const PassEntry pass = Pass(i);
      if (pass.follows < 0) continue;
      PipeLine line(Pointer(program_.launch().boards), pass.follows, pass.follows_base,
                    program_.launch().spin_cap);
      if (!program_.Went(line.Wait(layer_), kSendLost)) return false;
    }
    return true;
  }

  // All of the team have passed the barrier after the layer's attention.
  __aicore__ inline void SendLayer() {
    if (!program_.Leads(kind_)) return;
    for (int32_t i = 0; i < d_.passes; ++i) {
      const PassEntry pass = Pass(i);
      if (pass.sends < 0) continue;
      PipeLine line(Pointer(program_.launch().boards), pass.sends, pass.sends_base,
                    program_.launch().spin_cap);
      line.Send(layer_, pass.sends);
    }
  }

  __aicore__ inline bool Attend(const Rows& rows) {
    program_.At(kInAttention, layer_);
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
    if (rows.tables.prefill_segments > 0) {
      args.segment_count = rows.tables.prefill_segments;
      PrefillAttention(pipe_, team_, args);
      const bool ends = rows.tables.decode_segments == 0;
      if (ends && !SyncAhead(Work::kBoth, weights_.out, rows.tables.rows)) return false;
      if (!ends && !Sync(Work::kBoth)) return false;
    }
    if (rows.tables.decode_segments > 0) {
      args.segments += rows.tables.prefill_segments * sizeof(AttentionSegment);
      args.segment_count = rows.tables.decode_segments;
      DecodeAttention(pipe_, team_, args);
      if (!SyncAhead(Work::kBoth, weights_.out, rows.tables.rows)) return false;
      program_.At(kInMerge, layer_);
      DecodeAttentionMerge(pipe_, team_, args);
      if (!Sync(Work::kVector)) return false;
    }
    return true;
  }

  __aicore__ inline bool AttentionOut(const Rows& rows) {
    program_.At(kInAttentionOut, layer_);
    Multiply<float>(weights_.out, memory_.attention, QueryWidth(), memory_.update, model_.hidden,
                    rows.tables.rows);
    if (!SyncAhead(Work::kCube, weights_.gate_up, rows.tables.rows)) return false;
    Adds(weights_.out.bias);
    program_.At(kInFfnNorm, layer_);
    AddNorm(pipe_, team_, Norm(rows, weights_.ffn_norm));
    updates_ = false;
    return Sync(Work::kVector);
  }

  __aicore__ inline bool FeedForward(const Rows& rows) {
    program_.At(kInGateUp, layer_);
    Multiply<half>(weights_.gate_up, rows.normed, model_.hidden, memory_.gate_up, 2 * model_.ffn,
                   rows.tables.rows);
    if (!SyncAhead(Work::kCube, weights_.down, rows.tables.rows)) return false;
    program_.At(kInSwiGlu, layer_);
    SwiGluArgs swiglu = {};
    swiglu.gate_up = Pointer(memory_.gate_up);
    swiglu.bias = Pointer(weights_.gate_up.bias);
    swiglu.out = Pointer(memory_.ffn);
    swiglu.rows = rows.tables.rows;
    swiglu.width = model_.ffn;
    swiglu.in_stride = 2 * model_.ffn;
    swiglu.out_stride = model_.ffn;
    SwiGlu<half>(pipe_, team_, swiglu);
    if (!Sync(Work::kVector)) return false;
    program_.At(kInDown, layer_);
    Multiply<float>(weights_.down, memory_.ffn, model_.ffn, memory_.update, model_.hidden,
                    rows.tables.rows);
    Adds(weights_.down.bias);
    // The next layer's first weights come while this one ends.
    if (layer_ + 1 < d_.layer_end) {
      ReadLayer(layer_ + 1);
      return SyncAhead(Work::kCube, FirstWeights(layer_ + 1), all_.tables.rows);
    }
    if (d_.head_rows > 0) return SyncAhead(Work::kCube, model_.head, d_.head_rows);
    return Sync(Work::kCube);
  }

  // --- after the last layer

  __aicore__ inline bool FinalNorm() {
    if (outputs_.tables.rows == 0) return true;
    program_.At(kInFinalNorm, layer_);
    AddNorm(pipe_, team_, Norm(outputs_, model_.final_norm));
    updates_ = false;
    return Sync(Work::kVector);
  }

  __aicore__ inline bool Head() {
    program_.At(kInHead, model_.layers);
    const GmAddress in =
        outputs_.normed + static_cast<GmAddress>(d_.head_begin) * model_.hidden * sizeof(half);
    Multiply<float>(model_.head, in, model_.hidden, memory_.logits, model_.vocab, d_.head_rows);
    if (!Sync(Work::kCube)) return false;
    if (d_.samples_here == 0) return true;
    program_.At(kInSample, model_.layers);
    SampleArgs sample = {};
    sample.logits = Pointer(memory_.logits);
    sample.params = Pointer(d_.samples);
    sample.results = Pointer(d_.results);
    sample.slot_tokens = Pointer(model_.slot_tokens);
    sample.rows = d_.head_rows;
    sample.vocab = model_.vocab;
    sample.stride = model_.vocab;
    Sample(pipe_, team_, sample);
    return Sync(Work::kVector);
  }

  // --- operators' arguments

  __aicore__ inline int32_t QueryWidth() const { return model_.heads * model_.head_dim; }
  __aicore__ inline int32_t QkvWidth() const {
    return (model_.heads + 2 * model_.kv_heads) * model_.head_dim;
  }
  __aicore__ inline GM_ADDR Pool() const {
    return Pointer(model_.kv_pool) + layer_ * model_.kv_layer_bytes;
  }

  __aicore__ inline RotaryStoreArgs Rotary(const Rows& rows, bool queries, bool keys) const {
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
    return args;
  }

  // The next norm adds memory_.update, and this bias, to the residual stream.
  __aicore__ inline void Adds(GmAddress bias) {
    updates_ = true;
    bias_ = bias;
  }

  __aicore__ inline AddNormArgs Norm(const Rows& rows, GmAddress weights) const {
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

  // The barrier after an operator.
  __aicore__ inline bool Sync(Work work) {
    program_.Arrive(kind_, work);
    return program_.Leave(kind_, work);
  }

  // The same, and while this block waits its cube core fetches the first weights of the next
  // multiplication. Only vector operators may lie between.
  __aicore__ inline bool SyncAhead(Work work, const MatrixWeights& next, int32_t rows) {
    program_.Arrive(kind_, work);
    if (next.scales == 0 && rows > 0) {
      PrefetchWeights(pipe_, team_, Multiplication(next, rows), ahead_);
    }
    return program_.Leave(kind_, work);
  }

  AscendC::TPipe& pipe_;
  Program& program_;
  DeviceModel model_ = {};
  LayerWeights weights_ = {};
  Workspace memory_ = {};
  Descriptor d_ = {};
  Team team_ = {};
  WeightsAhead ahead_ = {};
  Rows all_ = {};
  Rows outputs_ = {};
  int32_t kind_ = 0;
  int32_t layer_ = 0;
  bool updates_ = false;
  GmAddress bias_ = 0;
};

}  // namespace weft_ascend
