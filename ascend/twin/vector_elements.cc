#include "vector_elements.h"

#include <cmath>

namespace weft::twin {

using AscendC::RoundMode;

double round_by(RoundMode mode, double value) {
  switch (mode) {
    case RoundMode::CAST_FLOOR:
      return std::floor(value);
    case RoundMode::CAST_CEIL:
      return std::ceil(value);
    case RoundMode::CAST_ROUND:
      return std::round(value);
    case RoundMode::CAST_TRUNC:
      return std::trunc(value);
    default:
      return std::nearbyint(value);
  }
}

half half_by(RoundMode mode, float value) {
  const half nearest = value;
  const float back = nearest;
  if (back == value || std::isnan(value)) return nearest;
  const bool away = std::fabs(back) > std::fabs(value);  // the nearest is beyond the value
  half inner = nearest;                                  // towards zero
  if (away) --inner.bits;
  half outer = inner;
  ++outer.bits;
  const bool negative = std::signbit(value);
  switch (mode) {
    case RoundMode::CAST_TRUNC:
      return inner;
    case RoundMode::CAST_FLOOR:
      return negative ? outer : inner;
    case RoundMode::CAST_CEIL:
      return negative ? inner : outer;
    case RoundMode::CAST_ODD:
      return (inner.bits & 1) != 0 ? inner : outer;
    case RoundMode::CAST_ROUND: {
      const float middle = (static_cast<float>(inner) + static_cast<float>(outer)) / 2;
      return std::fabs(value) >= std::fabs(middle) ? outer : inner;
    }
    default:
      return nearest;
  }
}

void check_cast(const Call& call, RoundMode mode, bool exact) {
  check_that(call, !exact || mode == RoundMode::CAST_NONE,
             "an exact conversion takes RoundMode::CAST_NONE only");
}

}  // namespace weft::twin
