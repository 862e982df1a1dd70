#include "time/model_shape.h"

#include <fmt/format.h>

#include "kernels/norm.h"
#include "kernels/sample_row.h"
#include "kernels/shapes.h"

namespace weft::timing {
namespace {

// Inputs of a matrix: the instruction that fetches rows has 16 bits for what lies between two.
constexpr int kMaxInputs = 65520;
// No kernel's limits, but beyond those of any dense model that fits on a card.
constexpr int kMaxLayers = 1024;
constexpr int kMaxHeads = 256;

struct Dimension {
  const char* name;
  int value;
  int multiple;
  int most;
};

}  // namespace

Status check_shape(const ModelShape& shape) {
  using namespace weft_ascend;
  const Dimension dimensions[] = {
      {"layers", shape.layers, 1, kMaxLayers},
      {"hidden size", shape.hidden, kFractal, kMaxHidden},
      {"feed-forward size", shape.ffn, kFractal, kMaxInputs},
      {"heads", shape.heads, 1, kMaxHeads},
      {"heads of keys", shape.kv_heads, 1, kMaxHeads},
      {"head size", shape.head_dim, kFractal, kMaxHeadDim},
      // What is left over of it is not simulated.
      {"vocabulary", shape.vocab / kFractal * kFractal, kFractal, kMaxVocab},
  };
  for (const auto& [name, value, multiple, most] : dimensions) {
    if (value >= multiple && value <= most && value % multiple == 0) continue;
    return Error{ErrorKind::kUnsupported,
                 fmt::format("{}: {} {}: the Ascend kernels have multiples of {} up to {}",
                             shape.name, name, value, multiple, most)};
  }
  if (shape.queries() > kMaxInputs) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("{}: {} heads of {} are {}: the Ascend kernels have up to {}",
                             shape.name, shape.heads, shape.head_dim, shape.queries(), kMaxInputs)};
  }
  if (shape.heads % shape.kv_heads != 0) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("{}: {} heads are no multiple of {} heads of keys", shape.name,
                             shape.heads, shape.kv_heads)};
  }
  return {};
}

}  // namespace weft::timing
