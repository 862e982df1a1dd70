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

#include "layer_operators.h"
#include "program.h"

namespace weft_ascend {

class LayerProgram {
 public:
  __aicore__ inline LayerProgram(AscendC::TPipe& pipe, Program& program)
      : program_(program), ops_(pipe, Pointer(program.launch().model)) {}

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
    const int32_t workspace = kind_ == kTeamDecode ? 1 : 0;
    ops_.Begin(d_, Pointer(program_.launch().workspaces) + workspace * sizeof(Workspace),
               program_.TeamOf(kind_));
    LookAtPasses();
    program_.StartClock();
    if (d_.layer_begin < d_.layer_end && !RunLayers()) return false;
    if (d_.head_rows > 0 && !Head()) return false;
    program_.At(kInEnd, d_.layer_end);
    program_.Report();
    return Sync(Work::kVector);
  }

  // Of a quantum that is lost: nobody is left waiting for a layer of it.
  __aicore__ inline void AbortSends(GM_ADDR descriptor, int32_t team) {
    if (!program_.Leads(team)) return;
    ReadStruct(descriptor, d_);
    for (int32_t i = 0; i < d_.passes; ++i) {
      const PassEntry pass = Pass(i);
      if (pass.sends >= 0) Board(pass.sends, pass.sends_base).Abort(pass.sends);
    }
  }

 private:
  __aicore__ inline bool RunLayers() {
    ops_.ReadLayer(d_.layer_begin);
    if (!BeginRows()) return false;
    for (int32_t layer = d_.layer_begin; layer < d_.layer_end; ++layer) {
      if (!RunLayer(layer)) return false;
      program_.LayerEnded();
    }
    return d_.layer_end == ops_.model().layers ? FinalNorm() : LeaveRows();
  }

  // --- hidden states between quanta

  __aicore__ inline bool BeginRows() {
    if (d_.layer_begin == 0) {
      program_.At(kInEmbedding, 0);
      ops_.EmbedRows();
    } else {
      program_.At(kInRows, d_.layer_begin);
      MoveRows(false);
    }
    return SyncAhead(Work::kVector, FirstWeights(d_.layer_begin), ops_.all());
  }

  __aicore__ inline bool LeaveRows() {
    program_.At(kInRows, d_.layer_end);
    ops_.Norm(ops_.all(), 0);
    if (!Sync(Work::kVector)) return false;
    MoveRows(true);
    return Sync(Work::kVector);
  }

  __aicore__ inline void MoveRows(bool save) {
    for (int32_t i = 0; i < d_.passes; ++i) ops_.MoveRows(Pass(i), save);
  }

  __aicore__ inline PassEntry Pass(int32_t index) const {
    PassEntry pass = {};
    ReadStruct(Pointer(d_.pass_table) + index * sizeof(PassEntry), pass);
    return pass;
  }

  __aicore__ inline void LookAtPasses() {
    follows_ = sends_ = false;
    for (int32_t i = 0; i < d_.passes; ++i) {
      const PassEntry pass = Pass(i);
      if (pass.follows >= 0) follows_ = true;
      if (pass.sends >= 0) sends_ = true;
    }
  }

  __aicore__ inline PipeLine Board(int32_t board, int64_t base) const {
    return PipeLine(Pointer(program_.launch().boards), board, base, program_.launch().spin_cap);
  }

  // --- a layer

  __aicore__ inline bool RunLayer(int32_t layer) {
    layer_ = layer;
    if (!AttentionNorm()) return false;
    if (!(KeysOnly(layer) ? KeysOfAllRows() : QueriesAndKeys())) return false;
    const LayerRows& rows = KeysOnly(layer) ? ops_.outputs() : ops_.all();
    if (rows.tables.rows > 0 && !Attend(rows)) return false;
    SendLayer();
    if (rows.tables.rows == 0) return true;
    return AttentionOut(rows) && FeedForward(rows);
  }

  __aicore__ inline bool AttentionNorm() {
    program_.At(kInAttentionNorm, layer_);
    ops_.ClearFreshBlocks();
    ops_.Norm(ops_.all(), ops_.weights().attention_norm);
    return Sync(Work::kVector);
  }

  // In the last layer not all rows need queries.
  __aicore__ inline bool KeysOnly(int32_t layer) const {
    return layer + 1 == ops_.model().layers && d_.all_output == 0;
  }
  __aicore__ inline const MatrixWeights& FirstWeights(int32_t layer) const {
    return KeysOnly(layer) ? ops_.weights().keys : ops_.weights().qkv;
  }

  __aicore__ inline bool QueriesAndKeys() {
    program_.At(kInQkv, layer_);
    ops_.Qkv();
    if (!Sync(Work::kCube) || !AwaitSenders()) return false;
    program_.At(kInStore, layer_);
    ops_.Store(ops_.all(), true, true);
    return Sync(Work::kVector);
  }

  // Keys and values of all rows; then the rows that reach the head go on alone, with queries.
  __aicore__ inline bool KeysOfAllRows() {
    program_.At(kInQkv, layer_);
    ops_.Keys();
    if (!Sync(Work::kCube) || !AwaitSenders()) return false;
    program_.At(kInStore, layer_);
    ops_.Store(ops_.all(), false, true);
    if (!Sync(Work::kVector)) return false;
    if (ops_.outputs().tables.rows == 0) return true;
    program_.At(kInOutputs, layer_);
    ops_.KeepOutputs();
    if (!Sync(Work::kVector)) return false;
    ops_.Norm(ops_.outputs(), ops_.weights().attention_norm);
    if (!Sync(Work::kVector)) return false;
    ops_.Queries();
    if (!Sync(Work::kCube)) return false;
    ops_.Store(ops_.outputs(), true, false);
    return Sync(Work::kVector);
  }

  // Attention reads whole blocks: who writes into a block of another pass waits until that one has
  // read it in this layer.
  __aicore__ inline bool AwaitSenders() {
    if (!follows_) return true;
    program_.At(kInBoard, layer_);
    for (int32_t i = 0; i < d_.passes; ++i) {
      const PassEntry pass = Pass(i);
      if (pass.follows < 0) continue;
      PipeLine line = Board(pass.follows, pass.follows_base);
      if (!program_.Went(line.Wait(layer_), kSendLost)) return false;
    }
    return true;
  }

  // All of the team have passed the barrier after the layer's attention.
  __aicore__ inline void SendLayer() {
    if (!sends_ || !program_.Leads(kind_)) return;
    for (int32_t i = 0; i < d_.passes; ++i) {
      const PassEntry pass = Pass(i);
      if (pass.sends >= 0) Board(pass.sends, pass.sends_base).Send(layer_, pass.sends);
    }
  }

  __aicore__ inline bool Attend(const LayerRows& rows) {
    program_.At(kInAttention, layer_);
    const bool streams = rows.tables.decode_segments > 0;
    if (rows.tables.prefill_segments > 0) {
      ops_.AttendPrompts(rows);
      if (!(streams ? Sync(Work::kBoth) : SyncAhead(Work::kBoth, ops_.weights().out, rows))) {
        return false;
      }
    }
    if (!streams) return true;
    ops_.AttendStreams(rows);
    if (!SyncAhead(Work::kBoth, ops_.weights().out, rows)) return false;
    program_.At(kInMerge, layer_);
    ops_.MergeStreams(rows);
    return Sync(Work::kVector);
  }

  __aicore__ inline bool AttentionOut(const LayerRows& rows) {
    program_.At(kInAttentionOut, layer_);
    ops_.AttentionOut(rows);
    if (!SyncAhead(Work::kCube, ops_.weights().gate_up, rows)) return false;
    program_.At(kInFfnNorm, layer_);
    ops_.Norm(rows, ops_.weights().ffn_norm);
    return Sync(Work::kVector);
  }

  __aicore__ inline bool FeedForward(const LayerRows& rows) {
    program_.At(kInGateUp, layer_);
    ops_.GateUp(rows);
    if (!SyncAhead(Work::kCube, ops_.weights().down, rows)) return false;
    program_.At(kInSwiGlu, layer_);
    ops_.Activate(rows);
    if (!Sync(Work::kVector)) return false;
    program_.At(kInDown, layer_);
    ops_.Down(rows);
    // The next layer's first weights come while this one ends.
    if (layer_ + 1 < d_.layer_end) {
      ops_.EnterNextLayer();
      return SyncAhead(Work::kCube, FirstWeights(layer_ + 1), ops_.all());
    }
    program_.Arrive(kind_, Work::kCube);
    ops_.Prefetch(ops_.model().head, d_.head_rows);
    return program_.Leave(kind_, Work::kCube);
  }

  // --- after the last layer

  __aicore__ inline bool FinalNorm() {
    if (ops_.outputs().tables.rows == 0) return true;
    program_.At(kInFinalNorm, layer_);
    ops_.Norm(ops_.outputs(), ops_.model().final_norm);
    return Sync(Work::kVector);
  }

  __aicore__ inline bool Head() {
    program_.At(kInHead, ops_.model().layers);
    ops_.Head();
    if (!Sync(Work::kCube)) return false;
    if (d_.samples_here == 0) return true;
    program_.At(kInSample, ops_.model().layers);
    ops_.SampleRows();
    return Sync(Work::kVector);
  }

  // Programs that have no part in an operator read what the next layer needs while others work.
  __aicore__ inline void ReadAhead(Work work) {
    const bool cube = ProgramOfBlock() == 0;
    if (work == (cube ? Work::kVector : Work::kCube)) ops_.ReadNextLayer();
  }

  // The barrier after an operator.
  __aicore__ inline bool Sync(Work work) {
    program_.Arrive(kind_, work);
    ReadAhead(work);
    return program_.Leave(kind_, work);
  }

  // The same, and while this block waits its cube core fetches the first weights of the next
  // multiplication, of these rows. Only vector operators may lie between.
  __aicore__ inline bool SyncAhead(Work work, const MatrixWeights& next, const LayerRows& rows) {
    program_.Arrive(kind_, work);
    ops_.Prefetch(next, rows.tables.rows);
    ReadAhead(work);
    return program_.Leave(kind_, work);
  }

  Program& program_;
  LayerOperators ops_;
  Descriptor d_ = {};
  int32_t kind_ = 0;
  int32_t layer_ = 0;
  bool follows_ = false;  // whether any pass does, or sends
  bool sends_ = false;
};

}  // namespace weft_ascend
