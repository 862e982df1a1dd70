#pragma once
// Program: one of the three programs of a block, with its place in the launch: the teams that it
// belongs to, where its time goes, and what it reports.

#include <cstdint>

#include "barrier.h"
#include "descriptor.h"
#include "memory.h"
#include "pipeline.h"

namespace weft_ascend {

// Whose work an operator is. The others only wait, so their time at the barrier says nothing.
enum class Work : int32_t { kCube, kVector, kBoth };

class Program {
 public:
  __aicore__ inline Program(AscendC::TPipe& pipe, GM_ADDR launch) {
    ReadStruct(launch, launch_);
    block_ = static_cast<int32_t>(AscendC::GetBlockIdx());
    // The index of a vector core counts two to a block.
    if ASCEND_IS_AIV {
      block_ /= kVectorCores;
    }
    ring_ = block_ < launch_.blocks[0] ? 0 : 1;
    for (int32_t kind = 0; kind < kTeamKinds; ++kind) {
      if (InTeam(kind)) {
        barriers_[kind].Init(pipe, Pointer(launch_.barriers[kind]), TeamOf(kind), launch_.spin_cap);
      }
    }
  }

  __aicore__ inline const Launch& launch() const { return launch_; }
  __aicore__ inline int32_t ring() const { return ring_; }
  __aicore__ inline bool failed() const { return report_.code != kNoFault; }

  __aicore__ inline bool InTeam(int32_t kind) const {
    if (kind == kTeamAll) return true;
    return launch_.blocks[1] > 0 && ring_ == (kind == kTeamPrefill ? 0 : 1);
  }
  __aicore__ inline Team TeamOf(int32_t kind) const {
    if (kind == kTeamAll) return {block_, launch_.blocks[0] + launch_.blocks[1]};
    if (kind == kTeamPrefill) return {block_, launch_.blocks[0]};
    return {block_ - launch_.blocks[0], launch_.blocks[1]};
  }
  // Of a team: the one program that speaks for it.
  __aicore__ inline bool Leads(int32_t kind) const {
    return ProgramOfBlock() == 0 && TeamOf(kind).rank == 0;
  }
  // Of a ring's blocks.
  __aicore__ inline bool LeadsRing() const {
    return ProgramOfBlock() == 0 && block_ == (ring_ == 0 ? 0 : launch_.blocks[0]);
  }

  // For the host, by the ring's leader: a layer more has ended, so many quanta are done.
  __aicore__ inline void LayerEnded() {
    if (LeadsRing()) Progress(sizeof(GroupProgress) / 2).Write(++layers_);
  }
  __aicore__ inline void QuantaEnded(int64_t quanta) {
    if (LeadsRing()) Progress(0).Write(quanta);
  }

  // Where this program is, for a report.
  __aicore__ inline void At(int32_t place, int32_t layer) {
    report_.place = place;
    report_.layer = layer;
  }

  __aicore__ inline void StartClock() { mark_ = AscendC::GetSystemCycle(); }

  // Says that this program's part of an operator is done.
  __aicore__ inline void Arrive(int32_t kind, Work work) {
    if (!Counts(work)) return barriers_[kind].Arrive();
    const int64_t now = AscendC::GetSystemCycle();
    report_.operator_cycles += now - mark_;
    barriers_[kind].Arrive();
    mark_ = now;
  }
  // Waits for all other parts. False: the launch is lost.
  __aicore__ inline bool Leave(int32_t kind, Work work) {
    const WaitEnd end = barriers_[kind].Leave();
    const int64_t now = AscendC::GetSystemCycle();
    if (Counts(work)) report_.barrier_cycles += now - mark_;
    mark_ = now;
    if (end != WaitEnd::kDone) lost_barrier_ = true;
    return Went(end, kTeamLost);
  }

  // Whether a wait went well. Otherwise this program is failed, for `code` if that is the cause.
  __aicore__ inline bool Went(WaitEnd end, FaultCode code) {
    if (end == WaitEnd::kDone) return true;
    Fail(end == WaitEnd::kSpinCap ? code : kPeerFailed);
    return false;
  }

  __aicore__ inline void Fail(FaultCode code) {
    report_.code = code;
    Report();
    GiveUp();
  }

  // Nobody is left waiting for this program, which ends.
  __aicore__ inline void GiveUp() {
    for (int32_t kind = 0; kind < kTeamKinds; ++kind) {
      if (!InTeam(kind)) continue;
      barriers_[kind].Abort();
      if (Leads(kind)) Decisions(kind).Abort(kind);
    }
    if (!lost_barrier_) TeamBarrier::Part();
  }

  // Whether the quantum is wanted, as the team's leader finds it.
  __aicore__ inline bool Decide(int32_t kind, GM_ADDR wanted) {
    PipeLine decisions = Decisions(kind);
    const int32_t number = decided_[kind]++;
    if (Leads(kind)) {
      Line line = {};
      ReadStruct(wanted, line);
      decisions.Send(2 * number + (line.words[0] != 0 ? 1 : 0), kind);
    }
    if (!Went(decisions.Wait(2 * number), kDecisionLost)) return false;
    // The next decision is not sent before all have left this quantum's last barrier.
    return decisions.Recv() == 2 * number + 2;
  }

  __aicore__ inline void Report() {
    const int64_t index = block_ * kPrograms + ProgramOfBlock();
    WriteStruct(report_, Pointer(launch_.reports) + index * sizeof(ProgramReport));
  }

 private:
  struct Line {
    int32_t words[kLineWords];
  };

  __aicore__ inline Flag Progress(int64_t offset) const {
    return Flag(Pointer(launch_.progress) + ring_ * sizeof(GroupProgress) + offset);
  }

  __aicore__ inline PipeLine Decisions(int32_t kind) const {
    return PipeLine(Pointer(launch_.decisions), kind, 0, launch_.spin_cap);
  }

  __aicore__ inline static bool Counts(Work work) {
    return work == Work::kVector ? ProgramOfBlock() == 1 : ProgramOfBlock() == 0;
  }

  Launch launch_ = {};
  ProgramReport report_ = {};
  TeamBarrier barriers_[kTeamKinds];
  int32_t decided_[kTeamKinds] = {};
  int32_t block_ = 0;
  int32_t ring_ = 0;
  bool lost_barrier_ = false;
  int64_t layers_ = 0;
  int64_t mark_ = 0;
};

}  // namespace weft_ascend
