#pragma once
// Vector instructions that work element by element.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "compute.h"
#include "vector_lanes.h"

namespace weft::twin {

namespace op {

template <class L>
L wrap(int64_t value) {
  return static_cast<L>(value);
}
struct Add {
  template <class L>
  static L Apply(L a, L b) {
    if constexpr (std::is_integral_v<L>)
      return wrap<L>(int64_t{a} + b);
    else
      return a + b;
  }
};
struct Sub {
  template <class L>
  static L Apply(L a, L b) {
    if constexpr (std::is_integral_v<L>)
      return wrap<L>(int64_t{a} - b);
    else
      return a - b;
  }
};
struct Mul {
  template <class L>
  static L Apply(L a, L b) {
    if constexpr (std::is_integral_v<L>)
      return wrap<L>(int64_t{a} * b);
    else
      return a * b;
  }
};
struct Div {
  template <class L>
  static L Apply(L a, L b) {
    return a / b;
  }
};
struct Max {
  template <class L>
  static L Apply(L a, L b) {
    return a > b ? a : b;
  }
};
struct Min {
  template <class L>
  static L Apply(L a, L b) {
    return a < b ? a : b;
  }
};
struct Exp {
  static float Apply(float a) { return exponential(a); }
};
struct Ln {
  static float Apply(float a) {
    return static_cast<float>(std::log(static_cast<double>(a)));  // the same on every CPU
  }
};
struct Abs {
  static float Apply(float a) { return std::fabs(a); }
};
struct Sqrt {
  static float Apply(float a) { return std::sqrt(a); }
};
struct Rsqrt {
  static float Apply(float a) { return 1.0f / std::sqrt(a); }
};
struct Reciprocal {
  static float Apply(float a) { return 1.0f / a; }
};
struct Relu {
  static float Apply(float a) { return a > 0 ? a : 0.0f; }
};

}  // namespace op

template <class T, class Op>
void run_binary(SubCore& core, const VectorInstruction& in) {
  for_each_piece(core, in, [&](const auto& load, const auto& store, auto n) {
    Lane<T> a[kChunk], b[kChunk];
    load(std::type_identity<T>{}, in.src0, a);
    load(std::type_identity<T>{}, in.src1, b);
    for (uint32_t i = 0; i < n; ++i) a[i] = Op::Apply(a[i], b[i]);
    store(std::type_identity<T>{}, in.dst, a);
  });
}
template <class T, class Op>
void run_unary(SubCore& core, const VectorInstruction& in) {
  for_each_piece(core, in, [&](const auto& load, const auto& store, auto n) {
    Lane<T> a[kChunk];
    load(std::type_identity<T>{}, in.src0, a);
    for (uint32_t i = 0; i < n; ++i) a[i] = Op::Apply(a[i]);
    store(std::type_identity<T>{}, in.dst, a);
  });
}
template <class T>
Lane<T> scalar_lane(uint32_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return static_cast<Lane<T>>(value);
}
template <class T, class Op>
void run_scalar(SubCore& core, const VectorInstruction& in) {
  const Lane<T> scalar = scalar_lane<T>(in.scalar);
  for_each_piece(core, in, [&](const auto& load, const auto& store, auto n) {
    Lane<T> a[kChunk];
    load(std::type_identity<T>{}, in.src0, a);
    for (uint32_t i = 0; i < n; ++i) a[i] = Op::Apply(a[i], scalar);
    store(std::type_identity<T>{}, in.dst, a);
  });
}
template <class T, class U>
void run_axpy(SubCore& core, const VectorInstruction& in) {
  const double scalar = scalar_lane<U>(in.scalar);
  for_each_piece(core, in, [&](const auto& load, const auto& store, auto n) {
    float a[kChunk], d[kChunk];
    load(std::type_identity<U>{}, in.src0, a);
    load(std::type_identity<T>{}, in.dst, d);
    // The product is exact in double, so that only the sum is rounded.
    for (uint32_t i = 0; i < n; ++i) d[i] = static_cast<float>(scalar * a[i] + d[i]);
    store(std::type_identity<T>{}, in.dst, d);
  });
}

// Rounds to an integer value, a half, a float. CAST_NONE is to the nearest, ties to even.
double round_by(AscendC::RoundMode mode, double value);
half half_by(AscendC::RoundMode mode, float value);
float float_by(AscendC::RoundMode mode, double value);

template <class T>
Lane<T> saturate(double value) {
  if (std::isnan(value)) return 0;
  constexpr double kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max();
  return static_cast<T>(value < kLow ? kLow : value > kHigh ? kHigh : value);
}

template <class T, class U>
void run_cast(SubCore& core, const VectorInstruction& in) {
  const auto mode = static_cast<AscendC::RoundMode>(in.mode);
  for_each_piece(core, in, [&](const auto& load, const auto& store, auto n) {
    Lane<U> a[kChunk];
    Lane<T> d[kChunk];
    load(std::type_identity<U>{}, in.src0, a);
    for (uint32_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<T, half>) {
        const auto value = static_cast<float>(a[i]);
        const bool nearest =
            mode == AscendC::RoundMode::CAST_NONE || mode == AscendC::RoundMode::CAST_RINT;
        d[i] = nearest ? value : static_cast<float>(half_by(mode, value));
      } else if constexpr (std::is_same_v<T, float> && std::is_same_v<U, float>) {
        d[i] = static_cast<float>(round_by(mode, a[i]));
      } else if constexpr (std::is_same_v<T, float>) {
        d[i] = float_by(mode, static_cast<double>(a[i]));
      } else {
        d[i] = saturate<T>(round_by(mode, static_cast<double>(a[i])));
      }
    }
    store(std::type_identity<T>{}, in.dst, d);
  });
}

template <class T>
void run_index(SubCore& core, const VectorInstruction& in) {
  const Lane<T> first = scalar_lane<T>(in.scalar);
  uint32_t next = 0;
  for_each_piece(core, in, [&](const auto&, const auto& store, auto n) {
    Lane<T> d[kChunk];
    for (uint32_t i = 0; i < n; ++i)
      d[i] = static_cast<Lane<T>>(first + static_cast<Lane<T>>(next++));
    store(std::type_identity<T>{}, in.dst, d);
  });
}

// ---- The calls.

template <class T, class Op>
void binary(const Call& call, const LocalMemory& dst, const LocalMemory& src0,
            const LocalMemory& src1, const Span& span) {
  VectorInstruction in;
  if (!begin_vector(call, span, sizeof(T), in)) return;
  in.src0 = vector_operand(call, "src0", src0, span, 1, sizeof(T), false);
  in.src1 = vector_operand(call, "src1", src1, span, 2, sizeof(T), false);
  in.dst = vector_operand(call, "dst", dst, span, 0, sizeof(T), true);
  call.core.Issue<&run_binary<T, Op>>(in, vector_work(in, sizeof(T)));
}
template <class T, class Op>
void unary(const Call& call, const LocalMemory& dst, const LocalMemory& src, const Span& span) {
  VectorInstruction in;
  if (!begin_vector(call, span, sizeof(T), in)) return;
  in.src0 = vector_operand(call, "src", src, span, 1, sizeof(T), false);
  in.dst = vector_operand(call, "dst", dst, span, 0, sizeof(T), true);
  call.core.Issue<&run_unary<T, Op>>(in, vector_work(in, sizeof(T)));
}
template <class T, class Op>
void with_scalar(const Call& call, const LocalMemory& dst, const LocalMemory& src, T scalar,
                 const Span& span) {
  VectorInstruction in;
  if (!begin_vector(call, span, sizeof(T), in)) return;
  in.src0 = vector_operand(call, "src", src, span, 1, sizeof(T), false);
  in.dst = vector_operand(call, "dst", dst, span, 0, sizeof(T), true);
  std::memcpy(&in.scalar, &scalar, sizeof(T));
  call.core.Issue<&run_scalar<T, Op>>(in, vector_work(in, sizeof(T)));
}
template <class T, class U>
void axpy(const Call& call, const LocalMemory& dst, const LocalMemory& src, U scalar,
          const Span& span) {
  static_assert(sizeof(U) <= sizeof(T), "dst is at least as wide as src");
  VectorInstruction in;
  if (!begin_vector(call, span, sizeof(T), in)) return;
  in.src0 = vector_operand(call, "src", src, span, 1, sizeof(U), false);
  vector_operand(call, "dst", dst, span, 0, sizeof(T), false);
  in.dst = vector_operand(call, "dst", dst, span, 0, sizeof(T), true);
  std::memcpy(&in.scalar, &scalar, sizeof(U));
  call.core.Issue<&run_axpy<T, U>>(in, vector_work(in, sizeof(T)));
}

// The modes that a conversion takes: only CAST_NONE, the five from CAST_RINT to CAST_TRUNC, these
// and CAST_NONE, or CAST_ODD as well. kMissing: the chip has no such conversion.
enum class Rounding : uint8_t { kMissing, kNone, kFive, kFiveOrNone, kAny };

template <class T, class U>  // to T from U
constexpr Rounding rounding_of() {
  constexpr auto from = []<class... A>(std::type_identity<A>...) {
    return (std::is_same_v<U, A> || ...);
  };
  constexpr std::type_identity<float> kFloat;
  constexpr std::type_identity<half> kHalf;
  constexpr std::type_identity<int32_t> kInt32;
  constexpr std::type_identity<int16_t> kInt16;
  if constexpr (std::is_same_v<T, float>) {
    if (from(kHalf, kInt16)) return Rounding::kNone;
    if (from(kFloat)) return Rounding::kFive;
    if (from(kInt32)) return Rounding::kFiveOrNone;
  } else if constexpr (std::is_same_v<T, half>) {
    if (from(kFloat)) return Rounding::kAny;
    if (from(kInt16)) return Rounding::kFiveOrNone;
    if (sizeof(U) == 1) return Rounding::kNone;
  } else if constexpr (sizeof(T) == 1) {
    if (from(kHalf)) return Rounding::kFiveOrNone;
  } else if constexpr (std::is_same_v<T, int32_t> || std::is_same_v<T, int16_t>) {
    if (from(kFloat, kHalf)) return Rounding::kFive;
    if (sizeof(T) == 2 && from(kInt32)) return Rounding::kNone;
  }
  return Rounding::kMissing;
}
void check_cast(const Call& call, AscendC::RoundMode mode, Rounding rounding);
template <class T, class U>
void cast(const Call& call, const LocalMemory& dst, const LocalMemory& src, AscendC::RoundMode mode,
          const Span& span) {
  static_assert(rounding_of<T, U>() != Rounding::kMissing, "the chip has no such conversion");
  check_cast(call, mode, rounding_of<T, U>());
  constexpr uint32_t kWidest = std::max(sizeof(T), sizeof(U));
  VectorInstruction in;
  if (!begin_vector(call, span, kWidest, in)) return;
  in.mode = static_cast<uint8_t>(mode);
  in.src0 = vector_operand(call, "src", src, span, 1, sizeof(U), false);
  in.dst = vector_operand(call, "dst", dst, span, 0, sizeof(T), true);
  call.core.Issue<&run_cast<T, U>>(in, vector_work(in, kWidest));
}

template <class T>
void create_index(const Call& call, const LocalMemory& dst, T first, uint32_t count) {
  const Span span = Span::Count(count);
  VectorInstruction in;
  if (!begin_vector(call, span, sizeof(T), in)) return;
  in.dst = vector_operand(call, "dst", dst, span, 0, sizeof(T), true);
  std::memcpy(&in.scalar, &first, sizeof(T));
  call.core.Issue<&run_index<T>>(in, vector_work(in, sizeof(T)));
}

}  // namespace weft::twin
