#include "time/replay.h"

#include <gtest/gtest.h>

#include "time/memory_system.h"

namespace weft::timing {
namespace {

using Kind = Record::Kind;

// A chip whose times are easy to say.
ChipModel plain() {
  ChipModel model;
  model.frequency = 1e9;  // a cycle is a nanosecond
  model.hbm_bandwidth = 200e9;
  model.l2_bandwidth = 1e15;
  model.cube_hbm_rate = model.vector_hbm_rate = 100e9;
  model.cube_l2_rate = model.vector_l2_rate = 200;
  model.cube_write_rate = model.vector_write_rate = 100;
  model.hbm_latency = model.l2_latency = 0;
  model.scalar_issue = model.scalar_flag = model.flag_cycles = 0;
  model.cube_latency = model.load_latency = model.vector_latency = 0;
  model.fixpipe_rate = 1e9;
  model.sector = 1;
  return model;
}

class Stream {
 public:
  explicit Stream(int programs = kProgramsOfCore) { recording_.programs.resize(programs); }

  void Compute(int program, pipe_t pipe, float cycles) {
    Add(program, Kind::kCompute, pipe).cycles = cycles;
  }
  void Load(int program, uint64_t place, uint32_t bytes) {
    Add(program, Kind::kCopy, PIPE_MTE2).index = static_cast<uint32_t>(recording_.copies.size());
    recording_.copies.push_back({place, 0, 1, bytes, false});
  }
  Record& Add(int program, Kind kind, pipe_t pipe = PIPE_S) {
    Record& record = recording_.programs[static_cast<size_t>(program)].emplace_back();
    record.kind = kind;
    record.pipe = pipe;
    return record;
  }
  void Flag(int program, Kind kind, pipe_t pipe, AscendC::HardEvent event) {
    Add(program, kind, pipe).event = static_cast<uint8_t>(event);
  }
  Recording& recording() { return recording_; }

 private:
  Recording recording_;
};

double ns(const Timing& timing) { return timing.seconds * 1e9; }

TEST(Replay, PipesRunBesideEachOther) {
  Stream stream;
  stream.Compute(0, PIPE_M, 100);
  stream.Compute(0, PIPE_MTE1, 70);
  stream.Compute(0, PIPE_M, 50);
  EXPECT_NEAR(ns(replay(plain(), stream.recording())), 150, 1e-6);
}

TEST(Replay, AFlagJoinsTwoClocks) {
  Stream stream;
  stream.Compute(0, PIPE_MTE1, 70);
  stream.Flag(0, Kind::kSetFlag, PIPE_MTE1, AscendC::HardEvent::MTE1_M);
  stream.Flag(0, Kind::kWaitFlag, PIPE_M, AscendC::HardEvent::MTE1_M);
  stream.Compute(0, PIPE_M, 100);
  stream.Compute(0, PIPE_MTE1, 20);  // does not wait
  const Timing timing = replay(plain(), stream.recording());
  EXPECT_NEAR(ns(timing), 170, 1e-6);
  EXPECT_NEAR(timing.programs[0].busy[PIPE_MTE1] * 1e9, 90, 1e-6);
}

TEST(Replay, ABarrierWaitsForResultsAndThePipeAloneDoesNot) {
  ChipModel model = plain();
  model.vector_latency = 30;
  for (const bool barrier : {false, true}) {
    Stream stream;
    stream.Compute(1, PIPE_V, 10);
    if (barrier) stream.Add(1, Kind::kBarrier, PIPE_V);
    stream.Compute(1, PIPE_V, 10);
    EXPECT_NEAR(ns(replay(model, stream.recording())), barrier ? 80 : 50, 1e-6);
  }
}

TEST(Replay, TheScalarUnitIssuesInOrder) {
  ChipModel model = plain();
  model.scalar_issue = 10;
  Stream stream;
  for (int i = 0; i < 5; ++i) stream.Compute(0, PIPE_M, 1);
  EXPECT_NEAR(ns(replay(model, stream.recording())), 51, 1e-6);
}

TEST(Replay, AFullQueueHoldsTheScalarUnit) {
  ChipModel model = plain();
  model.issue_queue = 2;
  Stream stream;
  for (int i = 0; i < 4; ++i) stream.Compute(0, PIPE_M, 100);
  stream.Compute(0, PIPE_MTE1, 1);  // issued when the fourth of the others found room
  EXPECT_NEAR(replay(model, stream.recording()).programs[0].end * 1e9, 400, 1e-6);
}

TEST(Replay, CopiesShareTheBandwidth) {
  ChipModel model = plain();
  model.copy_start = model.copy_piece = 0;
  // One core: its own way of 100 bytes a nanosecond. Four: a quarter each of 200.
  for (const int cores : {1, 2, 4}) {
    Stream stream(kProgramsOfCore * cores);
    for (int core = 0; core < cores; ++core)
      stream.Load(core * kProgramsOfCore, static_cast<uint64_t>(core) << 20U, 51200);
    const Timing timing = replay(model, stream.recording());
    EXPECT_NEAR(ns(timing), cores == 4 ? 1024 : 512, 1e-6) << cores;
    EXPECT_EQ(timing.hbm_bytes, 51200.0 * cores);
  }
}

TEST(Replay, WhatL2HoldsComesFaster) {
  ChipModel model = plain();
  model.copy_start = model.copy_piece = 0;
  Stream stream;
  stream.Load(0, 0, 51200);
  stream.Load(0, 0, 51200);
  const Timing timing = replay(model, stream.recording());
  EXPECT_NEAR(ns(timing), 512 + 256, 1e-6);
  EXPECT_EQ(timing.hbm_bytes, 51200);
}

TEST(Replay, AFlagInMemoryTakesItsLatency) {
  ChipModel model = plain();
  model.flag_latency = 200e-9;
  model.scalar_miss = 100e-9;
  model.scalar_refresh = 0;
  Stream stream(2 * kProgramsOfCore);
  stream.Add(0, Kind::kScalar).cycles = 1000;
  stream.Add(0, Kind::kPublish).index = 0;
  stream.Add(3, Kind::kAwait).index = 0;
  stream.recording().publishes = 1;
  // In memory at 1200; looks begin every 100, and the one at 1200 sees it, halfway, at 1250.
  EXPECT_NEAR(replay(model, stream.recording()).programs[3].end * 1e9, 1300, 1e-6);
}

// Each look is a copy with its start; the bytes of those that see nothing are moved too.
TEST(Replay, ALookIsMadeAgainUntilTheFlagsAreThere) {
  ChipModel model = plain();
  model.flag_latency = 200e-9;
  model.scalar_cached = 0;
  model.l2_latency = model.hbm_latency = 50e-9;
  model.latency_spread = 0;
  Stream stream(2 * kProgramsOfCore);
  Recording& recording = stream.recording();
  for (const uint32_t sender : {0U, 1U}) {
    stream.Add(static_cast<int>(sender), Kind::kScalar).cycles =
        500 * (1.0F + static_cast<float>(sender));
    stream.Add(static_cast<int>(sender), Kind::kPublish).index = sender;
  }
  recording.publishes = 2;
  recording.copies.push_back({0, 0, 1, 200, false});
  recording.looks.push_back({0, {0, 1}});
  Record& look = stream.Add(4, Kind::kLook, PIPE_MTE2);
  look.index = 0;
  look.cycles = 49;
  // Both there at 1200. The first look moves 200 bytes from HBM at 49 and has them at 51 + 50, the
  // others from L2, a nanosecond each, every 100. That at 1250 sees both.
  const Timing timing = replay(model, recording);
  EXPECT_NEAR(timing.programs[4].end * 1e9, 1250 + 1 + 50, 1e-6);
  EXPECT_EQ(timing.hbm_bytes, 200);
}

TEST(Replay, BothVectorCoresSetACrossFlagForTheCubeCore) {
  ChipModel model = plain();
  model.cross_latency = 50e-9;
  Stream stream;
  stream.Compute(1, PIPE_MTE3, 100);
  stream.Compute(2, PIPE_MTE3, 300);
  for (const int program : {1, 2}) stream.Add(program, Kind::kCrossSet, PIPE_MTE3).event = 2;
  stream.Add(0, Kind::kCrossWait);
  EXPECT_NEAR(replay(model, stream.recording()).programs[0].end * 1e9, 350, 1e-6);
}

TEST(L2, TheOldestLinesOfASetGoFirst) {
  L2Lines lines(1 << 20);
  const Copy all{.place = 0, .stride = 0, .count = 1, .length = 1 << 19, .write = false};
  EXPECT_EQ(lines.Touch(all), uint64_t{1} << 19);
  EXPECT_EQ(lines.Touch(all), 0U);
  const Copy more{.place = 1 << 24, .stride = 0, .count = 1, .length = 4 << 20, .write = false};
  lines.Touch(more);
  EXPECT_GT(lines.Touch(all), uint64_t{1} << 18);
}

TEST(L2, PiecesOfALineCountOnce) {
  L2Lines lines(1 << 20);
  EXPECT_EQ(lines.Touch({.place = 0, .stride = 64, .count = 8, .length = 32, .write = false}),
            512U);
}

}  // namespace
}  // namespace weft::timing
