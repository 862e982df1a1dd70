// Cores that talk through global memory by the flag protocol, right and wrong; hangs; determinism.

#include <array>

#include "twin_testing.h"

namespace weft::twin {
namespace {

using namespace AscendC;  // NOLINT: as kernels do

constexpr int64_t kFlagBytes = 512;
constexpr uint32_t kRow = 256;

template <class T>
GlobalTensor<T> global(GM_ADDR memory, int64_t bytes = 0) {
  GlobalTensor<T> tensor;
  tensor.SetGlobalBuffer(reinterpret_cast<T*>(memory + bytes));
  return tensor;
}

void refresh(GlobalTensor<int64_t> flag) {
  DataCacheCleanAndInvalid<int64_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(flag);
}

// What to leave out or do wrong.
enum class Flaw : int32_t {
  kNone,
  kNoInvalidate,  // the receiver polls its cache
  kNoClean,       // the flag stays in the sender's cache
  kNoSend,        // a lost Send
  kNoBarrier,     // the flag may overtake the data
  kSharedLine,    // two senders' flags in one line
};

void send(GM_ADDR flags, int64_t index, int64_t value, Flaw flaw) {
  const int64_t distance = flaw == Flaw::kSharedLine ? 8 : kFlagBytes;
  auto flag = global<int64_t>(flags, index * distance);
  if (flaw != Flaw::kNoBarrier) PipeBarrier<PIPE_ALL>();
  refresh(flag);
  if (flaw == Flaw::kNoSend && value == 4 && index < 4) return;
  flag.SetValue(0, value);
  if (flaw != Flaw::kNoClean) refresh(flag);
  DataSyncBarrier<MemDsbT::DDR>();
}

bool wait(GM_ADDR flags, int64_t index, int64_t value, int64_t spins, Flaw flaw) {
  const int64_t distance = flaw == Flaw::kSharedLine ? 8 : kFlagBytes;
  auto flag = global<int64_t>(flags, index * distance);
  for (int64_t i = 0; i < spins; ++i) {
    if (flaw != Flaw::kNoInvalidate) refresh(flag);
    const int64_t seen = flag.GetValue(0);
    if (seen >= value) {
      PipeBarrier<PIPE_ALL>();
      return true;
    }
  }
  return false;
}

struct Setting {
  int64_t spins;
  Flaw flaw;
};

// The first vector core of each block but the last makes rows of `steps` numbers; that of the last
// block waits for all of them and adds them up.
void relay(GM_ADDR flags, GM_ADDR rows, GM_ADDR sums, GM_ADDR status, Setting setting) {
  if ASCEND_IS_AIC
    return;
  if (GetSubBlockIdx() != 0) return;
  const int64_t block = GetBlockIdx() / 2, senders = GetBlockNum() - 1;
  constexpr int64_t kSteps = 4;
  TPipe pipe;
  TBuf<TPosition::VECOUT> buffer;
  TBuf<TPosition::VECIN> input;
  pipe.InitBuffer(buffer, kRow * 4);
  pipe.InitBuffer(input, kRow * 4);
  auto row = buffer.Get<float>(), in = input.Get<float>();
  for (int64_t step = 0; step < kSteps; ++step) {
    if (block < senders) {
      // Not before the receiver has read the row of the last step.
      if (step > 0 && !wait(flags, 4 + block, step, setting.spins, setting.flaw)) return;
      Duplicate(row, static_cast<float>(1 + block + 10 * step), kRow);
      SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
      WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
      DataCopy(global<float>(rows, (step * senders + block) * kRow * 4), row, kRow);
      SetFlag<HardEvent::MTE3_V>(EVENT_ID0);
      WaitFlag<HardEvent::MTE3_V>(EVENT_ID0);
      send(flags, block, step + 1, setting.flaw);
      continue;
    }
    Duplicate(row, 0.0f, kRow);
    for (int64_t sender = 0; sender < senders; ++sender) {
      if (!wait(flags, sender, step + 1, setting.spins, setting.flaw)) {
        auto code = global<int64_t>(status);
        refresh(code);
        code.SetValue(0, 7);
        refresh(code);
        DataSyncBarrier<MemDsbT::DDR>();
        return;
      }
      DataCopy(in, global<float>(rows, (step * senders + sender) * kRow * 4), kRow);
      SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
      WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
      Add(row, row, in, kRow);
      SetFlag<HardEvent::V_MTE2>(EVENT_ID0);
      WaitFlag<HardEvent::V_MTE2>(EVENT_ID0);
      PipeBarrier<PIPE_V>();
      send(flags, 4 + sender, step + 1, setting.flaw);
    }
    SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
    DataCopy(global<float>(sums, step * kRow * 4), row, kRow);
    SetFlag<HardEvent::MTE3_V>(EVENT_ID0);
    WaitFlag<HardEvent::MTE3_V>(EVENT_ID0);
  }
}

class Trace : public Listener {
 public:
  void OnIssue(const Issued& issued) override {
    hash = (hash ^ static_cast<uint64_t>(issued.core * 3 + issued.sub_core)) * 0x100000001b3u;
    hash = (hash ^ issued.where.line()) * 0x100000001b3u;
  }
  uint64_t hash = 0xcbf29ce484222325u;
};

struct Relayed {
  Outcome outcome;
  std::string fault;
  int line = 0;
  std::vector<float> sums;
  int64_t status = 0;
  uint64_t trace = 0, instructions = 0;
};

Relayed run_relay(uint64_t seed, Setting setting, int blocks = 3, int cores = 3,
                  uint32_t rewind_after = 1u << 26) {
  Options options = few_cores(seed, cores);
  options.rewind_after = rewind_after;
  Device device(options);
  Array<int64_t> flags(device, std::vector<int64_t>(8 * kFlagBytes, 0));
  Array<int64_t> status(device, std::vector<int64_t>(8, 0));
  Array<float> rows(device, 4 * 8 * kRow), sums(device, 4 * kRow);
  Trace trace;
  device.set_listener(&trace);
  device.Launch<relay>(blocks, GM_ADDR(flags), GM_ADDR(rows), GM_ADDR(sums), GM_ADDR(status),
                       setting);
  Relayed run;
  run.outcome = device.Run();
  if (device.fault()) run.fault = device.fault()->text(), run.line = device.fault()->line;
  run.sums = sums.values();
  run.status = status[0];
  run.trace = trace.hash, run.instructions = device.instructions();
  return run;
}

constexpr int64_t kEndless = int64_t{1} << 40;

TEST(Protocol, CleanOverManySeeds) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Relayed run = run_relay(seed, {kEndless, Flaw::kNone});
    ASSERT_EQ(run.outcome, Outcome::kEnded) << run.fault;
    for (size_t step = 0; step < 4; ++step) {
      for (size_t i = 0; i < kRow; ++i) {
        ASSERT_EQ(run.sums[step * kRow + i], 3 + 20 * static_cast<float>(step)) << "seed " << seed;
      }
    }
  }
}

TEST(Protocol, SameSeedSameRun) {
  const Relayed first = run_relay(5, {kEndless, Flaw::kNone});
  const Relayed second = run_relay(5, {kEndless, Flaw::kNone});
  const Relayed other = run_relay(6, {kEndless, Flaw::kNone});
  EXPECT_EQ(first.trace, second.trace);
  EXPECT_EQ(first.instructions, second.instructions);
  EXPECT_NE(first.trace, other.trace);
}

// Each block's vector core writes and reads lines of its own, more than once, and cleans none, so
// that the cache decides what goes when; the other pipe's instructions make the scheduler choose.
constexpr int64_t kWanderedBytes = 8192;
void wander(GM_ADDR memory) {
  if ASCEND_IS_AIC
    return;
  if (GetSubBlockIdx() != 0) return;
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 256);
  auto row = buffer.Get<float>();
  auto words = global<int64_t>(memory, GetBlockIdx() / 2 * kWanderedBytes);
  for (int64_t step = 0; step < 200; ++step) {
    const int64_t at = step * step % (kWanderedBytes / 64) * 8;
    words.SetValue(at, step);
    Duplicate(row, static_cast<float>(words.GetValue(at)), 64);
    PipeBarrier<PIPE_V>();
  }
}

// With the lines in memory of the host that begins `shift` lines behind a page's start.
uint64_t wander_from(uint64_t seed, size_t shift) {
  constexpr size_t kBytes = 3 * kWanderedBytes;
  alignas(4096) static std::array<uint8_t, kBytes + 4096> memory;
  memory.fill(0);
  Device device(few_cores(seed, 3));
  device.Register(memory.data() + shift * 64, kBytes);
  Trace trace;
  device.set_listener(&trace);
  device.Launch<wander>(3, GM_ADDR(memory.data() + shift * 64));
  expect_end(device);
  return trace.hash;
}

TEST(Protocol, SameSeedSameRunWhereverMemoryLies) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const uint64_t there = wander_from(seed, 0);
    for (const size_t shift : {1u, 7u, 37u}) {
      EXPECT_EQ(wander_from(seed, shift), there) << "seed " << seed << ", " << shift << " lines on";
    }
  }
}

int line_of(const char* marker);

TEST(Protocol, MissingInvalidateIsFound) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Relayed run = run_relay(seed, {kEndless, Flaw::kNoInvalidate});
    EXPECT_EQ(run.outcome, Outcome::kFault);
    EXPECT_THAT(run.fault, testing::HasSubstr("old value in the scalar cache"));
    EXPECT_EQ(run.line, line_of("flag.GetValue(0)"));
  }
}

TEST(Protocol, MissingCleanIsFound) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Relayed run = run_relay(seed, {kEndless, Flaw::kNoClean}, 2, 2);
    // What is left in the cache at the end of a kernel may happen to be written back.
    if (run.outcome == Outcome::kEnded) continue;
    ++found;
    EXPECT_THAT(run.fault, testing::HasSubstr("deadlock"));
    EXPECT_EQ(run.line, line_of("flag.GetValue(0)"));
  }
  EXPECT_GT(found, 0);
}

TEST(Protocol, LostSendIsADeadlockThatNamesWhoWaits) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Relayed run = run_relay(seed, {kEndless, Flaw::kNoSend});
    EXPECT_EQ(run.outcome, Outcome::kFault);
    EXPECT_THAT(run.fault, testing::HasSubstr("deadlock"));
    EXPECT_THAT(run.fault, testing::HasSubstr("block 2 AIV 0 reads the same unchanged words"));
    EXPECT_EQ(run.line, line_of("flag.GetValue(0)"));
  }
}

TEST(Protocol, SpinCapEndsAWait) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Relayed run = run_relay(seed, {200, Flaw::kNoSend});
    EXPECT_EQ(run.outcome, Outcome::kEnded) << run.fault;
    EXPECT_EQ(run.status, 7);
  }
}

TEST(Protocol, TwoWritersOnALineAreFound) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Relayed run = run_relay(seed, {kEndless, Flaw::kSharedLine});
    EXPECT_EQ(run.outcome, Outcome::kFault) << "seed " << seed;
    EXPECT_THAT(run.fault, testing::HasSubstr("two writers on a line"));
    EXPECT_EQ(run.line, line_of("flag.SetValue(0, value)"));
  }
}

TEST(Protocol, DataBehindItsFlagIsFound) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Relayed run = run_relay(seed, {kEndless, Flaw::kNoBarrier});
    EXPECT_EQ(run.outcome, Outcome::kFault) << "seed " << seed;
    EXPECT_THAT(run.fault, testing::HasSubstr("no flag after it that this core has waited for"));
    EXPECT_EQ(run.line, line_of("DataCopy(in, global<float>(rows"));
  }
}

// Block 0 tells block 1 how far it is, does much more and then writes a row that it tells nobody
// of. Block 1 reads the row when the host says so.
void late_row(GM_ADDR flags, GM_ADDR rows) {
  if ASCEND_IS_AIC
    return;
  if (GetSubBlockIdx() != 0) return;
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, kRow * 4);
  auto row = buffer.Get<float>();
  if (GetBlockIdx() == 2) {
    wait(flags, 0, 1, kEndless, Flaw::kNone);
    wait(flags, 1, 1, kEndless, Flaw::kNone);
    DataCopy(row, global<float>(rows, 3 * kRow * 4), kRow);
    return;
  }
  Duplicate(row, 1.0f, kRow);
  for (int64_t i = 0; i < 4; ++i) {
    PipeBarrier<PIPE_ALL>();
    DataCopy(global<float>(rows, i * kRow * 4), row, kRow);
    if (i == 1) send(flags, 0, 1, Flaw::kNone);
  }
}

// However often the shadows' numbers began anew meanwhile.
TEST(Protocol, WhatIsKnownOfOthersOutlastsShortNumbers) {
  for (const uint32_t rewind_after : {1u, 2u, 3u, 1u << 26}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      Options options = few_cores(seed, 2);
      options.rewind_after = rewind_after;
      Device device(options);
      Array<int64_t> flags(device, std::vector<int64_t>(kFlagBytes, 0));
      Array<float> rows(device, 4 * kRow);
      device.Launch<late_row>(2, GM_ADDR(flags), GM_ADDR(rows));
      ASSERT_EQ(device.Step(1 << 20), Outcome::kIdle);
      const int64_t go = 1;
      device.Copy(GM_ADDR(flags) + kFlagBytes, &go, sizeof(go));
      expect_fault(device, "no flag after it that this core has waited for",
                   line_of("DataCopy(row, global<float>(rows, 3"), __FILE__);
    }
  }
}

TEST(Protocol, ShortNumbersThatBeginAnewAreNoFault) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Relayed run = run_relay(seed, {kEndless, Flaw::kNone}, 3, 3, 2);
    ASSERT_EQ(run.outcome, Outcome::kEnded) << run.fault;
    ASSERT_EQ(run.sums[0], 3) << "seed " << seed;
  }
}

// The first two blocks wait for the third, which finds no core.
void wait_for_the_third(GM_ADDR flags) {
  if ASCEND_IS_AIC
    return;
  if (GetSubBlockIdx() != 0) return;
  const int64_t block = GetBlockIdx() / 2;
  if (block < 2) {
    wait(flags, block, 1, kEndless, Flaw::kNone);
    return;
  }
  for (int64_t i = 0; i < 2; ++i) send(flags, i, 1, Flaw::kNone);
}

TEST(Protocol, TooManyBlocksAreADeadlock) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Device device(few_cores(seed, 2));
    Array<int64_t> flags(device, std::vector<int64_t>(8 * kFlagBytes, 0));
    device.Launch<wait_for_the_third>(3, GM_ADDR(flags));
    expect_fault(device, "1 of 3 blocks have not begun, since the chip has 2 cores",
                 line_of("flag.GetValue(0)"), __FILE__);
  }
}

// The lines are looked up in this file, so that they need no care.
int line_of(const char* marker) {
  std::FILE* file = std::fopen(__FILE__, "r");
  if (file == nullptr) return -1;
  char text[256];
  int line = 0, found = -1;
  while (found < 0 && std::fgets(text, sizeof(text), file) != nullptr) {
    ++line;
    if (std::string(text).find(marker) != std::string::npos) found = line;
  }
  std::fclose(file);
  return found;
}

// ---- Between the cores of a block.

// The vector cores make the left matrix, the cube core multiplies it by itself.
void hand_over(GM_ADDR scratch, GM_ADDR out, int32_t rounds) {
  TPipe pipe;
  if ASCEND_IS_AIV {
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 512);
    auto half_rows = buffer.Get<half>();
    for (int32_t round = 0; round < rounds; ++round) {
      if (round > 0) CrossCoreWaitFlag(2);
      Duplicate(half_rows, half(1.0f + static_cast<float>(round)), 128);
      SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
      WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
      DataCopy(global<half>(scratch, GetSubBlockIdx() * 256), half_rows, 128);
      SetFlag<HardEvent::MTE3_V>(EVENT_ID0);
      WaitFlag<HardEvent::MTE3_V>(EVENT_ID0);
      CrossCoreSetFlag<0x2, PIPE_MTE3>(1);
    }
    return;
  }
  TBuf<TPosition::A1> a1;
  TBuf<TPosition::A2> a2;
  TBuf<TPosition::B2> b2;
  TBuf<TPosition::CO1> co1;
  pipe.InitBuffer(a1, 512);
  pipe.InitBuffer(a2, 512);
  pipe.InitBuffer(b2, 512);
  pipe.InitBuffer(co1, 1024);
  auto l1 = a1.Get<half>();
  auto l0a = a2.Get<half>(), l0b = b2.Get<half>();
  auto c = co1.Get<float>();
  for (int32_t round = 0; round < rounds; ++round) {
    CrossCoreWaitFlag(1);
    DataCopy(l1, global<half>(scratch), 256);
    SetFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    if (round + 1 < rounds) CrossCoreSetFlag<0x2, PIPE_MTE2>(2);
    LoadData(l0a, l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
    LoadData(l0b, l1, LoadData2DParams(0, 1, 1, 0, 0, false, 0));
    SetFlag<HardEvent::MTE1_M>(EVENT_ID0);
    WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);
    Mmad(c, l0a, l0b, MmadParams(16, 16, 16, 0, false, true));
    SetFlag<HardEvent::M_FIX>(EVENT_ID0);
    WaitFlag<HardEvent::M_FIX>(EVENT_ID0);
    Fixpipe(global<float>(out, round * 1024), c, FixpipeParamsV220(16, 16, 16, 16, false));
    PipeBarrier<PIPE_ALL>();
  }
}

TEST(Protocol, VectorAndCubeCoresHandOver) {
  constexpr int32_t kRounds = 5;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Device device(few_cores(seed, 1));
    Array<half> scratch(device, 256);
    Array<float> out(device, kRounds * 256);
    device.Launch<hand_over>(1, GM_ADDR(scratch), GM_ADDR(out), kRounds);
    expect_end(device);
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t round = i / 256;
      const auto value = static_cast<float>(1 + round);
      ASSERT_EQ(out[i], 16 * value * value) << "seed " << seed;
    }
  }
}

// ---- Flags within a block.

int again_line = 0;

// Both vector cores set a flag that the cube core waits for, and one of them sets it again.
template <int32_t kAgain>
void set_again_by_one(GM_ADDR) {
  if (here().is_cube()) return CrossCoreWaitFlag(3);
  CrossCoreSetFlag<0x2, PIPE_MTE3>(3);
  if (GetSubBlockIdx() != kAgain) return;
  again_line = __LINE__ + 1;
  CrossCoreSetFlag<0x2, PIPE_MTE3>(3);
}

template <int32_t kAgain>
void expect_set_of_one(const std::string& what) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Device device(few_cores(seed));
    Array<int64_t> none(device, 8);
    device.Launch<&set_again_by_one<kAgain>>(1, GM_ADDR(none));
    expect_fault(device, what, again_line, __FILE__);
  }
}

TEST(CrossFlags, SetByOneVectorCoreAlone) {
  expect_set_of_one<0>("CrossCoreSetFlag(3) happened 1 times more on AIV 0 than on the other");
  expect_set_of_one<1>("CrossCoreSetFlag(3) happened 1 times more on AIV 1 than on the other");
}

}  // namespace
}  // namespace weft::twin
