#pragma once
// What the host hands to the resident kernel: plain structs in global memory. Plain C++: both
// include this file. Every struct is made of whole words, so that a kernel can read it word by
// word.

#include <cstdint>

#include "attention_shapes.h"
#include "sample_row.h"
#include "shapes.h"

namespace weft_ascend {

// Of global memory; 0: none.
using GmAddress = uint64_t;

// The groups of cores, as the engine knows them.
enum TeamKind : int32_t { kTeamAll = 0, kTeamPrefill = 1, kTeamDecode = 2 };
constexpr int32_t kTeamKinds = 3;
// Cores of the prompts' part of a launch, and those of the streams' part, which may be none. A
// quantum of all cores goes into the rings of both.
constexpr int32_t kRings = 2;

// A matrix [outputs, inputs] of weights in the cube's layout.
struct MatrixWeights {
  GmAddress weights;
  GmAddress scales;  // 0: half weights; otherwise int8 ones, a half for each 32 inputs
  GmAddress bias;    // float [outputs]; 0: none
  int32_t inputs;
  int32_t outputs;
};

// A layer is: hidden += out x attention(rope(qkv x norm(hidden))); hidden += down x
// swiglu(gate_up x norm(hidden)).
struct LayerWeights {
  GmAddress attention_norm;  // float [hidden]
  GmAddress query_norm;      // float [head_dim]; 0: heads are not normed
  GmAddress key_norm;
  GmAddress ffn_norm;     // float [hidden]
  MatrixWeights qkv;      // [(heads + 2 kv_heads) * head_dim, hidden]
  MatrixWeights queries;  // its first outputs, and
  MatrixWeights keys;     // its last ones, keys' and values': for rows that need only these
  MatrixWeights out;      // [hidden, heads * head_dim]
  MatrixWeights gate_up;  // [2 * ffn, hidden]
  MatrixWeights down;     // [hidden, ffn]
};

// What never changes while a model is loaded.
struct DeviceModel {
  int32_t layers;
  int32_t hidden;
  int32_t heads;
  int32_t kv_heads;
  int32_t head_dim;
  int32_t ffn;
  int32_t vocab;
  int32_t rope_dims;
  int32_t context;
  float rms_eps;
  float attention_scale;
  int32_t pass_rows;        // of a pass's place in `passes`
  GmAddress embedding;      // half [vocab, hidden]
  GmAddress final_norm;     // float [hidden]
  MatrixWeights head;       // [vocab, hidden]
  GmAddress layer_weights;  // LayerWeights [layers]
  GmAddress rope_cos;       // float [context, rope_dims / 2]
  GmAddress rope_sin;
  GmAddress kv_pool;  // [layers][blocks][kv heads][2][positions][head_dim] half
  int64_t kv_layer_bytes;
  GmAddress slot_tokens;  // int32 [slots, kSlotStride]: the last token of each
  GmAddress passes;  // hidden states of passes between quanta: float [passes, pass_rows, hidden]
};

// Memory of a group's quanta, by stream. All rows of a quantum lie together.
struct Workspace {
  GmAddress hidden;         // float [rows, hidden]
  GmAddress output_hidden;  // the same of rows that reach the head, where not all do
  GmAddress update;         // float [rows, hidden] what is added to hidden next
  GmAddress normed;         // half [rows, hidden]
  GmAddress output_normed;
  GmAddress qkv;        // float [rows, (heads + 2 kv_heads) * head_dim]
  GmAddress queries;    // half [rows, heads * head_dim]
  GmAddress attention;  // half [rows, heads * head_dim]
  GmAddress gate_up;    // half [rows, 2 * ffn]
  GmAddress ffn;        // half [rows, ffn]
  GmAddress logits;     // float [output_rows, vocab]
  GmAddress matmul;     // of the multiplications
  GmAddress partials;   // of attention
  GmAddress scratch;    // of attention
};

// Rows of a pass within the quantum, whose hidden state is kept between quanta.
struct PassEntry {
  int32_t pass;
  int32_t first_row;
  int32_t rows;
  int32_t sends;       // a board; -1: none
  int64_t sends_base;  // that this use of the board counts from
  int32_t follows;     // a board that another quantum sends to; -1: none
  int32_t reserved;
  int64_t follows_base;
};

enum Command : int32_t { kRunQuantum = 1, kEndEpoch = 2 };

// The tables of some rows. Those of prompts' segments come first.
struct RowTables {
  int32_t rows;
  int32_t prefill_segments;
  int32_t decode_segments;
  int32_t reserved;
  GmAddress positions;  // int32 [rows]
  GmAddress kv_rows;    // int32 [rows] block * kBlockPositions + position in it
  GmAddress segments;   // AttentionSegment [prefill_segments + decode_segments]
};

// One quantum: the rows of all its passes through layers [layer_begin, layer_end), and perhaps
// through the head. `wanted` is on a line of its own and read first, by one program of the team,
// which tells the others: whoever cleared it too late finds the quantum done.
struct Descriptor {
  int32_t wanted;
  int32_t unused[15];
  int32_t team;  // TeamKind
  int32_t layer_begin;
  int32_t layer_end;
  int32_t passes;        // entries of pass_table
  int32_t fresh_blocks;  // in which these rows are the first
  int32_t head_begin;    // of the rows that reach the head: those whose logits are made now
  int32_t head_rows;
  int32_t samples_here;  // some of these are drawn here
  int32_t all_output;    // every row reaches the head, in order
  RowTables rows;
  RowTables outputs;      // of the rows that reach the head, where not all do
  GmAddress tokens;       // int32 [rows]; -1 - slot: that slot's last token
  GmAddress pass_table;   // PassEntry [passes]
  GmAddress block_table;  // int32, of all segments
  GmAddress fresh;        // int32 [fresh_blocks]
  GmAddress output_rows;  // int32 [outputs.rows] index among the rows
  GmAddress samples;      // SampleRow [head_rows]
  GmAddress results;      // SampleResult [head_rows]
};

// An entry of a ring.
struct RingEntry {
  GmAddress descriptor;
  int32_t command;
  int32_t team;  // TeamKind
  int32_t unused[12];
};

// What the kernel is launched with; the one argument is its address.
struct Launch {
  int32_t blocks[kRings];  // of the launch: the first ones serve ring 0
  int32_t ring_entries;
  int32_t unused;
  int64_t epoch_quanta;  // of a ring; then the kernel ends
  int64_t spin_cap;
  GmAddress model;               // DeviceModel
  GmAddress workspaces;          // Workspace [kRings]: kTeamDecode has the second
  GmAddress ring_heads[kRings];  // a flag that the host writes: entries published
  GmAddress rings[kRings];       // RingEntry [ring_entries]
  GmAddress barriers[kTeamKinds];
  GmAddress decisions;  // a flag for each kind of team: quanta decided on, wanted or not
  GmAddress boards;     // a flag for each
  GmAddress progress;   // GroupProgress [kRings]
  GmAddress reports;    // ProgramReport for each program of each block
};

// What ended a launch early.
enum FaultCode : int32_t {
  kNoFault = 0,
  kTeamLost = 1,      // a program of the team did not come to a barrier within the spin cap
  kSendLost = 2,      // a layer that a pass follows was not sent within the spin cap
  kDecisionLost = 3,  // the team's first program did not say whether a quantum is wanted
  kPeerFailed = 4,    // another program of the launch has met an error
  kBadCommand = 5,    // a ring's entry holds neither a quantum nor the end
};

// Where a program was.
enum Place : int32_t {
  kInRing = 0,
  kInDecision,
  kInRows,
  kInEmbedding,
  kInAttentionNorm,
  kInQkv,
  kInBoard,
  kInStore,
  kInOutputs,
  kInAttention,
  kInMerge,
  kInAttentionOut,
  kInFfnNorm,
  kInGateUp,
  kInSwiGlu,
  kInDown,
  kInFinalNorm,
  kInHead,
  kInSample,
  kInEnd,
};

// What the host looks at while a quantum runs. Each a flag.
struct GroupProgress {
  int64_t quanta;  // done, of the ring
  int64_t unused0[63];
  int64_t layers;  // done
  int64_t unused1[63];
};

// Where the cycles of a program went, and what it ended with; on a line of its own.
struct ProgramReport {
  int32_t code;  // FaultCode
  int32_t place;
  int32_t layer;
  int32_t unused0;
  int64_t operator_cycles;  // of the epoch, up to the last quantum that it has ended
  int64_t barrier_cycles;
  int64_t unused1[4];  // to the end of the line
};

}  // namespace weft_ascend
