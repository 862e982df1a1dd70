#pragma once
// TeamBarrier: all programs of a team's blocks wait for each other.
//
// Each program has a flag (pipeline.h): twice the number of barriers it has come to, and one more
// when it has given up and comes to no others. A vector core looks at
// the flags of the whole team by one copy to UB, again and again until all are far enough; it first
// waits for its own block's cube core alone, so that it loads memory with such copies only while
// blocks wait for each other. A cube core has no way to look at so many words: both vector cores of
// its block tell it by a flag within the block, when they have seen everybody.
//
//   cube core      drain, flag                                      wait for both -> verdict
//   vector core 0  drain, flag -> cube core's flag -> everybody's -> tell
//   vector core 1  drain, flag -> cube core's flag -> everybody's -> tell
//
// What a program wrote before its flag is seen by whoever has seen the flag, and by whom that one
// tells. A flag within the block says no more than that, so whether all had come, the verdict, is
// read from the first vector core's flag: where not all had, it is taken back by one barrier before
// it tells. Who gives up later leaves the verdict as it was.
//
// Nobody waits for ever. A vector core's waits are capped. A cube core's wait has no cap, but both
// vector cores tell it once for each barrier, however theirs ends, and once more if they give up
// elsewhere (Part): each program of a block that has given up goes through Part, or has lost a
// barrier.

#include <cstdint>

#include "pipeline.h"
#include "team.h"

namespace weft_ascend {

// Which of its block's programs this one is: 0 the cube core's, then the vector cores'.
__aicore__ inline int32_t ProgramOfBlock() {
  if ASCEND_IS_AIC {
    return 0;
  }
  return 1 + static_cast<int32_t>(AscendC::GetSubBlockIdx());
}

class TeamBarrier {
 public:
  // `pipe` gives out UB; what lies there does not outlive Leave.
  __aicore__ inline void Init(AscendC::TPipe& pipe, GM_ADDR flags, Team team, int64_t spin_cap) {
    pipe_ = &pipe;
    flags_ = flags;
    programs_ = team.size * kPrograms;
    block_ = team.rank * kPrograms;
    spin_cap_ = spin_cap;
  }

  // Says that this program has come here; what it starts from here on, others need not see.
  __aicore__ inline void Arrive() {
    AscendC::PipeBarrier<PIPE_ALL>();
    ++arrived_;
    Own().Post(2 * arrived_);
  }

  // Returns once all have arrived: what any of them wrote before is there for this one. What this
  // program's pipes were given since Arrive may still be under way.
  __aicore__ inline WaitEnd Leave() {
    WaitEnd end = WaitEnd::kDone;
    if ASCEND_IS_AIC {
      AscendC::DataSyncBarrier<AscendC::MemDsbT::DDR>();
      Own().Hold();
      AscendC::CrossCoreWaitFlag(kBarrierFlag);
      if (!Came(FlagOf(block_ + 1).Read())) end = WaitEnd::kAborted;
    } else {
      end = AwaitCubeCore();
      AscendC::DataSyncBarrier<AscendC::MemDsbT::DDR>();
      if (end == WaitEnd::kDone) end = AwaitAll();
    }
    if (end != WaitEnd::kDone) {
      --arrived_;
      Abort();
    }
    if ASCEND_IS_AIV {
      Part();
    }
    return end;
  }

  // Nobody waits for this program any more: those that do, or will, end with kAborted.
  __aicore__ inline void Abort() { Own().Write(2 * arrived_ + 1); }

  // For a program that has given up, and not at a barrier: the others of its block may be at one.
  __aicore__ inline static void Part() {
    if ASCEND_IS_AIC {
      AscendC::CrossCoreWaitFlag(kBarrierFlag);
    } else {
      AscendC::CrossCoreSetFlag<0x2, PIPE_MTE3>(kBarrierFlag);
      AscendC::PipeBarrier<PIPE_ALL>();
    }
  }

 private:
  static constexpr int32_t kFlagWords = kBarrierFlagBytes / sizeof(int64_t);

  __aicore__ inline bool Came(int64_t flag) const { return flag >= 2 * arrived_; }
  __aicore__ inline static bool GaveUp(int64_t flag) { return flag % 2 != 0; }

  __aicore__ inline WaitEnd AwaitCubeCore() {
    Flag flag = FlagOf(block_);
    for (int64_t looks = 1;; ++looks) {
      const int64_t now = flag.Read();
      if (Came(now)) return WaitEnd::kDone;
      if (GaveUp(now)) return WaitEnd::kAborted;
      if (spin_cap_ > 0 && looks >= spin_cap_) return WaitEnd::kSpinCap;
    }
  }

  __aicore__ inline WaitEnd AwaitAll() {
    pipe_->Reset();
    AscendC::TBuf<AscendC::TPosition::VECIN> buffer;
    pipe_->InitBuffer(buffer, programs_ * kBarrierFlagBytes);
    const AscendC::LocalTensor<int64_t> seen = buffer.Get<int64_t>();
    AscendC::GlobalTensor<int64_t> flags;
    flags.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(flags_));
    int32_t come = 0;  // the first so many programs
    for (int64_t looks = 1;; ++looks) {
      AscendC::DataCopy(seen, flags, programs_ * kFlagWords);
      AscendC::SetFlag<AscendC::HardEvent::MTE2_S>(EVENT_ID0);
      if (looks == 1) Own().Hold();  // while the copy is under way
      AscendC::WaitFlag<AscendC::HardEvent::MTE2_S>(EVENT_ID0);
      for (; come < programs_; ++come) {
        const int64_t flag = seen.GetValue(come * kFlagWords);
        if (Came(flag)) continue;
        if (GaveUp(flag)) return WaitEnd::kAborted;
        break;
      }
      if (come == programs_) return WaitEnd::kDone;
      if (spin_cap_ > 0 && looks >= spin_cap_) return WaitEnd::kSpinCap;
      AscendC::SetFlag<AscendC::HardEvent::S_MTE2>(EVENT_ID0);
      AscendC::WaitFlag<AscendC::HardEvent::S_MTE2>(EVENT_ID0);
    }
  }

  __aicore__ inline Flag FlagOf(int32_t program) const {
    return Flag(flags_ + static_cast<int64_t>(program) * kBarrierFlagBytes);
  }
  __aicore__ inline Flag Own() const { return FlagOf(block_ + ProgramOfBlock()); }

  AscendC::TPipe* pipe_ = nullptr;
  GM_ADDR flags_ = nullptr;
  int32_t programs_ = 0;
  int32_t block_ = 0;  // its first program
  int64_t arrived_ = 0;
  int64_t spin_cap_ = 0;
};

}  // namespace weft_ascend
