#include "pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  if (place == absent) return;
  TeamBarrier barrier;
  barrier.Init(flags, team, kSpinCap);
  int64_t value = place;
  for (int32_t round = 0; round < rounds; ++round) {
    Flag own(cells + (round * programs + place) * kFlagBytes);
    own.Write(value);
    barrier.Arrive();
    const WaitEnd end = barrier.Leave();
    if (end != WaitEnd::kDone) {
      barrier.Abort();
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

}  // namespace
}  // namespace weft_ascend
