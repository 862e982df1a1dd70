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

// Of a value's two neighbours, `inner` the one towards zero, and `nearest`, which is one of them.
template <class T>
static T choose(RoundMode mode, double value, T nearest, T inner, T outer) {
  const bool negative = std::signbit(value);
  switch (mode) {
    case RoundMode::CAST_TRUNC:
      return inner;
    case RoundMode::CAST_FLOOR:
      return negative ? outer : inner;
    case RoundMode::CAST_CEIL:
      return negative ? inner : outer;
    case RoundMode::CAST_ROUND: {
      const double middle = (static_cast<double>(inner) + static_cast<double>(outer)) / 2;
      return std::fabs(value) >= std::fabs(middle) ? outer : inner;
    }
    default:
      return nearest;
  }
}

half half_by(RoundMode mode, float value) {
  const half nearest = value;
  const float back = nearest;
  if (back == value || std::isnan(value)) return nearest;
  const bool away = std::fabs(back) > std::fabs(value);  // the nearest is beyond the value
  half inner = nearest;
  if (away) --inner.bits;
  half outer = inner;
  ++outer.bits;
  if (mode == RoundMode::CAST_ODD) return (inner.bits & 1) != 0 ? inner : outer;
  return choose(mode, value, nearest, inner, outer);
}

float float_by(RoundMode mode, double value) {
  const auto nearest = static_cast<float>(value);
  const double back = nearest;
  if (back == value || std::isnan(value)) return nearest;
  const bool away = std::fabs(back) > std::fabs(value);
  const float inner = away ? std::nextafter(nearest, 0.0f) : nearest;
  const float outer = std::nextafter(inner, std::copysign(INFINITY, nearest));
  return choose(mode, value, nearest, inner, outer);
}

void check_cast(const Call& call, RoundMode mode, Rounding rounding) {
  const bool none = mode == RoundMode::CAST_NONE, odd = mode == RoundMode::CAST_ODD;
  switch (rounding) {
    case Rounding::kNone:
      return check_that(call, none, "this conversion takes RoundMode::CAST_NONE only");
    case Rounding::kFive:
      return check_that(call, !none && !odd,
                        "this conversion takes CAST_RINT, FLOOR, CEIL, ROUND or TRUNC");
    case Rounding::kFiveOrNone:
      return check_that(call, !odd,
                        "this conversion takes CAST_NONE, RINT, FLOOR, CEIL, ROUND or TRUNC");
    default:
      return;
  }
}

}  // namespace weft::twin
