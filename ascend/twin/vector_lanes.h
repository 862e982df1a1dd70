#pragma once
// Elements of UB as lanes that the host computes in, piece by piece.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "compute.h"
#include "vector_span.h"

namespace weft::twin {

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

}  // namespace weft::twin
