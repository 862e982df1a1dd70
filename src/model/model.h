#pragma once
// Model: what a checkpoint computes, as data. An architecture is a function that turns a
// ModelConfig into a list of operations (one short file each); a device runs the list without
// knowing the architecture.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "tensor/tensor.h"

namespace weft {

struct RopeConfig {
  float theta = 10000.0F;
  int dims = 0;              // rotated dimensions of a head
  float scale = 1.0F;        // linear scaling: every frequency is divided by it
  bool interleaved = false;  // rotary pairs are (2i, 2i + 1), as GGUF stores llama's Q and K
};

struct ModelConfig {
  std::string architecture;  // "llama"
  std::string name;          // general.name, may be empty
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int ffn = 0;
  int experts = 0;       // of a layer; 0: its feed-forward network is dense
  int experts_used = 0;  // by a row
  int expert_ffn = 0;
  int vocab = 0;
  int trained_context = 0;
  float rms_eps = 0;
  float attention_scale = 0;  // 1 / sqrt(head_dim)
  RopeConfig rope;
};

// Reads <architecture>.* keys. A key that changes the arithmetic and is not implemented is
// kUnsupported and named.
Result<ModelConfig> read_config(const Metadata& metadata, const Checkpoint& checkpoint);

// Index into Model::weights; kNone where an operation has no such weight.
enum class WeightId : int32_t { kNone = -1 };

struct Weight {
  std::string name;
  TensorView view;
};

// The buffers a row carries through a layer.
enum class Stream : uint8_t {
  kHidden,     // [hidden] the residual stream; the only one that lives from layer to layer
  kNormed,     // [hidden]
  kQkv,        // [heads * head_dim | kv_heads * head_dim | kv_heads * head_dim]
  kAttention,  // [heads * head_dim]
  kGateUp,     // [ffn | ffn]
  kFfn,        // [ffn]
  kRouter,     // [experts] what an expert is chosen by
};
inline constexpr size_t kStreams = 7;

enum class OpKind : uint8_t {
  kRmsNorm,    // out = rms_norm(in) * weights[0]
  kLinear,     // out = in x concat(weights)^T + concat(biases), or out += that
  kHeadNorm,   // in place on kQkv: each query head normed with weights[0], each key head with
               // weights[1]
  kRope,       // in place on kQkv: rotates query and key heads to the row's position
  kStoreKv,    // writes kQkv's keys and values to the cache
  kAttention,  // out = attention(queries of in, cache)
  kSwiGlu,     // out = silu(gate) * up
  kExperts,    // out += sum over the row's experts e of p[e] * down[e] x (silu(gate[e] x in) *
               // (up[e] x in)); weights: gate, up [experts, expert_ffn, hidden], down [experts,
               // hidden, expert_ffn]. The row's experts are the experts_used largest of kRouter, of
               // equal ones the first; p is the softmax over all, scaled so that theirs add up to 1
};

struct Op {
  OpKind kind;
  Stream in = Stream::kHidden;
  Stream out = Stream::kHidden;
  std::array<WeightId, 3> weights{WeightId::kNone, WeightId::kNone, WeightId::kNone};
  std::array<WeightId, 3> biases{WeightId::kNone, WeightId::kNone, WeightId::kNone};
  bool add = false;  // kLinear adds to `out` instead of replacing it
};

struct Model {
  ModelConfig config;
  std::vector<Weight> weights;
  std::vector<std::vector<Op>> layers;
  WeightId embedding = WeightId::kNone;
  WeightId final_norm = WeightId::kNone;
  WeightId head = WeightId::kNone;      // the embedding again where the file ties them
  std::vector<float> rope_frequencies;  // [rope.dims / 2] radians per position, rope_freqs applied

  const Weight& weight(WeightId id) const { return weights[static_cast<size_t>(id)]; }
  // Floats of a row in a stream.
  int width(Stream stream) const;
};

// Finds the architecture (llama, qwen2, qwen3, qwen3moe), reads its config, checks every weight's
// presence, shape and type. Views point into the checkpoint, which must outlive the model.
Result<Model> build_model(const Checkpoint& checkpoint);

}  // namespace weft
