#pragma once
// Flags between pipes, barriers, flags between the cores of a block, the scalar cache, and who am
// I.

#include "checks.h"
#include "tensor.h"

namespace AscendC {

// The target pipe goes on after WaitFlag when the source pipe has come to SetFlag. Each SetFlag is
// followed by its WaitFlag, in the program's order, before the same id of the event is set again.
template <HardEvent event>
__aicore__ inline void SetFlag(int32_t eventID, Where where = Where::current()) {
  weft::twin::here().SetFlag(event, eventID, where);
}
template <HardEvent event>
__aicore__ inline void WaitFlag(int32_t eventID, Where where = Where::current()) {
  weft::twin::here().WaitFlag(event, eventID, where);
}

// What the pipe was given before has read and written all its data before what follows begins.
template <pipe_t pipe>
__aicore__ inline void PipeBarrier(Where where = Where::current()) {
  static_assert(pipe != PIPE_S, "the scalar unit keeps its own order: there is no such barrier");
  weft::twin::here().Barrier(pipe, where);
}

// Between the cube core and both vector cores of one block (0x2), or the two vector cores (0x1): a
// wait passes when the other side, all of it, has set the flag. The set happens when `pipe` has
// done what it was given before.
template <uint8_t modeId, pipe_t pipe>
__aicore__ inline void CrossCoreSetFlag(uint16_t flagId, Where where = Where::current()) {
  static_assert(modeId == 1 || modeId == 2, "modes between blocks are not emulated: use memory");
  static_assert(pipe != PIPE_S && pipe != PIPE_ALL, "not one of the pipes that can set it");
  weft::twin::here().CrossCoreSet(modeId, pipe, flagId, where);
}
// All pipes wait: on this chip neither template parameter changes anything.
template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
__aicore__ inline void CrossCoreWaitFlag(uint16_t flagId, Where where = Where::current()) {
  weft::twin::here().CrossCoreWait(flagId, where);
}

// Writes the line of the tensor's first element back if it was changed, and drops it.
template <class T, CacheLine entireType, DcciDst dcciDst = DcciDst::CACHELINE_OUT>
__aicore__ inline void DataCacheCleanAndInvalid(const GlobalTensor<T>& dst,
                                                Where where = Where::current()) {
  static_assert(entireType == CacheLine::SINGLE_CACHE_LINE, "the twin cleans one line at a time");
  static_assert(dcciDst != DcciDst::CACHELINE_UB, "this tensor is in global memory");
  weft::twin::here().CleanAndInvalidate(dst.GetPhyAddr(), where);
}
// The scalar unit goes on when its earlier accesses have reached memory.
template <MemDsbT arg0>
__aicore__ inline void DataSyncBarrier(Where where = Where::current()) {
  static_assert(arg0 == MemDsbT::ALL || arg0 == MemDsbT::DDR,
                "the twin has the barrier for global memory only");
  weft::twin::here().DataSyncBarrier(where);
}

// In a kernel of one cube core and two vector cores, the index of an AIV counts both of each block.
__aicore__ inline int64_t GetBlockIdx() {
  const auto& core = weft::twin::here();
  if (core.is_cube()) return core.block();
  return core.block() * 2 + (core.role() == weft::twin::Role::kVector1 ? 1 : 0);
}
__aicore__ inline int64_t GetBlockNum() { return weft::twin::here().blocks(); }
__aicore__ inline int64_t GetSubBlockIdx() {
  return weft::twin::here().role() == weft::twin::Role::kVector1 ? 1 : 0;
}
// Ticks of the device; in the twin, instructions issued by anybody.
__aicore__ inline int64_t GetSystemCycle() { return weft::twin::here().Ticks(); }

}  // namespace AscendC

#define ASCEND_IS_AIC (::weft::twin::here().is_cube())
#define ASCEND_IS_AIV (!::weft::twin::here().is_cube())
