#pragma once
// TeamBarrier: all programs of a team's blocks wait for each other, by flags (pipeline.h).
//
// A dissemination barrier: in round r each program sends to the one 2^r places on and waits for
// the one 2^r places back, so that after log2 rounds everybody has heard of everybody, and no
// program waits for more than one flag at a time. Each round has a flag for each receiver, which
// only the one sender writes.

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
  __aicore__ inline void Init(GM_ADDR flags, Team team, int64_t spin_cap) {
    flags_ = flags;
    programs_ = team.size * kPrograms;
    place_ = team.rank * kPrograms + ProgramOfBlock();
    spin_cap_ = spin_cap;
  }

  // Says that this program has come here; what it starts from here on, others need not see.
  __aicore__ inline void Arrive() {
    AscendC::PipeBarrier<PIPE_ALL>();
    ++arrived_;
    Tell(0, arrived_);
  }

  // Returns once all have arrived: what any of them wrote before is there for this one.
  __aicore__ inline WaitEnd Leave() {
    const int32_t rounds = BarrierRounds(programs_);
    WaitEnd end = WaitEnd::kDone;
    for (int32_t round = 0; round < rounds && end == WaitEnd::kDone; ++round) {
      if (round > 0) Tell(round, arrived_);
      end = FlagOf(round, place_).Await(arrived_, spin_cap_);
    }
    AscendC::PipeBarrier<PIPE_ALL>();
    return end;
  }

  // Nobody waits for this program any more: those that do, or will, end with kAborted.
  __aicore__ inline void Abort() {
    const int32_t rounds = BarrierRounds(programs_);
    for (int32_t round = 0; round < rounds; ++round) Tell(round, kAborted);
  }

 private:
  __aicore__ inline void Tell(int32_t round, int64_t value) {
    FlagOf(round, (place_ + (1 << round)) % programs_).Write(value);
  }
  __aicore__ inline Flag FlagOf(int32_t round, int32_t receiver) const {
    const int64_t index = static_cast<int64_t>(round) * programs_ + receiver;
    return Flag(flags_ + index * kFlagBytes);
  }

  GM_ADDR flags_ = nullptr;
  int32_t programs_ = 0;
  int32_t place_ = 0;
  int64_t arrived_ = 0;
  int64_t spin_cap_ = 0;
};

}  // namespace weft_ascend
