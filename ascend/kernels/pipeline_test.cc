#include "pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "barrier.h"
#include "kernel_testing.h"
#include "twin.h"

namespace weft_ascend {
namespace {

using ::testing::HasSubstr;
using weft::twin::Device;
using weft::twin::Options;
using weft::twin::Outcome;

constexpr int64_t kSpinCap = 2000;
constexpr int kFloats = 256;  // of a layer's data

Options options(uint64_t seed, int cores) {
  Options options;
  options.chip.cores = cores;
  options.seed = seed;
  return options;
}

// Device memory that a test reads and writes as values.
template <class T>
class Global {
 public:
  Global(Device& device, size_t count) : device_(device), count_(count) {
    data_ = static_cast<T*>(device.Allocate(count * sizeof(T)));
    const std::vector<T> zeros(count);
    device.Copy(data_, zeros.data(), count * sizeof(T));
  }
  ~Global() { device_.Free(data_); }
  Global(const Global&) = delete;
  Global& operator=(const Global&) = delete;

  GM_ADDR address() const { return reinterpret_cast<GM_ADDR>(data_); }
  std::vector<T> values() const {
    std::vector<T> values(count_);
    device_.Copy(values.data(), data_, count_ * sizeof(T));
    return values;
  }

 private:
  Device& device_;
  size_t count_;
  T* data_;
};

constexpr size_t kFlagWords = kFlagBytes / sizeof(int64_t);

// Fills `count` floats of global memory with one value, by the vector core's pipes.
void Fill(GM_ADDR to, float value) {
  AscendC::TPipe pipe;
  AscendC::TBuf<AscendC::TPosition::VECOUT> buffer;
  pipe.InitBuffer(buffer, kFloats * sizeof(float));
  AscendC::LocalTensor<float> local = buffer.Get<float>();
  AscendC::Duplicate(local, value, kFloats);
  AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(EVENT_ID0);
  AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(EVENT_ID0);
  AscendC::GlobalTensor<float> global;
  global.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(to));
  AscendC::DataCopy(global, local, kFloats);
}

// to = from + 1, the same way.
void AddOne(GM_ADDR from, GM_ADDR to) {
  AscendC::TPipe pipe;
  AscendC::TBuf<AscendC::TPosition::VECIN> in_buffer;
  AscendC::TBuf<AscendC::TPosition::VECOUT> out_buffer;
  pipe.InitBuffer(in_buffer, kFloats * sizeof(float));
  pipe.InitBuffer(out_buffer, kFloats * sizeof(float));
  AscendC::LocalTensor<float> in = in_buffer.Get<float>();
  AscendC::LocalTensor<float> out = out_buffer.Get<float>();
  AscendC::GlobalTensor<float> source;
  AscendC::GlobalTensor<float> target;
  source.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(from));
  target.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(to));
  AscendC::DataCopy(in, source, kFloats);
  AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(EVENT_ID0);
  AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(EVENT_ID0);
  AscendC::Adds(out, in, 1.0F, kFloats);
  AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(EVENT_ID0);
  AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(EVENT_ID0);
  AscendC::DataCopy(target, out, kFloats);
}

// A row of one number to global memory, from a vector core.
void Row(AscendC::TPipe& pipe, GM_ADDR to, float value) {
  AscendC::TBuf<AscendC::TPosition::VECCALC> others;  // where the barrier works
  AscendC::TBuf<AscendC::TPosition::VECOUT> buffer;
  pipe.InitBuffer(others, 4096);
  pipe.InitBuffer(buffer, kFloats * sizeof(float));
  const AscendC::LocalTensor<float> row = buffer.Get<float>();
  AscendC::GlobalTensor<float> target;
  target.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(to));
  AscendC::Duplicate(row, value, kFloats);
  AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(EVENT_ID0);
  AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(EVENT_ID0);
  AscendC::DataCopy(target, row, kFloats);
}

// A row from global memory, which a vector core copies to another place.
void Fetch(AscendC::TPipe& pipe, GM_ADDR from, GM_ADDR to) {
  AscendC::GlobalTensor<float> source;
  source.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(from));
  if ASCEND_IS_AIC {
    AscendC::TBuf<AscendC::TPosition::A1> buffer;
    pipe.InitBuffer(buffer, kFloats * sizeof(float));
    AscendC::DataCopy(buffer.Get<float>(), source, kFloats);
    return;
  }
  AscendC::TBuf<AscendC::TPosition::VECIN> buffer;
  pipe.InitBuffer(buffer, kFloats * sizeof(float));
  const AscendC::LocalTensor<float> row = buffer.Get<float>();
  AscendC::GlobalTensor<float> target;
  target.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(to));
  AscendC::DataCopy(row, source, kFloats);
  AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE3>(EVENT_ID0);
  AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE3>(EVENT_ID0);
  AscendC::DataCopy(target, row, kFloats);
}

int32_t Block() {
  const auto index = static_cast<int32_t>(AscendC::GetBlockIdx());
  if ASCEND_IS_AIV {
    return index / kVectorCores;
  }
  return index;
}

bool IsFirstVectorCore() {
  if ASCEND_IS_AIV {
    return AscendC::GetSubBlockIdx() == 0;
  }
  return false;
}

// Block 0 writes a layer after the other and sends each to block 1, which follows: it adds one to
// each layer and sends it on to block 2, which writes down how far the second is when it looks.
void ChainKernel(GM_ADDR flags, GM_ADDR data, GM_ADDR copies, GM_ADDR ends, int32_t layers,
                 int32_t lost) {
  if (!IsFirstVectorCore()) return;
  const int32_t block = Block();
  constexpr int64_t kBase = 1000;  // of a flag that has been used before
  PipeLine line(flags, block, kBase, kSpinCap);
  for (int32_t layer = 0; layer < layers; ++layer) {
    const int64_t at = static_cast<int64_t>(layer) * kFloats * static_cast<int64_t>(sizeof(float));
    WaitEnd end = WaitEnd::kDone;
    if (block == 0) {
      Fill(data + at, static_cast<float>(layer));
      if (layer != lost) line.Send(layer, 1);
    } else {
      end = line.Wait(layer);
      if (end == WaitEnd::kDone && block == 1) {
        if (line.Recv() <= layer) end = WaitEnd::kSpinCap;
        AddOne(data + at, copies + at);
        line.Send(layer, 2);
      }
    }
    if (end != WaitEnd::kDone) {
      Flag(ends + block * kFlagBytes).Write(static_cast<int64_t>(end));
      if (block == 1) line.Abort(2);
      return;
    }
  }
}

struct ChainResult {
  std::string fault;
  std::vector<float> copies;
  std::vector<int64_t> ends;
};

ChainResult RunChain(uint64_t seed, int32_t layers, int32_t lost) {
  Device device(options(seed, 3));
  Global<int64_t> flags(device, 3 * kFlagWords);
  Global<float> data(device, static_cast<size_t>(layers) * kFloats);
  Global<float> copies(device, static_cast<size_t>(layers) * kFloats);
  Global<int64_t> ends(device, 3 * kFlagWords);
  device.Launch<&ChainKernel>(3, flags.address(), data.address(), copies.address(), ends.address(),
                              layers, lost);
  const Outcome outcome = device.Run();
  ChainResult result;
  if (outcome == Outcome::kFault) result.fault = device.fault()->text();
  result.copies = copies.values();
  const std::vector<int64_t> words = ends.values();
  for (size_t i = 0; i < 3; ++i) result.ends.push_back(words[i * kFlagWords]);
  return result;
}

TEST(PipeLine, WhoWaitsForALayerSeesWhatWasWrittenBefore) {
  constexpr int32_t kLayers = 6;
  for (int seed = 1; seed <= weft_ascend::testing::Seeds(); ++seed) {
    const ChainResult result = RunChain(static_cast<uint64_t>(seed), kLayers, -1);
    ASSERT_EQ(result.fault, "") << "seed " << seed;
    for (int32_t layer = 0; layer < kLayers; ++layer) {
      for (int i = 0; i < kFloats; ++i) {
        ASSERT_EQ(result.copies[static_cast<size_t>(layer * kFloats + i)],
                  static_cast<float>(layer) + 1)
            << "seed " << seed;
      }
    }
    EXPECT_THAT(result.ends, ::testing::Each(0));
  }
}

TEST(PipeLine, ALostSendEndsTheWaitsAtTheirCap) {
  for (int seed = 1; seed <= 5; ++seed) {
    const ChainResult result = RunChain(static_cast<uint64_t>(seed), 4, 3);
    ASSERT_EQ(result.fault, "") << "seed " << seed;
    EXPECT_EQ(result.ends[1], static_cast<int64_t>(WaitEnd::kSpinCap));
    // The one that follows hears of it, or is at its own cap.
    EXPECT_NE(result.ends[2], static_cast<int64_t>(WaitEnd::kDone));
  }
}

// Each program of each block adds its number to a cell in turns that only a barrier orders: what a
// program writes in round r is read by the next program in round r + 1.
void RingKernel(GM_ADDR flags, GM_ADDR cells, GM_ADDR ends, int32_t rounds, int32_t absent) {
  const Team team{Block(), static_cast<int32_t>(AscendC::GetBlockNum())};
  const int32_t programs = team.size * kPrograms;
  const int32_t place = team.rank * kPrograms + ProgramOfBlock();
  if (place == absent) return TeamBarrier::Part();
  AscendC::TPipe pipe;
  TeamBarrier barrier;
  barrier.Init(pipe, flags, team, kSpinCap);
  int64_t value = place;
  for (int32_t round = 0; round < rounds; ++round) {
    Flag own(cells + (round * programs + place) * kFlagBytes);
    own.Write(value);
    barrier.Arrive();
    const WaitEnd end = barrier.Leave();
    if (end != WaitEnd::kDone) {
      Flag(ends + place * kFlagBytes).Write(static_cast<int64_t>(end));
      return;
    }
    const int32_t next = (place + 1) % programs;
    value = Flag(cells + (round * programs + next) * kFlagBytes).Read();
  }
  Flag(ends + place * kFlagBytes).Write(-1 - value);
}

std::vector<int64_t> RunRing(uint64_t seed, int32_t blocks, int32_t rounds, int32_t absent) {
  Device device(options(seed, blocks));
  const auto programs = static_cast<size_t>(blocks * kPrograms);
  Global<int64_t> flags(device, static_cast<size_t>(BarrierBytes(blocks)) / sizeof(int64_t));
  Global<int64_t> cells(device, programs * static_cast<size_t>(rounds) * kFlagWords);
  Global<int64_t> ends(device, programs * kFlagWords);
  device.Launch<&RingKernel>(blocks, flags.address(), cells.address(), ends.address(), rounds,
                             absent);
  EXPECT_EQ(device.Run(), Outcome::kEnded)
      << "seed " << seed << ": " << (device.fault() ? device.fault()->text() : "");
  const std::vector<int64_t> words = ends.values();
  std::vector<int64_t> result;
  for (size_t i = 0; i < programs; ++i) result.push_back(words[i * kFlagWords]);
  return result;
}

TEST(TeamBarrier, AllProgramsOfATeamMeetInEveryRound) {
  constexpr int32_t kRounds = 4;
  for (int seed = 1; seed <= weft_ascend::testing::Seeds(); ++seed) {
    const int32_t blocks = 1 + seed % 4;
    const std::vector<int64_t> ends = RunRing(static_cast<uint64_t>(seed), blocks, kRounds, -1);
    const auto programs = static_cast<int64_t>(ends.size());
    for (int64_t place = 0; place < programs; ++place) {
      EXPECT_EQ(ends[static_cast<size_t>(place)], -1 - (place + kRounds) % programs)
          << "seed " << seed;
    }
  }
}

TEST(TeamBarrier, WhoDoesNotComeIsWaitedForUpToTheCap) {
  for (int seed = 1; seed <= 5; ++seed) {
    const std::vector<int64_t> ends = RunRing(static_cast<uint64_t>(seed), 2, 2, 3);
    for (size_t place = 0; place < ends.size(); ++place) {
      if (place == 3) continue;
      EXPECT_TRUE(ends[place] == static_cast<int64_t>(WaitEnd::kSpinCap) ||
                  ends[place] == static_cast<int64_t>(WaitEnd::kAborted))
          << "program " << place << " ended with " << ends[place];
    }
  }
}

// The first `first` blocks are one team, the others another. In each round a vector core writes its
// row, its team meets, and all programs fetch the row of a vector core of the next block; then they
// meet again, since rows are written anew. `late` programs write theirs after they have arrived.
void RowsKernel(GM_ADDR flags, GM_ADDR rows, GM_ADDR copies, int32_t first, int32_t rounds,
                int32_t late) {
  const int32_t block = Block();
  const bool second = block >= first;
  const auto blocks = static_cast<int32_t>(AscendC::GetBlockNum());
  const Team team = second ? Team{block - first, blocks - first} : Team{block, first};
  AscendC::TPipe pipe;
  TeamBarrier barrier;
  barrier.Init(pipe, flags + (second ? BarrierBytes(first) : 0), team, 0);
  constexpr int64_t kRowBytes = kFloats * sizeof(float);
  const int32_t half = ProgramOfBlock() == 2 ? 1 : 0;
  const int64_t own = block * kVectorCores + half;
  const int64_t next = (block - team.rank + (team.rank + 1) % team.size) * kVectorCores + half;
  for (int32_t round = 0; round < rounds; ++round) {
    pipe.Reset();
    if ASCEND_IS_AIV {
      if (block != late) Row(pipe, rows + own * kRowBytes, static_cast<float>(own + 1000 * round));
    }
    barrier.Arrive();
    if ASCEND_IS_AIV {
      if (block == late) Row(pipe, rows + own * kRowBytes, static_cast<float>(own + 1000 * round));
    }
    barrier.Leave();
    pipe.Reset();
    Fetch(pipe, rows + next * kRowBytes,
          copies + (round * blocks * kVectorCores + own) * kRowBytes);
    barrier.Arrive();
    barrier.Leave();
  }
}

struct RowsResult {
  std::string fault;
  std::vector<float> copies;
};

RowsResult RunRows(uint64_t seed, int32_t first, int32_t second, int32_t rounds, int32_t late) {
  const int32_t blocks = first + second;
  Device device(options(seed, blocks));
  const auto floats = static_cast<size_t>(blocks * kVectorCores * kFloats);
  Global<uint8_t> flags(device, static_cast<size_t>(BarrierBytes(first) + BarrierBytes(second)));
  Global<float> rows(device, floats);
  Global<float> copies(device, floats * static_cast<size_t>(rounds));
  device.Launch<&RowsKernel>(blocks, flags.address(), rows.address(), copies.address(), first,
                             rounds, late);
  RowsResult result;
  if (device.Run() == Outcome::kFault) result.fault = device.fault()->text();
  result.copies = copies.values();
  return result;
}

// Of which number the row is that a vector core fetches.
int32_t NextRow(int32_t row, int32_t begin, int32_t size) {
  const int32_t rank = row / kVectorCores - begin;
  return (begin + (rank + 1) % size) * kVectorCores + row % kVectorCores;
}

void ExpectRows(uint64_t seed, int32_t first, int32_t second, int32_t rounds) {
  const RowsResult result = RunRows(seed, first, second, rounds, -1);
  ASSERT_EQ(result.fault, "") << "seed " << seed;
  const int32_t all = (first + second) * kVectorCores;
  for (int32_t i = 0; i < all * rounds; ++i) {
    const int32_t row = i % all;
    const int32_t next =
        row < first * kVectorCores ? NextRow(row, 0, first) : NextRow(row, first, second);
    for (int j = 0; j < kFloats; ++j) {
      ASSERT_EQ(result.copies[static_cast<size_t>(i * kFloats + j)],
                static_cast<float>(next + i / all * 1000))
          << "seed " << seed << ", row " << row << " of round " << i / all;
    }
  }
}

TEST(TeamBarrier, TwoTeamsOfAnySizeSeeWhatTheirOwnHaveWritten) {
  constexpr std::array<std::array<int32_t, 2>, 5> kSizes = {
      {{1, 2}, {2, 3}, {3, 5}, {5, 1}, {3, 2}}};
  for (int seed = 1; seed <= weft_ascend::testing::Seeds(); ++seed) {
    const auto [first, second] = kSizes[static_cast<size_t>(seed) % kSizes.size()];
    ExpectRows(static_cast<uint64_t>(seed), first, second, 3);
  }
}

TEST(TeamBarrier, ThirtyTwoBlocksAndAnotherTeam) {
  for (uint64_t seed = 1; seed <= 5; ++seed) ExpectRows(seed, 32, 3, 2);
}

// What is written after Arrive, or not drained before it, is not there for others.
TEST(TeamBarrier, WhatIsWrittenAfterArriveIsARace) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const RowsResult result = RunRows(seed, 2, 3, 2, 3);
    EXPECT_THAT(result.fault, HasSubstr("no flag after it that this core has waited for"))
        << "seed " << seed;
  }
}

// One program gives up before the last round, all others come to it.
void GiveUpKernel(GM_ADDR flags, GM_ADDR ends, int32_t rounds, int32_t leaves) {
  const Team team{Block(), static_cast<int32_t>(AscendC::GetBlockNum())};
  const int32_t place = team.rank * kPrograms + ProgramOfBlock();
  AscendC::TPipe pipe;
  TeamBarrier barrier;
  barrier.Init(pipe, flags, team, 0);
  WaitEnd end = WaitEnd::kDone;
  for (int32_t round = 0; round < rounds && end == WaitEnd::kDone; ++round) {
    if (round + 1 == rounds && place == leaves) {
      barrier.Abort();
      return TeamBarrier::Part();
    }
    barrier.Arrive();
    end = barrier.Leave();
  }
  Flag(ends + place * kFlagBytes).Write(static_cast<int64_t>(end));
}

TEST(TeamBarrier, WhoGivesUpIsHeardOfByAll) {
  constexpr int32_t kBlocks = 3;
  for (int seed = 1; seed <= weft_ascend::testing::Seeds(); ++seed) {
    const int32_t leaves = seed % (kBlocks * kPrograms);
    Device device(options(static_cast<uint64_t>(seed), kBlocks));
    Global<uint8_t> flags(device, static_cast<size_t>(BarrierBytes(kBlocks)));
    Global<int64_t> ends(device, kBlocks * kPrograms * kFlagWords);
    device.Launch<&GiveUpKernel>(kBlocks, flags.address(), ends.address(), 3, leaves);
    ASSERT_EQ(device.Run(), Outcome::kEnded)
        << "seed " << seed << ": " << (device.fault() ? device.fault()->text() : "");
    const std::vector<int64_t> words = ends.values();
    for (int32_t place = 0; place < kBlocks * kPrograms; ++place) {
      if (place == leaves) continue;
      EXPECT_EQ(words[static_cast<size_t>(place) * kFlagWords],
                static_cast<int64_t>(WaitEnd::kAborted))
          << "seed " << seed << ", program " << place;
    }
  }
}

// The last block's cube core comes late to round 1, after about as many looks as the vector cores
// of block 1 have; these are not the same for both. The vector cores and the cube core of a block
// wait for each other within each round, as operators do.
void LateKernel(GM_ADDR flags, GM_ADDR ends, GM_ADDR idle, int32_t rounds, int32_t late_looks,
                int32_t first_cap, int32_t second_cap) {
  const Team team{Block(), static_cast<int32_t>(AscendC::GetBlockNum())};
  const int32_t program = ProgramOfBlock();
  const int32_t place = team.rank * kPrograms + program;
  const int32_t cap = team.rank != 1 ? 20 * late_looks : (program == 1 ? first_cap : second_cap);
  AscendC::TPipe pipe;
  TeamBarrier barrier;
  barrier.Init(pipe, flags, team, cap);
  int32_t passed = 0;
  for (; passed < rounds; ++passed) {
    if (passed == 1 && place == 2 * kPrograms) (void)Flag(idle).Await(1, late_looks);
    barrier.Arrive();
    if (barrier.Leave() != WaitEnd::kDone) break;
    if ASCEND_IS_AIC {
      AscendC::CrossCoreSetFlag<0x2, PIPE_FIX>(0);
      AscendC::CrossCoreWaitFlag(1);
    } else {
      AscendC::CrossCoreWaitFlag(0);
      AscendC::CrossCoreSetFlag<0x2, PIPE_MTE3>(1);
    }
  }
  Flag(ends + place * kFlagBytes).Write(passed);
}

// Rounds that each program passed.
std::vector<int64_t> RunLate(uint64_t seed, int32_t looks, int32_t first_cap, int32_t second_cap) {
  constexpr int32_t kBlocks = 3;
  Device device(options(seed, kBlocks));
  Global<uint8_t> flags(device, static_cast<size_t>(BarrierBytes(kBlocks)));
  Global<int64_t> ends(device, kBlocks * kPrograms * kFlagWords);
  Global<int64_t> idle(device, kFlagWords);
  device.Launch<&LateKernel>(kBlocks, flags.address(), ends.address(), idle.address(), 4, looks,
                             first_cap, second_cap);
  EXPECT_EQ(device.Run(), Outcome::kEnded)
      << "seed " << seed << ": " << (device.fault() ? device.fault()->text() : "");
  const std::vector<int64_t> words = ends.values();
  std::vector<int64_t> passed;
  for (size_t i = 0; i < kBlocks * kPrograms; ++i) passed.push_back(words[i * kFlagWords]);
  return passed;
}

// Whichever of its vector cores is the less patient, and where both are about as patient as the
// late one needs.
TEST(TeamBarrier, ABlockLosesABarrierAsOne) {
  constexpr int32_t kLooks = 600;
  int lost = 0;
  int kept = 0;
  for (int seed = 1; seed <= 4 * weft_ascend::testing::Seeds(); ++seed) {
    const int32_t near = kLooks - 100 + seed % 200;
    const std::array<std::array<int32_t, 2>, 4> caps = {
        {{20 * kLooks, 20}, {20, 20 * kLooks}, {near, 20}, {near, near}}};
    const auto [first, second] = caps[static_cast<size_t>(seed) % caps.size()];
    const std::vector<int64_t> passed = RunLate(static_cast<uint64_t>(seed), kLooks, first, second);
    for (size_t i = 0; i < passed.size(); ++i) {
      ASSERT_EQ(passed[i], passed[i / kPrograms * kPrograms])
          << "seed " << seed << ", program " << i;
    }
    ++(passed[kPrograms] < 4 ? lost : kept);
  }
  EXPECT_GT(lost, 0);
  EXPECT_GT(kept, 0);
}

}  // namespace
}  // namespace weft_ascend
