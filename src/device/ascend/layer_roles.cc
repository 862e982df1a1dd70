#include "device/ascend/layer_roles.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "ascend/kernels/sample_row.h"
#include "ascend/kernels/shapes.h"

namespace weft {
namespace {

using weft_ascend::kFractal;
using weft_ascend::kMaxHeadDim;
using weft_ascend::kMaxHidden;
using weft_ascend::kMaxVocab;

Error unsupported(std::string message) { return {ErrorKind::kUnsupported, std::move(message)}; }

Status check_dimensions(const ModelConfig& config) {
  if (config.experts > 0) {
    return unsupported(
        fmt::format("{} experts a layer: the Ascend kernels run dense feed-forward networks only",
                    config.experts));
  }
  struct Dimension {
    std::string_view name;
    int value;
  };
  const Dimension all[] = {
      {"hidden size", config.hidden}, {"feed-forward size", config.ffn},
      {"head size", config.head_dim}, {"number of rotated dimensions", config.rope.dims},
      {"vocabulary", config.vocab},
  };
  for (const Dimension& d : all) {
    if (d.value % kFractal == 0) continue;
    return unsupported(fmt::format("a {} of {}: the Ascend kernels need a multiple of {}", d.name,
                                   d.value, kFractal));
  }
  if (config.hidden > kMaxHidden) {
    return unsupported(fmt::format("a hidden size of {}: the Ascend kernels go up to {}",
                                   config.hidden, kMaxHidden));
  }
  if (config.head_dim > kMaxHeadDim) {
    return unsupported(fmt::format("a head size of {}: the Ascend kernels go up to {}",
                                   config.head_dim, kMaxHeadDim));
  }
  if (config.vocab > kMaxVocab) {
    return unsupported(
        fmt::format("a vocabulary of {}: the Ascend kernels go up to {}", config.vocab, kMaxVocab));
  }
  return {};
}

// Takes the operations of a layer one after the other.
class Reader {
 public:
  explicit Reader(const std::vector<Op>& ops) : ops_(ops) {}

  Result<LayerRoles> read() {
    LayerRoles roles;
    if (const Op* op = take(OpKind::kRmsNorm, Stream::kHidden, Stream::kNormed)) {
      roles.attention_norm = op->weights[0];
    }
    if (const Op* op = take(OpKind::kLinear, Stream::kNormed, Stream::kQkv)) {
      roles.query = op->weights[0];
      roles.key = op->weights[1];
      roles.value = op->weights[2];
      roles.query_bias = op->biases[0];
      roles.key_bias = op->biases[1];
      roles.value_bias = op->biases[2];
    }
    if (next_is(OpKind::kHeadNorm)) {
      const Op& op = ops_[at_++];
      roles.query_norm = op.weights[0];
      roles.key_norm = op.weights[1];
    }
    take(OpKind::kRope, Stream::kQkv, Stream::kQkv);
    take(OpKind::kStoreKv, Stream::kQkv, Stream::kQkv);
    take(OpKind::kAttention, Stream::kQkv, Stream::kAttention);
    if (const Op* op = take(OpKind::kLinear, Stream::kAttention, Stream::kHidden)) {
      roles.out = op->weights[0];
      roles.out_bias = op->biases[0];
    }
    read_feed_forward(roles);
    if (failed_ || at_ != ops_.size()) {
      return unsupported(fmt::format(
          "operation {} of a layer is of a kind or order that the Ascend kernels do not know",
          at_));
    }
    return roles;
  }

 private:
  void read_feed_forward(LayerRoles& roles) {
    if (const Op* op = take(OpKind::kRmsNorm, Stream::kHidden, Stream::kNormed)) {
      roles.ffn_norm = op->weights[0];
    }
    if (const Op* op = take(OpKind::kLinear, Stream::kNormed, Stream::kGateUp)) {
      roles.gate = op->weights[0];
      roles.up = op->weights[1];
      roles.gate_bias = op->biases[0];
      roles.up_bias = op->biases[1];
    }
    take(OpKind::kSwiGlu, Stream::kGateUp, Stream::kFfn);
    if (const Op* op = take(OpKind::kLinear, Stream::kFfn, Stream::kHidden)) {
      roles.down = op->weights[0];
      roles.down_bias = op->biases[0];
    }
  }

  bool next_is(OpKind kind) const {
    return !failed_ && at_ < ops_.size() && ops_[at_].kind == kind;
  }

  // The next operation, if it is this one.
  const Op* take(OpKind kind, Stream in, Stream out) {
    if (!next_is(kind) || ops_[at_].in != in || ops_[at_].out != out ||
        (kind == OpKind::kLinear && ops_[at_].add != (out == Stream::kHidden))) {
      failed_ = true;
      return nullptr;
    }
    return &ops_[at_++];
  }

  const std::vector<Op>& ops_;
  size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace

Result<std::vector<LayerRoles>> read_layer_roles(const Model& model) {
  WEFT_RETURN_IF_ERROR(check_dimensions(model.config));
  std::vector<LayerRoles> layers;
  for (const std::vector<Op>& ops : model.layers) {
    WEFT_ASSIGN(const LayerRoles roles, Reader(ops).read());
    layers.push_back(roles);
  }
  return layers;
}

}  // namespace weft
