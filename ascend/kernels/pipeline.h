#pragma once
// PipeLine: how far the cores of one group have come, for those of another.
//
// A flag is a counter in global memory, alone on its line: one program writes it, any may read it,
// and it only grows. Whoever has waited for a value sees all that the writer had written before it
// sent it. No hardware primitive does this between chosen cores: it rests on the order in which
// data, the scalar cache's line and the flag are written (docs/ascend.md).

#include <cstdint>

#include "flag_layout.h"
#include "kernel_operator.h"

namespace weft_ascend {

// How a wait ended.
enum class WaitEnd : int32_t {
  kDone = 0,
  kSpinCap = 1,  // the flag did not move for as many looks as allowed: a Send was lost
  kAborted = 2,  // its writer has met an error
};

// One flag.
class Flag {
 public:
  __aicore__ inline explicit Flag(GM_ADDR line) {
    line_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(line));
  }

  // What this program's pipes have written must have arrived before (PipeBarrier<PIPE_ALL>).
  __aicore__ inline void Write(int64_t value) {
    Refresh();
    Post(value);
    AscendC::DataSyncBarrier<AscendC::MemDsbT::DDR>();
  }

  // The same on a line that no other program ever writes, and returns before it is in memory.
  __aicore__ inline void Post(int64_t value) {
    line_.SetValue(0, value);
    Refresh();
  }

  // Brings such a line into this core's cache, where the next Post finds it.
  __aicore__ inline void Hold() { (void)line_.GetValue(0); }

  __aicore__ inline int64_t Read() {
    Refresh();
    return line_.GetValue(0);
  }

  // Looks until the flag is at least `value`, at most `cap` times; 0: for ever, for what a host
  // writes.
  __aicore__ inline WaitEnd Await(int64_t value, int64_t cap) {
    int64_t looks = 0;
    for (;;) {
      const int64_t now = Read();
      if (now == kAborted) return WaitEnd::kAborted;
      if (now >= value) return WaitEnd::kDone;
      if (cap > 0 && ++looks >= cap) return WaitEnd::kSpinCap;
    }
  }

 private:
  // Writes the line back if this core has changed it, and forgets it: the next look is at memory.
  __aicore__ inline void Refresh() {
    AscendC::DataCacheCleanAndInvalid<int64_t, AscendC::CacheLine::SINGLE_CACHE_LINE,
                                      AscendC::DcciDst::CACHELINE_OUT>(line_);
  }

  AscendC::GlobalTensor<int64_t> line_;
};

// One end of flags between cores, or groups of them, by number: a core receives on the flag of its
// own number, which one sender at a time writes. Layers are counted from 0 in every use of a flag;
// since flags only grow, each use counts on from a base that both ends know.
class PipeLine {
 public:
  __aicore__ inline PipeLine(GM_ADDR flags, int32_t own, int64_t base, int64_t spin_cap)
      : flags_(flags), own_(own), base_(base), spin_cap_(spin_cap) {}

  // Everything that this program has written so far, and what it has waited for, is there for who
  // receives the layer. Does not block.
  __aicore__ inline void Send(int32_t layer, int32_t core) {
    AscendC::PipeBarrier<PIPE_ALL>();
    FlagOf(core).Write(base_ + layer + 1);
  }

  // Layers received so far, without waiting; -1: the sender has given up.
  __aicore__ inline int32_t Recv() {
    const int64_t value = FlagOf(own_).Read();
    if (value == kAborted) return -1;
    return value < base_ ? 0 : static_cast<int32_t>(value - base_);
  }

  // Returns once the layer was received; what it brought may then be read by MTE2.
  __aicore__ inline WaitEnd Wait(int32_t layer) {
    const WaitEnd ended = FlagOf(own_).Await(base_ + layer + 1, spin_cap_);
    AscendC::PipeBarrier<PIPE_ALL>();
    return ended;
  }

  // Ends every wait on that core's flag, now and later.
  __aicore__ inline void Abort(int32_t core) { FlagOf(core).Write(kAborted); }

 private:
  __aicore__ inline Flag FlagOf(int32_t core) const {
    return Flag(flags_ + static_cast<int64_t>(core) * kFlagBytes);
  }

  GM_ADDR flags_;
  int32_t own_;
  int64_t base_;
  int64_t spin_cap_;
};

}  // namespace weft_ascend
