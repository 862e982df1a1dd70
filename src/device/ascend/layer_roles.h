#pragma once
// LayerRoles: a layer's list of operations, read as the one shape of layer that the Ascend kernels
// run: which weight plays which part.

#include <vector>

#include "base/result.h"
#include "model/model.h"

namespace weft {

struct LayerRoles {
  WeightId attention_norm = WeightId::kNone;
  WeightId query = WeightId::kNone;
  WeightId key = WeightId::kNone;
  WeightId value = WeightId::kNone;
  WeightId query_bias = WeightId::kNone;
  WeightId key_bias = WeightId::kNone;
  WeightId value_bias = WeightId::kNone;
  WeightId query_norm = WeightId::kNone;
  WeightId key_norm = WeightId::kNone;
  WeightId out = WeightId::kNone;
  WeightId out_bias = WeightId::kNone;
  WeightId ffn_norm = WeightId::kNone;
  WeightId gate = WeightId::kNone;
  WeightId up = WeightId::kNone;
  WeightId gate_bias = WeightId::kNone;
  WeightId up_bias = WeightId::kNone;
  WeightId down = WeightId::kNone;
  WeightId down_bias = WeightId::kNone;
};

// kUnsupported, naming the value, for what the kernels cannot run: experts, dimensions that the
// cube's tiles do not divide, another order of operations.
Result<std::vector<LayerRoles>> read_layer_roles(const Model& model);

}  // namespace weft
