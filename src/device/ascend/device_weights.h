#pragma once
// DeviceWeights: a model's weights in device memory, in the layouts that the kernels read.

#include <functional>
#include <memory>
#include <vector>

#include "ascend/kernels/descriptor.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "device/ascend/acl_device.h"
#include "device/ascend/layer_roles.h"
#include "model/model.h"

namespace weft {

// How matrices are kept.
enum class AscendWeights : uint8_t {
  kHalf,  // all as halves
  kAuto,  // those of type Q8_0 as int8 with their scales, the others as halves
};

class DeviceWeights {
 public:
  // The file's pages are dropped as they are converted. progress(share done, 0 ... 1).
  static Result<DeviceWeights> load(const Model& model, const std::vector<LayerRoles>& layers,
                                    const Checkpoint& checkpoint, AscendWeights kind,
                                    const std::function<void(double)>& progress);
  static uint64_t bytes(const Model& model, const std::vector<LayerRoles>& layers,
                        AscendWeights kind);

  // Whether a matrix is kept as int8.
  bool any_int8() const;
  uint64_t embedding() const { return embedding_; }
  uint64_t final_norm() const { return final_norm_; }
  const weft_ascend::MatrixWeights& head() const { return head_; }
  const std::vector<weft_ascend::LayerWeights>& layers() const { return layers_; }

 private:
  friend class WeightLoader;

  std::vector<DeviceMemory> memory_;
  uint64_t embedding_ = 0;
  uint64_t final_norm_ = 0;
  weft_ascend::MatrixWeights head_{};
  std::vector<weft_ascend::LayerWeights> layers_;
};

}  // namespace weft
