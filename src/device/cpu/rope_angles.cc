#include "device/cpu/rope_angles.h"

#include <cmath>

namespace weft {

Result<RopeAngles> RopeAngles::create(std::span<const float> frequencies, bool interleaved,
                                      int positions) {
  RopeAngles angles;
  const size_t values = frequencies.size() * static_cast<size_t>(positions);
  WEFT_ASSIGN(angles.buffer_, Buffer::allocate(2 * values * sizeof(float)));
  auto* cos = angles.buffer_.as<float>();
  float* sin = cos + values;
  size_t at = 0;
  for (int position = 0; position < positions; ++position) {
    for (const float frequency : frequencies) {
      const double angle = double{frequency} * position;
      cos[at] = static_cast<float>(std::cos(angle));
      sin[at] = static_cast<float>(std::sin(angle));
      ++at;
    }
  }
  angles.table_ = {cos, sin, static_cast<int>(frequencies.size()), interleaved};
  return angles;
}

}  // namespace weft
