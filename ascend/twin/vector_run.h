#pragma once
// How vector instructions are checked and carried out.

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <type_traits>

#include "checks.h"
#include "compute.h"
#include "params.h"
#include "sub_core.h"

namespace weft::twin {

template <class T>
concept Floating = std::is_same_v<T, float> || std::is_same_v<T, half>;
template <class T>
concept Arithmetic = Floating<T> || std::is_same_v<T, int32_t> || std::is_same_v<T, int16_t>;

// What a lane computes in: halves in float, integers without overflow.
template <class T>
struct LaneOf {
  using Type = T;
};
template <>
struct LaneOf<half> {
  using Type = float;
};
template <class T>
using Lane = typename LaneOf<T>::Type;

// Strides of one operand in 32 bytes.
struct Stride {
  uint32_t block = 1, repeat = 8;
};

// Which elements an instruction works on. repeats == 0: `count` contiguous ones.
struct Span {
  int64_t count = 0;
  int64_t mask = 0, repeats = 0;
  int64_t strides[6] = {1, 1, 1, 8, 8, 8};  // blocks of dst, src0, src1, then repeats
  bool strided = false;

  static Span Count(int64_t count) {
    Span span;
    span.count = count;
    return span;
  }
  static Span Of(uint64_t mask, int64_t repeats, const AscendC::BinaryRepeatParams& p) {
    Span span;
    span.mask = static_cast<int64_t>(mask), span.repeats = repeats, span.strided = true;
    const int64_t strides[6] = {p.dstBlkStride, p.src0BlkStride, p.src1BlkStride,
                                p.dstRepStride, p.src0RepStride, p.src1RepStride};
    std::copy(strides, strides + 6, span.strides);
    return span;
  }
  static Span Of(uint64_t mask, int64_t repeats, const AscendC::UnaryRepeatParams& p) {
    Span span;
    span.mask = static_cast<int64_t>(mask), span.repeats = repeats, span.strided = true;
    const int64_t strides[6] = {p.dstBlkStride, p.srcBlkStride, 1,
                                p.dstRepStride, p.srcRepStride, 8};
    std::copy(strides, strides + 6, span.strides);
    return span;
  }
};

struct VectorOperand {
  uint32_t address = 0;
  uint16_t block = 1, repeat = 8;  // strides in 32 bytes
};

struct VectorInstruction {
  VectorOperand dst, src0, src1;
  uint32_t count = 0;  // contiguous, or of each repeat
  uint32_t repeats = 0;
  uint32_t scalar = 0;  // its bits
  uint8_t mode = 0;
};

// Checks the span against the wider of the element sizes; false if there is nothing to do.
bool begin_vector(const Call& call, const Span& span, uint32_t widest, VectorInstruction& out);
// Checks an operand and records the access. `which`: 0 dst, 1 src0, 2 src1.
VectorOperand vector_operand(const Call& call, const char* name, const LocalMemory& memory,
                             const Span& span, int which, uint32_t element, bool write);
Work vector_work(const VectorInstruction& instruction, uint32_t element);

// ---- Carrying out.

inline constexpr uint32_t kChunk = 128;

template <class T>
inline void load_lanes(const std::byte* from, Lane<T>* lanes, uint32_t count) {
  if constexpr (std::is_same_v<T, half>) {
    halves_to_floats(reinterpret_cast<const half*>(from), lanes, count);
  } else {
    std::memcpy(lanes, from, count * sizeof(T));
  }
}
template <class T>
inline void store_lanes(std::byte* to, const Lane<T>* lanes, uint32_t count) {
  if constexpr (std::is_same_v<T, half>) {
    floats_to_halves(lanes, reinterpret_cast<half*>(to), count);
  } else {
    std::memcpy(to, lanes, count * sizeof(T));
  }
}

// The lanes of one repeat, block by block unless the blocks are contiguous.
template <class T>
void load_repeat(const std::byte* ub, const VectorOperand& operand, uint32_t repeat, uint32_t count,
                 Lane<T>* lanes) {
  constexpr uint32_t kBlock = 32 / sizeof(T);
  const std::byte* from = ub + operand.address + repeat * operand.repeat * 32u;
  if (operand.block == 1) return load_lanes<T>(from, lanes, count);
  for (uint32_t done = 0; done < count; done += kBlock) {
    load_lanes<T>(from, lanes + done, std::min(kBlock, count - done));
    from += operand.block * 32u;
  }
}
template <class T>
void store_repeat(std::byte* ub, const VectorOperand& operand, uint32_t repeat, uint32_t count,
                  const Lane<T>* lanes) {
  constexpr uint32_t kBlock = 32 / sizeof(T);
  std::byte* to = ub + operand.address + repeat * operand.repeat * 32u;
  if (operand.block == 1) return store_lanes<T>(to, lanes, count);
  for (uint32_t done = 0; done < count; done += kBlock) {
    store_lanes<T>(to, lanes + done, std::min(kBlock, count - done));
    to += operand.block * 32u;
  }
}

// Calls body(load, store, n) for each piece of at most kChunk elements; load and store move lanes
// of an operand of the piece. Whole pieces get n as a constant, so that their loops are unrolled.
template <class Body>
void for_each_piece(SubCore& core, const VectorInstruction& in, const Body& body) {
  std::byte* ub = core.memory(Buffer::kUb);
  if (in.repeats == 0) {
    const auto piece = [&](uint32_t done, auto n) {
      body(
          [&]<class T>(std::type_identity<T>, const VectorOperand& operand, Lane<T>* lanes) {
            load_lanes<T>(ub + operand.address + done * sizeof(T), lanes, n);
          },
          [&]<class T>(std::type_identity<T>, const VectorOperand& operand, const Lane<T>* lanes) {
            store_lanes<T>(ub + operand.address + done * sizeof(T), lanes, n);
          },
          n);
    };
    uint32_t done = 0;
    for (; done + kChunk <= in.count; done += kChunk) {
      piece(done, std::integral_constant<uint32_t, kChunk>{});
    }
    if (done < in.count) piece(done, in.count - done);
    return;
  }
  const auto piece = [&](uint32_t repeat, auto n) {
    body([&]<class T>(std::type_identity<T>, const VectorOperand& operand,
                      Lane<T>* lanes) { load_repeat<T>(ub, operand, repeat, n, lanes); },
         [&]<class T>(std::type_identity<T>, const VectorOperand& operand, const Lane<T>* lanes) {
           store_repeat<T>(ub, operand, repeat, n, lanes);
         },
         n);
  };
  for (uint32_t repeat = 0; repeat < in.repeats; ++repeat) {
    if (in.count == 64) {
      piece(repeat, std::integral_constant<uint32_t, 64>{});
    } else {
      piece(repeat, in.count);
    }
  }
}

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

// Rounds to an integer value.
double round_by(AscendC::RoundMode mode, double value);
half half_by(AscendC::RoundMode mode, float value);

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
        d[i] = static_cast<float>(a[i]);
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

struct CompareInstruction {
  uint32_t dst, src0, src1;
  uint32_t count;
  uint32_t scalar;
  bool with_scalar;
  AscendC::CMPMODE mode;
};
template <class T>
void run_compare(SubCore& core, const CompareInstruction& in) {
  std::byte* ub = core.memory(Buffer::kUb);
  for (uint32_t i = 0; i < in.count; ++i) {
    T a, b;
    std::memcpy(&a, ub + in.src0 + i * sizeof(T), sizeof(T));
    if (in.with_scalar)
      std::memcpy(&b, &in.scalar, sizeof(T));
    else
      std::memcpy(&b, ub + in.src1 + i * sizeof(T), sizeof(T));
    const auto x = static_cast<Lane<T>>(a), y = static_cast<Lane<T>>(b);
    bool bit = false;
    switch (in.mode) {
      case AscendC::CMPMODE::LT:
        bit = x < y;
        break;
      case AscendC::CMPMODE::GT:
        bit = x > y;
        break;
      case AscendC::CMPMODE::EQ:
        bit = x == y;
        break;
      case AscendC::CMPMODE::LE:
        bit = x <= y;
        break;
      case AscendC::CMPMODE::GE:
        bit = x >= y;
        break;
      case AscendC::CMPMODE::NE:
        bit = x != y;
        break;
    }
    auto& byte = reinterpret_cast<uint8_t*>(ub)[in.dst + i / 8];
    byte = static_cast<uint8_t>(i % 8 == 0 ? (bit ? 1 : 0) : byte | (bit ? 1u << (i % 8) : 0u));
  }
}

struct SelectInstruction {
  uint32_t dst, mask, src0, src1;
  uint32_t count;
  uint32_t scalar;
  bool with_scalar;
  bool same_mask;  // the first 256 / sizeof(T) bits for every repeat
};
template <class T>
void run_select(SubCore& core, const SelectInstruction& in) {
  std::byte* ub = core.memory(Buffer::kUb);
  for (uint32_t i = 0; i < in.count; ++i) {
    const uint32_t at = in.same_mask ? i % (256 / sizeof(T)) : i;
    const bool bit = (reinterpret_cast<uint8_t*>(ub)[in.mask + at / 8] >> (at % 8)) & 1;
    const std::byte* other = in.with_scalar ? reinterpret_cast<const std::byte*>(&in.scalar)
                                            : ub + in.src1 + i * sizeof(T);
    std::memmove(ub + in.dst + i * sizeof(T), bit ? ub + in.src0 + i * sizeof(T) : other,
                 sizeof(T));
  }
}

enum class Reduction : uint8_t { kSum, kMax, kMin };
struct ReduceInstruction {
  VectorOperand src;
  uint32_t dst;
  uint32_t dst_stride;  // bytes between the results of repeats
  uint32_t mask, repeats;
  uint32_t scratch, scratch_bytes;  // what the chip overwrites
  Reduction reduction;
  AscendC::ReduceOrder order;
  bool by_block;
};
template <class T>
void run_repeats(SubCore& core, const ReduceInstruction& in);  // WholeReduce, BlockReduce
template <class T>
void run_reduce(SubCore& core, const ReduceInstruction& in);  // count form

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

template <class T, class U>
constexpr bool castable() {
  constexpr auto pair = []<class A, class B>(std::type_identity<A>, std::type_identity<B>) {
    return std::is_same_v<T, A> && std::is_same_v<U, B>;
  };
#define WEFT_TWIN_CAST(to, from) pair(std::type_identity<to>{}, std::type_identity<from>{})
  return WEFT_TWIN_CAST(float, half) || WEFT_TWIN_CAST(half, float) ||
         WEFT_TWIN_CAST(float, float) || WEFT_TWIN_CAST(int32_t, float) ||
         WEFT_TWIN_CAST(float, int32_t) || WEFT_TWIN_CAST(int16_t, float) ||
         WEFT_TWIN_CAST(float, int16_t) || WEFT_TWIN_CAST(half, int8_t) ||
         WEFT_TWIN_CAST(int8_t, half) || WEFT_TWIN_CAST(half, uint8_t) ||
         WEFT_TWIN_CAST(uint8_t, half) || WEFT_TWIN_CAST(half, int16_t) ||
         WEFT_TWIN_CAST(int16_t, half) || WEFT_TWIN_CAST(int32_t, half) ||
         WEFT_TWIN_CAST(int16_t, int32_t);
#undef WEFT_TWIN_CAST
}
void check_cast(const Call& call, AscendC::RoundMode mode, bool exact);
template <class T, class U>
void cast(const Call& call, const LocalMemory& dst, const LocalMemory& src, AscendC::RoundMode mode,
          const Span& span) {
  static_assert(castable<T, U>(), "the chip has no such conversion");
  constexpr bool kExact = std::is_same_v<T, float>
                              ? !std::is_same_v<U, float> && !std::is_same_v<U, int32_t>
                              : sizeof(U) == 1;
  check_cast(call, mode, kExact);
  constexpr uint32_t kWidest = std::max(sizeof(T), sizeof(U));
  VectorInstruction in;
  if (!begin_vector(call, span, kWidest, in)) return;
  in.mode = static_cast<uint8_t>(mode);
  in.src0 = vector_operand(call, "src", src, span, 1, sizeof(U), false);
  in.dst = vector_operand(call, "dst", dst, span, 0, sizeof(T), true);
  call.core.Issue<&run_cast<T, U>>(in, vector_work(in, kWidest));
}

void duplicate_bits(const Call& call, const LocalMemory& dst, const void* scalar, uint32_t element,
                    const uint64_t* mask, int64_t repeats, int64_t block_stride,
                    int64_t repeat_stride);
void duplicate(const Call& call, const LocalMemory& dst, const void* scalar, uint32_t element,
               const Span& span);
template <class T>
void create_index(const Call& call, const LocalMemory& dst, T first, uint32_t count) {
  const Span span = Span::Count(count);
  VectorInstruction in;
  if (!begin_vector(call, span, sizeof(T), in)) return;
  in.dst = vector_operand(call, "dst", dst, span, 0, sizeof(T), true);
  std::memcpy(&in.scalar, &first, sizeof(T));
  call.core.Issue<&run_index<T>>(in, vector_work(in, sizeof(T)));
}
void gather(const Call& call, const LocalMemory& dst, const LocalMemory& src,
            const LocalMemory& offsets, uint32_t base, uint32_t count, uint32_t element);
void broadcast_blocks(const Call& call, const LocalMemory& dst, const LocalMemory& src,
                      int64_t repeats, const AscendC::BrcbRepeatParams& params, uint32_t element);

CompareInstruction begin_compare(const Call& call, const LocalMemory& dst, const LocalMemory& src0,
                                 const LocalMemory* src1, uint32_t count, uint32_t element);
template <class T>
void compare(const Call& call, const LocalMemory& dst, const LocalMemory& src0,
             const LocalMemory* src1, T scalar, AscendC::CMPMODE mode, uint32_t count) {
  if (count == 0) return;
  if constexpr (std::is_same_v<T, int32_t>) {
    check_that(call, mode == AscendC::CMPMODE::EQ, "int32 can only be compared for EQ");
  }
  CompareInstruction in = begin_compare(call, dst, src0, src1, count, sizeof(T));
  in.mode = mode;
  std::memcpy(&in.scalar, &scalar, sizeof(T));
  Work work;
  work.bytes = count / 8, work.repeats = static_cast<uint32_t>(count * sizeof(T) / 256);
  call.core.Issue<&run_compare<T>>(in, work);
}

SelectInstruction begin_select(const Call& call, const LocalMemory& dst, const LocalMemory& mask,
                               const LocalMemory& src0, const LocalMemory* src1,
                               AscendC::SELMODE mode, uint32_t count, uint32_t element);
template <class T>
void select(const Call& call, const LocalMemory& dst, const LocalMemory& mask,
            const LocalMemory& src0, const LocalMemory* src1, T scalar, AscendC::SELMODE mode,
            uint32_t count) {
  if (count == 0) return;
  SelectInstruction in = begin_select(call, dst, mask, src0, src1, mode, count, sizeof(T));
  std::memcpy(&in.scalar, &scalar, sizeof(T));
  Work work;
  work.bytes = count * sizeof(T),
  work.repeats = static_cast<uint32_t>((count * sizeof(T) + 255) / 256);
  call.core.Issue<&run_select<T>>(in, work);
}

ReduceInstruction begin_reduce(const Call& call, const LocalMemory& dst, const LocalMemory& src,
                               const LocalMemory& scratch, int64_t count, uint32_t element,
                               Reduction reduction, bool index);
ReduceInstruction begin_repeats(const Call& call, const LocalMemory& dst, const LocalMemory& src,
                                int64_t mask, int64_t repeats, int64_t dst_stride,
                                int64_t block_stride, int64_t repeat_stride, uint32_t element,
                                Reduction reduction, AscendC::ReduceOrder order, bool by_block);
Work reduce_work(const ReduceInstruction& in, uint32_t element);

template <class T, bool kMax>
void reduce_extreme(const Call& call, const LocalMemory& dst, const LocalMemory& src,
                    const LocalMemory& scratch, int64_t count, bool index) {
  if (count == 0) return;
  const auto in = begin_reduce(call, dst, src, scratch, count, sizeof(T),
                               kMax ? Reduction::kMax : Reduction::kMin, index);
  call.core.Issue<&run_reduce<T>>(in, reduce_work(in, sizeof(T)));
}
template <class T>
void reduce_sum(const Call& call, const LocalMemory& dst, const LocalMemory& src,
                const LocalMemory& scratch, int64_t count) {
  if (count == 0) return;
  const auto in = begin_reduce(call, dst, src, scratch, count, sizeof(T), Reduction::kSum, false);
  call.core.Issue<&run_reduce<T>>(in, reduce_work(in, sizeof(T)));
}
template <class T>
void whole_reduce(const Call& call, Reduction reduction, const LocalMemory& dst,
                  const LocalMemory& src, int64_t mask, int64_t repeats, int64_t dst_stride,
                  int64_t block_stride, int64_t repeat_stride, AscendC::ReduceOrder order) {
  if (mask == 0 || repeats == 0) return;
  const auto in = begin_repeats(call, dst, src, mask, repeats, dst_stride, block_stride,
                                repeat_stride, sizeof(T), reduction, order, false);
  call.core.Issue<&run_repeats<T>>(in, reduce_work(in, sizeof(T)));
}
template <class T>
void block_reduce(const Call& call, Reduction reduction, const LocalMemory& dst,
                  const LocalMemory& src, int64_t mask, int64_t repeats, int64_t dst_stride,
                  int64_t block_stride, int64_t repeat_stride) {
  if (mask == 0 || repeats == 0) return;
  const auto in =
      begin_repeats(call, dst, src, mask, repeats, dst_stride, block_stride, repeat_stride,
                    sizeof(T), reduction, AscendC::ReduceOrder::ORDER_ONLY_VALUE, true);
  call.core.Issue<&run_repeats<T>>(in, reduce_work(in, sizeof(T)));
}

}  // namespace weft::twin
