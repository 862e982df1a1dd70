#pragma once
// Names and enumerations of the card: pipes, events, positions, modes. Values are the twin's own.

#include <cstdint>

#include "half.h"

#define __global__
#define __aicore__
#define __gm__

using GM_ADDR = uint8_t*;

enum pipe_t : uint8_t {
  PIPE_S,
  PIPE_V,
  PIPE_M,
  PIPE_MTE1,
  PIPE_MTE2,
  PIPE_MTE3,
  PIPE_FIX,
  PIPE_ALL,
};

enum event_t : int32_t {
  EVENT_ID0,
  EVENT_ID1,
  EVENT_ID2,
  EVENT_ID3,
  EVENT_ID4,
  EVENT_ID5,
  EVENT_ID6,
  EVENT_ID7,
};

enum QuantMode_t : uint8_t { NoQuant, F322F16 };

namespace AscendC {

using TEventID = int8_t;

// <source>_<destination>: the destination pipe waits for what the source pipe did before.
enum class HardEvent : uint8_t {
  MTE2_MTE1,
  MTE1_MTE2,
  MTE1_M,
  M_MTE1,
  MTE2_V,
  V_MTE2,
  MTE3_V,
  V_MTE3,
  M_V,
  V_M,
  V_V,
  MTE3_MTE1,
  MTE1_MTE3,
  MTE1_V,
  V_MTE1,
  MTE2_M,
  M_MTE2,
  M_FIX,
  FIX_M,
  MTE3_MTE2,
  MTE2_MTE3,
  S_V,
  V_S,
  S_MTE2,
  MTE2_S,
  S_MTE3,
  MTE3_S,
  S_M,
  M_S,
  S_MTE1,
  MTE1_S,
  S_FIX,
  FIX_S,
  FIX_MTE2,
  MTE2_FIX,
  FIX_MTE3,
  MTE3_FIX,
  FIX_MTE1,
  MTE1_FIX,
  FIX_V,
  V_FIX,
  M_MTE3,
  MTE3_M,
  MAX,
};

enum class TPosition : uint8_t {
  GM,
  A1,
  A2,
  B1,
  B2,
  C1,
  C2,
  CO1,
  VECIN,
  VECOUT,
  VECCALC,
};

enum class RoundMode : uint8_t {
  CAST_NONE,
  CAST_RINT,
  CAST_FLOOR,
  CAST_CEIL,
  CAST_ROUND,
  CAST_TRUNC,
  CAST_ODD,
};

enum class CMPMODE : uint8_t { LT, GT, EQ, LE, GE, NE };

enum class SELMODE : uint8_t { VSEL_TENSOR_SCALAR_MODE, VSEL_TENSOR_TENSOR_MODE };

enum class ReduceOrder : uint8_t {
  ORDER_VALUE_INDEX,
  ORDER_INDEX_VALUE,
  ORDER_ONLY_VALUE,
  ORDER_ONLY_INDEX,
};

enum class CacheLine : uint8_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class DcciDst : uint8_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT };
enum class MemDsbT : uint8_t { ALL, DDR, UB, SEQ };
enum class CO2Layout : uint8_t { NZ, ROW_MAJOR };

struct FixpipeConfig {
  CO2Layout format;
};
inline constexpr FixpipeConfig CFG_ROW_MAJOR = {CO2Layout::ROW_MAJOR};

}  // namespace AscendC

// Every kernel of the twin runs as one cube core with its two vector cores.
#define KERNEL_TYPE_MIX_AIC_1_2
#define KERNEL_TASK_TYPE_DEFAULT(type) static_assert(true)
