// A core that looks at many flags at once, by a copy to UB: right and wrong.

#include "twin_testing.h"

namespace weft::twin {
namespace {

using namespace AscendC;  // NOLINT: as kernels do

constexpr uint32_t kRow = 256;
constexpr int64_t kLine = 64, kWords = kLine / 8, kSteps = 3;

template <class T>
GlobalTensor<T> global(GM_ADDR memory, int64_t bytes = 0) {
  GlobalTensor<T> tensor;
  tensor.SetGlobalBuffer(reinterpret_cast<T*>(memory + bytes));
  return tensor;
}

enum class Flaw : int32_t {
  kNone,
  kNoDrain,  // a sender's flag may overtake its row
  kNoSend,   // one flag is lost
  kNoWait,   // the words are read before the copy has brought them
  kNoCheck,  // whatever the flags say
  kOneFlag,  // all but the first sender's are not looked at
  kNoLook,   // none
};

void send(GM_ADDR flags, int64_t index, int64_t value, Flaw flaw) {
  auto flag = global<int64_t>(flags, index * kLine);
  if (flaw != Flaw::kNoDrain) PipeBarrier<PIPE_ALL>();
  if (flaw == Flaw::kNoSend && index == 1 && value == kSteps) return;
  flag.SetValue(0, value);
  DataCacheCleanAndInvalid<int64_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(flag);
  DataSyncBarrier<MemDsbT::DDR>();
}

// Until the first `count` flags are at `value`.
bool wait(GM_ADDR flags, const LocalTensor<int64_t>& seen, int64_t count, int64_t value,
          int64_t spins, Flaw flaw) {
  if (flaw == Flaw::kNoLook) return true;
  int64_t come = 0;
  for (int64_t i = 0; i < spins; ++i) {
    DataCopy(seen, global<int64_t>(flags), static_cast<uint32_t>(count * kWords));
    if (flaw != Flaw::kNoWait) {
      SetFlag<HardEvent::MTE2_S>(EVENT_ID0);
      WaitFlag<HardEvent::MTE2_S>(EVENT_ID0);
    }
    const int64_t wanted = flaw == Flaw::kOneFlag ? 1 : count;
    while (come < wanted) {
      const int64_t flag = seen.GetValue(static_cast<uint32_t>(come * kWords));
      if (flag < value && flaw != Flaw::kNoCheck) break;
      ++come;
    }
    SetFlag<HardEvent::S_MTE2>(EVENT_ID0);
    WaitFlag<HardEvent::S_MTE2>(EVENT_ID0);
    if (come == wanted) return true;
  }
  return false;
}

struct Setting {
  int64_t spins;
  Flaw flaw;
};

// The first vector core of each block but the last makes a row in each step; that of the last
// block waits for all of them and adds them up.
void gather(GM_ADDR flags, GM_ADDR rows, GM_ADDR sums, GM_ADDR status, Setting setting) {
  if ASCEND_IS_AIC
    return;
  if (GetSubBlockIdx() != 0) return;
  const int64_t block = GetBlockIdx() / 2, senders = GetBlockNum() - 1;
  TPipe pipe;
  TBuf<TPosition::VECOUT> buffer;
  TBuf<TPosition::VECIN> input, looks;
  pipe.InitBuffer(buffer, kRow * 4);
  pipe.InitBuffer(input, kRow * 4);
  pipe.InitBuffer(looks, static_cast<uint32_t>(GetBlockNum() * kLine));
  auto row = buffer.Get<float>(), in = input.Get<float>();
  auto seen = looks.Get<int64_t>();
  for (int64_t step = 0; step < kSteps; ++step) {
    if (block < senders) {
      Duplicate(row, static_cast<float>(1 + block + 10 * step), kRow);
      SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
      WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
      DataCopy(global<float>(rows, (step * senders + block) * kRow * 4), row, kRow);
      SetFlag<HardEvent::MTE3_V>(EVENT_ID0);
      WaitFlag<HardEvent::MTE3_V>(EVENT_ID0);
      send(flags, block, step + 1, setting.flaw);
      continue;
    }
    if (!wait(flags, seen, senders, step + 1, setting.spins, setting.flaw)) {
      send(status, 0, 7, Flaw::kNone);
      return;
    }
    Duplicate(row, 0.0f, kRow);
    for (int64_t sender = 0; sender < senders; ++sender) {
      DataCopy(in, global<float>(rows, (step * senders + sender) * kRow * 4), kRow);
      SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
      WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
      PipeBarrier<PIPE_V>();
      Add(row, row, in, kRow);
      SetFlag<HardEvent::V_MTE2>(EVENT_ID0);
      WaitFlag<HardEvent::V_MTE2>(EVENT_ID0);
    }
    SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
    DataCopy(global<float>(sums, step * kRow * 4), row, kRow);
    SetFlag<HardEvent::MTE3_V>(EVENT_ID0);
    WaitFlag<HardEvent::MTE3_V>(EVENT_ID0);
  }
}

struct Gathered {
  Outcome outcome;
  std::string fault;
  std::vector<float> sums;
  int64_t status = 0;
  uint64_t instructions = 0;
};

Gathered run_gather(uint64_t seed, Setting setting, int blocks = 4) {
  Device device(few_cores(seed, blocks));
  const auto senders = static_cast<size_t>(blocks - 1);
  Array<int64_t> flags(device, std::vector<int64_t>(senders * kWords, 0));
  Array<int64_t> status(device, std::vector<int64_t>(kWords, 0));
  Array<float> rows(device, kSteps * senders * kRow), sums(device, kSteps * kRow);
  device.Launch<gather>(blocks, GM_ADDR(flags), GM_ADDR(rows), GM_ADDR(sums), GM_ADDR(status),
                        setting);
  Gathered run;
  run.outcome = device.Run();
  if (device.fault()) run.fault = device.fault()->text();
  run.sums = sums.values();
  run.status = status[0];
  run.instructions = device.instructions();
  return run;
}

constexpr int64_t kEndless = int64_t{1} << 40;

TEST(Look, WhoHasSeenTheFlagsSeesTheRows) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Gathered run = run_gather(seed, {kEndless, Flaw::kNone});
    ASSERT_EQ(run.outcome, Outcome::kEnded) << "seed " << seed << ": " << run.fault;
    for (size_t step = 0; step < kSteps; ++step) {
      for (size_t i = 0; i < kRow; ++i) {
        ASSERT_EQ(run.sums[step * kRow + i], 6 + 30 * static_cast<float>(step)) << "seed " << seed;
      }
    }
  }
}

TEST(Look, SameSeedSameRun) {
  EXPECT_EQ(run_gather(3, {kEndless, Flaw::kNone}).instructions,
            run_gather(3, {kEndless, Flaw::kNone}).instructions);
}

// In how many of twenty seeds the flaw is a fault that says so.
int found(Flaw flaw, const std::string& what) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Gathered run = run_gather(seed, {kEndless, flaw});
    if (run.outcome != Outcome::kFault) continue;
    EXPECT_THAT(run.fault, testing::HasSubstr(what)) << "seed " << seed;
    ++found;
  }
  return found;
}

constexpr const char* kRace = "no flag after it that this core has waited for";

TEST(Look, ARowBehindItsFlagIsFound) { EXPECT_EQ(found(Flaw::kNoDrain, kRace), 20); }
TEST(Look, AFlagThatIsNotLookedAtOrdersNothing) { EXPECT_EQ(found(Flaw::kOneFlag, kRace), 20); }
// But where the senders have not even begun.
TEST(Look, WithoutALookAllIsARace) { EXPECT_GT(found(Flaw::kNoLook, kRace), 10); }
TEST(Look, ALookThatComesTooEarlyOrdersNothing) { EXPECT_GT(found(Flaw::kNoCheck, kRace), 10); }
TEST(Look, WordsThatTheCopyMayNotHaveBrought) {
  EXPECT_EQ(found(Flaw::kNoWait, "needs SetFlag and WaitFlag<HardEvent::MTE2_S>"), 20);
}
TEST(Look, ALostFlagIsADeadlockThatNamesWhoLooks) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Gathered run = run_gather(seed, {kEndless, Flaw::kNoSend});
    EXPECT_EQ(run.outcome, Outcome::kFault);
    EXPECT_THAT(run.fault, testing::HasSubstr("deadlock"));
    EXPECT_THAT(run.fault, testing::HasSubstr("block 3 AIV 0 reads the same unchanged words"));
  }
}

TEST(Look, SpinCapEndsAWait) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Gathered run = run_gather(seed, {200, Flaw::kNoSend});
    EXPECT_EQ(run.outcome, Outcome::kEnded) << run.fault;
    EXPECT_EQ(run.status, 7);
  }
}

}  // namespace
}  // namespace weft::twin
