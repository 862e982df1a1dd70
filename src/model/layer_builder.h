#pragma once
// LayerBuilder: what an architecture's file is written with. Each function finds the weights of one
// operation in the checkpoint, checks their shape and type, and returns the operation.

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "model/model.h"

namespace weft {

enum class Bias : uint8_t { kNone, kOptional, kRequired };

// One matrix of a linear operation: "<name>.weight" [outputs, width of the operation's input], and
// perhaps "<name>.bias" [outputs].
struct Projection {
  std::string_view name;
  int outputs;
  Bias bias = Bias::kNone;
};

// The first thing that is wrong is kept in status(); what is returned after that means nothing.
// Names are those inside a layer ("attn_q"); the builder adds "blk.<layer>.".
class LayerBuilder {
 public:
  LayerBuilder(const Checkpoint& checkpoint, Model& model)
      : checkpoint_(checkpoint), model_(model) {}

  void begin_layer(int layer) { prefix_ = "blk." + std::to_string(layer) + "."; }
  const ModelConfig& config() const { return model_.config; }
  int query_width() const { return config().heads * config().head_dim; }
  int kv_width() const { return config().kv_heads * config().head_dim; }

  Op rms_norm(std::string_view name);                                    // hidden -> normed
  Op qkv(std::initializer_list<Projection> projections);                 // normed -> qkv
  Op head_norm(std::string_view query_name, std::string_view key_name);  // on qkv
  Op rope();                                                             // on qkv
  Op store_kv();                                                         // from qkv
  Op attention();                                                        // qkv -> attention
  Op attention_output(std::string_view name, Bias bias);                 // hidden += attention x W
  Op gate_up(std::string_view gate, std::string_view up, Bias bias);     // normed -> gate, up
  Op swiglu();                                                           // gate, up -> ffn
  Op ffn_output(std::string_view name, Bias bias);                       // hidden += ffn x W
  Op router(std::string_view name);                                      // normed -> router
  // normed, router -> hidden += what the row's experts give; the names of [experts, ...] tensors
  Op experts(std::string_view gate, std::string_view up, std::string_view down);

  // A weight matrix in any type, one for each expert, or a vector (norm, bias) in a plain one.
  WeightId matrix(const std::string& name, int64_t outputs, int64_t inputs);
  WeightId expert_matrices(const std::string& name, int64_t outputs, int64_t inputs);
  WeightId vector(const std::string& name, int64_t elements);
  bool has(const std::string& name) const { return checkpoint_.find(prefix_ + name) != nullptr; }

  Status status() const { return status_; }
  // kUnsupported, by name, if the checkpoint holds a tensor that nothing above asked for.
  Status check_all_used() const;

 private:
  Op linear(Stream in, Stream out, bool add, std::span<const Projection> projections);
  WeightId find(const std::string& name, const Shape& expected);
  void fail(ErrorKind kind, std::string message);

  const Checkpoint& checkpoint_;
  Model& model_;
  std::string prefix_;
  std::unordered_set<std::string> used_;
  Status status_;
};

}  // namespace weft
