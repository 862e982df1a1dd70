#pragma once
// TeamBarrier: all programs of a team's blocks wait for each other.
//
// Each program has a flag (pipeline.h): the number of barriers it has come to, and how it stands at
// the last of them (Standing). A vector core looks at the flags of the whole team by one copy to
// UB, again and again until all are far enough; it first waits for its own block's cube core alone,
// so that it loads memory with such copies only while blocks wait for each other. A cube core has
// no way to look at so many words: both vector cores of its block tell it by a flag within the
// block, when they have seen everybody.
//
//   cube core      drain, flag                                      wait for both -> verdict
//   vector core 0  drain, flag -> cube core's flag -> everybody's -> tell
//   vector core 1  drain, flag -> cube core's flag -> everybody's -> tell
//
// What a program wrote before its flag is seen by whoever has seen the flag, and by whom that one
// tells. A flag within the block says no more than that, so the cube core reads from the first
// vector core's flag whether all had come.
//
// The three programs of a block pass a barrier together or lose it together: within an operator
// they wait for each other without a cap. Who has come never takes it back, so that all had come,
// or that one has given up before, is the same for everybody, whenever they look. Only a cap could
// part them. So only the first vector core's wait has one, and the second waits as long: at its cap
// the first closes the barrier, looks again, and then says whether it was passed; the second passes
// no barrier that it sees closed. Its copies that have not seen that are over before the last look.
//
// Both vector cores tell the cube core once for each barrier, however it ends, and once more if
// they give up elsewhere (Part). So do all three programs of a block, as often: whoever has given
// up goes through Part, the others lose the next barrier.

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
    Own().Post(At(kArrived));
  }

  // Returns once all have arrived: what any of them wrote before is there for this one. What this
  // program's pipes were given since Arrive may still be under way.
  __aicore__ inline WaitEnd Leave() {
    WaitEnd end = WaitEnd::kDone;
    if ASCEND_IS_AIC {
      AscendC::DataSyncBarrier<AscendC::MemDsbT::DDR>();
      Own().Hold();
      AscendC::CrossCoreWaitFlag(kBarrierFlag);
      const int64_t first = FlagOf(block_ + 1).Read();
      if (!Came(first) || first == At(kLost)) end = WaitEnd::kAborted;
    } else {
      AwaitCubeCore();
      AscendC::DataSyncBarrier<AscendC::MemDsbT::DDR>();
      end = AwaitAll();
    }
    if (end != WaitEnd::kDone) {
      lost_ = true;
      Abort();
    }
    if ASCEND_IS_AIV {
      Part();
    }
    return end;
  }

  // Nobody waits for this program any more: those that do, or will, end with kAborted.
  __aicore__ inline void Abort() { Own().Write(At(lost_ ? kLost : kGaveUp)); }

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

  // Looks of the first vector core after it has closed a barrier.
  static constexpr int64_t kLastLooks = 16;

  // In a flag's value beside the number of barriers; a flag only grows.
  enum Standing : int64_t {
    kArrived = 0,
    kClosed = 1,    // of the first vector core: it says next whether this one was passed or lost
    kReopened = 2,  // it was passed
    kLost = 3,      // it was lost: this program comes to no other
    kGaveUp = 4,    // it was passed, and this program comes to no other
    kStandings = 8,
  };

  __aicore__ inline int64_t At(Standing standing) const { return kStandings * arrived_ + standing; }
  __aicore__ inline bool Came(int64_t flag) const { return flag >= At(kArrived); }
  __aicore__ inline static bool GaveUp(int64_t flag) { return flag % kStandings >= kLost; }

  // Or until it is clear that it does not come, which AwaitAll finds.
  __aicore__ inline void AwaitCubeCore() {
    Flag flag = FlagOf(block_);
    for (int64_t looks = 1;; ++looks) {
      const int64_t now = flag.Read();
      if (Came(now) || GaveUp(now) || looks == spin_cap_) return;
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
      if (ProgramOfBlock() != 1) {
        const int64_t first = seen.GetValue((block_ + 1) * kFlagWords);
        if (first == At(kLost)) return WaitEnd::kAborted;
        if (come == programs_ && first != At(kClosed)) return WaitEnd::kDone;
      } else if (come == programs_) {
        if (spin_cap_ > 0 && looks > spin_cap_) Own().Write(At(kReopened));
        return WaitEnd::kDone;
      } else if (spin_cap_ > 0) {
        if (looks == spin_cap_) Own().Write(At(kClosed));
        if (looks == spin_cap_ + kLastLooks) return WaitEnd::kSpinCap;
      }
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
  bool lost_ = false;  // the last one
  int64_t spin_cap_ = 0;
};

}  // namespace weft_ascend
