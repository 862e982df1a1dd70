#pragma once
// RopeAngles: cos and sin of every position and rotary pair that an executor may meet.

#include <span>

#include "base/result.h"
#include "kernels/kernel_table.h"
#include "tensor/buffer.h"

namespace weft {

class RopeAngles {
 public:
  // frequencies: radians per position of each pair. Angles are computed in double.
  static Result<RopeAngles> create(std::span<const float> frequencies, bool interleaved,
                                   int positions);

  const RopeTable& table() const { return table_; }

 private:
  Buffer buffer_;  // cos [positions, pairs], sin [positions, pairs]
  RopeTable table_;
};

}  // namespace weft
