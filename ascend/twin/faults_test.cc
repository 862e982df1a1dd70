// Deliberate faults: each must be found, with the kernel's line.

#include <array>
#include <span>

#include "twin_testing.h"

namespace weft::twin {
namespace {

using namespace AscendC;  // NOLINT: as kernels do

// The line of the fault in the kernel that ran last.
int marked_line = 0;
#define HERE (marked_line = __LINE__)

class Faults : public testing::Test {
 protected:
  template <auto kKernel>
  void Expect(const std::string& what, uint64_t seeds = 10, int blocks = 1, int cores = 2) {
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      Device device(few_cores(seed, cores));
      Array<float> x(device, std::vector<float>(4096, 1.0f)), y(device, 4096);
      marked_line = 0;
      device.Launch<kKernel>(blocks, GM_ADDR(x), GM_ADDR(y));
      ASSERT_EQ(device.Run(), Outcome::kFault);
      ASSERT_NE(marked_line, 0) << "the kernel never came to its mark";
      check_fault(device, what, marked_line, __FILE__);
      if (HasFailure()) FAIL() << "seed " << seed;
    }
  }
};

bool first_vector_core() { return !here().is_cube() && GetBlockIdx() == 0; }

GlobalTensor<float> floats(GM_ADDR memory) {
  GlobalTensor<float> tensor;
  tensor.SetGlobalBuffer(reinterpret_cast<float*>(memory));
  return tensor;
}

template <TPosition kPosition = TPosition::VECCALC>
LocalTensor<float> local(TPipe& pipe, uint32_t count) {
  TBuf<kPosition> buffer;
  pipe.InitBuffer(buffer, count * 4);
  return buffer.template Get<float>();
}

// ---- Order within a core.

void missing_flag_in(GM_ADDR x, GM_ADDR) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 64);
  DataCopy(a, floats(x), 64);
  HERE, Adds(a, a, 1.0f, 64);
}
TEST_F(Faults, MissingFlagBeforeVector) {
  Expect<missing_flag_in>("needs SetFlag and WaitFlag<HardEvent::MTE2_V>");
}

void missing_flag_out(GM_ADDR, GM_ADDR y) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 64);
  Duplicate(a, 1.0f, 64);
  HERE, DataCopy(floats(y), a, 64);
}
TEST_F(Faults, MissingFlagBeforeCopyOut) {
  Expect<missing_flag_out>("needs SetFlag and WaitFlag<HardEvent::V_MTE3>");
}

void missing_flag_back(GM_ADDR x, GM_ADDR y) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 64);
  DataCopy(a, floats(x), 64);
  SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID1);
  WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID1);
  DataCopy(floats(y), a, 64);
  HERE, DataCopy(a, floats(x)[64], 64);
}
TEST_F(Faults, MissingFlagBeforeTheBufferIsUsedAgain) {
  Expect<missing_flag_back>("needs SetFlag and WaitFlag<HardEvent::MTE3_MTE2>");
}

void flag_of_another_pipe(GM_ADDR x, GM_ADDR) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 64), b = local(pipe, 64);
  Duplicate(b, 0.0f, 64);
  PipeBarrier<PIPE_V>();
  DataCopy(a, floats(x), 64);
  SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
  WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
  HERE, Add(b, b, a, 64);
}
TEST_F(Faults, WrongPipeOrder) {
  Expect<flag_of_another_pipe>("needs SetFlag and WaitFlag<HardEvent::MTE2_V>");
}

void set_before_copy(GM_ADDR x, GM_ADDR) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 64);
  SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
  DataCopy(a, floats(x), 64);
  WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
  HERE, Adds(a, a, 1.0f, 64);
}
TEST_F(Faults, FlagSetTooEarly) {
  Expect<set_before_copy>("needs SetFlag and WaitFlag<HardEvent::MTE2_V>");
}

void missing_vector_barrier(GM_ADDR, GM_ADDR) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 64);
  Duplicate(a, 1.0f, 64);
  HERE, Adds(a, a, 1.0f, 64);
}
TEST_F(Faults, MissingVectorBarrier) {
  Expect<missing_vector_barrier>("needs PipeBarrier<PIPE_V>");
}

void scalar_reads_too_early(GM_ADDR, GM_ADDR) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 64);
  Duplicate(a, 1.0f, 64);
  HERE, a.GetValue(3);
}
TEST_F(Faults, ScalarReadsTooEarly) {
  Expect<scalar_reads_too_early>("needs SetFlag and WaitFlag<HardEvent::V_S>");
}

void scalar_writes_too_late(GM_ADDR, GM_ADDR y) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 8);
  for (uint32_t i = 0; i < 8; ++i) a.SetValue(i, 1.0f);
  HERE, DataCopy(floats(y), a, 8);
}
TEST_F(Faults, ScalarWritesTooLate) {
  Expect<scalar_writes_too_late>("needs SetFlag and WaitFlag<HardEvent::S_MTE3>");
}

void small_products_need_a_barrier(GM_ADDR, GM_ADDR) {
  if ASCEND_IS_AIV
    return;
  if (GetBlockIdx() != 0) return;
  TPipe pipe;
  TBuf<TPosition::A2> a2;
  TBuf<TPosition::B2> b2;
  TBuf<TPosition::CO1> co1;
  pipe.InitBuffer(a2, 512);
  pipe.InitBuffer(b2, 512);
  pipe.InitBuffer(co1, 1024);
  auto c = co1.Get<float>();
  Mmad(c, a2.Get<half>(), b2.Get<half>(), MmadParams(16, 16, 16, 0, false, true));
  HERE, Mmad(c, a2.Get<half>(), b2.Get<half>(), MmadParams(16, 16, 16, 0, false, false));
}
TEST_F(Faults, SmallProductsNeedABarrier) {
  Expect<small_products_need_a_barrier>("needs PipeBarrier<PIPE_M>");
}

// ---- Additions in global memory.

// Every vector core adds a row of ones to y; block 0's first one copies another row after it.
template <bool kAdd, bool kNone>
void add_to_one_place(GM_ADDR, GM_ADDR y) {
  if ASCEND_IS_AIC
    return;
  TPipe pipe;
  auto a = local(pipe, 64);
  Duplicate(a, 1.0f, 64);
  SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
  WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
  if (kAdd) SetAtomicAdd<float>();
  HERE, DataCopy(floats(y), a, 64);
  if (kNone) SetAtomicNone();
  if (GetBlockIdx() == 0) DataCopy(floats(y)[512], a, 64);
}
TEST_F(Faults, AdditionsFromSeveralCoresGetAlong) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Device device(few_cores(seed));
    Array<float> y(device, std::vector<float>(4096, 5.0f));
    device.Launch<add_to_one_place<true, true>>(2, GM_ADDR(y), GM_ADDR(y));
    expect_end(device);
    for (size_t i = 0; i < 64; ++i) ASSERT_EQ(y[i], 5 + 4) << "seed " << seed;
    for (size_t i = 512; i < 576; ++i) ASSERT_EQ(y[i], 1) << "seed " << seed;
  }
}
TEST_F(Faults, CopiesWithoutSetAtomicAddAreARace) {
  Expect<add_to_one_place<false, true>>("no flag after it that this core has waited for", 10, 2);
}
TEST_F(Faults, WithoutSetAtomicNoneTheNextCopyAddsToo) {
  Device device(few_cores(1));
  Array<float> y(device, std::vector<float>(4096, 5.0f));
  device.Launch<add_to_one_place<true, false>>(2, GM_ADDR(y), GM_ADDR(y));
  expect_end(device);
  EXPECT_EQ(y[512], 6);
}

void adds_another_type(GM_ADDR, GM_ADDR y) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 64);
  Duplicate(a, 1.0f, 64);
  SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
  WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
  SetAtomicAdd<half>();
  HERE, DataCopy(floats(y), a, 64);
}
TEST_F(Faults, AdditionOfAnotherType) {
  Expect<adds_another_type>("SetAtomicAdd was called for another type");
}

// ---- Flags.

void event_id_again(GM_ADDR x, GM_ADDR) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 128);
  DataCopy(a, floats(x), 64);
  SetFlag<HardEvent::MTE2_V>(EVENT_ID2);
  DataCopy(a[64], floats(x), 64);
  HERE, SetFlag<HardEvent::MTE2_V>(EVENT_ID2);
}
TEST_F(Faults, EventIdReused) { Expect<event_id_again>("again, without a WaitFlag"); }

void wait_twice(GM_ADDR, GM_ADDR) {
  if (!first_vector_core()) return;
  SetFlag<HardEvent::MTE2_V>(EVENT_ID2);
  WaitFlag<HardEvent::MTE2_V>(EVENT_ID2);
  HERE, WaitFlag<HardEvent::MTE2_V>(EVENT_ID2);
}
TEST_F(Faults, WaitTwice) { Expect<wait_twice>("without a SetFlag"); }

void never_waited(GM_ADDR, GM_ADDR) {
  if (!first_vector_core()) return;
  HERE, SetFlag<HardEvent::MTE2_V>(EVENT_ID2);
}
TEST_F(Faults, NeverWaited) { Expect<never_waited>("has no WaitFlag by the end"); }

void ninth_event(GM_ADDR, GM_ADDR) {
  if (!first_vector_core()) return;
  HERE, SetFlag<HardEvent::MTE2_V>(8);
}
TEST_F(Faults, NinthEvent) { Expect<ninth_event>("event id 8 is not one of 0 to 7"); }

void too_many_sets(GM_ADDR, GM_ADDR) {
  if (GetBlockIdx() != 0 || !here().is_cube()) return;
  for (int32_t i = 0; i < 16; ++i) {
    HERE, CrossCoreSetFlag<0x2, PIPE_FIX>(3);
  }
}
TEST_F(Faults, TooManyCrossCoreSets) { Expect<too_many_sets>("16 times"); }

void reserved_flag(GM_ADDR, GM_ADDR) {
  if (!first_vector_core()) return;
  HERE, CrossCoreSetFlag<0x2, PIPE_MTE3>(12);
}
TEST_F(Faults, ReservedCrossCoreFlag) { Expect<reserved_flag>("11 to 14 belong to SyncAll"); }

void waits_for_a_ninth_event(GM_ADDR, GM_ADDR) {
  if (!first_vector_core()) return;
  HERE, WaitFlag<HardEvent::MTE2_V>(8);
}
void waits_for_a_flag_too_many(GM_ADDR, GM_ADDR) {
  if (!first_vector_core()) return;
  HERE, CrossCoreWaitFlag(16);
}
// A model of time replays by these numbers, so they are checked there too.
TEST_F(Faults, IdsAreCheckedWithoutArithmeticToo) {
  const auto expect = [](const char* what, Kernel kernel) {
    Options options = few_cores();
    options.timing_only = true;
    Device device(options);
    const std::array<GM_ADDR, 2> none{};
    device.Launch(kernel, 1, std::as_bytes(std::span(none)));
    ASSERT_EQ(device.Run(), Outcome::kFault) << what;
    check_fault(device, what, marked_line, __FILE__);
  };
  expect("event id 8 is not one of 0 to 7", &run_kernel<&ninth_event>);
  expect("event id 8 is not one of 0 to 7", &run_kernel<&waits_for_a_ninth_event>);
  expect("11 to 14 belong to SyncAll", &run_kernel<&reserved_flag>);
  expect("flag id 16 is not one of 0 to 15", &run_kernel<&waits_for_a_flag_too_many>);
}

void unmatched_cross_set(GM_ADDR, GM_ADDR) {
  if (GetBlockIdx() != 0 || !here().is_cube()) return;
  HERE, CrossCoreSetFlag<0x2, PIPE_FIX>(3);
}
TEST_F(Faults, UnmatchedCrossCoreSet) { Expect<unmatched_cross_set>("more than"); }

// ---- What a copy by Nd2Nz touches.

// Block 0 writes the second of two rows, 64 elements on, while block 1's cube core fetches two
// matrices of one row each from the first on.
template <int32_t kMatrixStride, int32_t kRowStride>
void write_beside(GM_ADDR x, GM_ADDR) {
  constexpr int32_t kRow = 32;
  auto rows = floats(x).ReinterpretCast<half>();
  if (first_vector_core()) {
    TPipe pipe;
    auto a = local(pipe, kRow / 2);
    Duplicate(a, 1.0f, kRow / 2);
    SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
    HERE, DataCopy(rows[kRow * 2].ReinterpretCast<float>(), a, kRow / 2);
    return;
  }
  if (ASCEND_IS_AIV || GetBlockIdx() != 1) return;
  TPipe pipe;
  TBuf<TPosition::A1> a1;
  pipe.InitBuffer(a1, 2048);
  HERE,
      DataCopy(a1.Get<half>(), rows, Nd2NzParams(2, 1, kRow, kMatrixStride, kRowStride, 16, 1, 16));
}
TEST_F(Faults, ALoneRowFetchedTwiceLeavesTheNextAlone) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Device device(few_cores(seed));
    Array<half> x(device, std::vector<half>(4096, half(1.0f)));
    device.Launch<write_beside<0, 64>>(2, GM_ADDR(x), GM_ADDR(x));
    expect_end(device);
  }
}
TEST_F(Faults, MatricesAreFetchedFromTheirStride) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Device device(few_cores(seed));
    Array<half> x(device, std::vector<half>(4096, half(1.0f)));
    device.Launch<write_beside<64, 512>>(2, GM_ADDR(x), GM_ADDR(x));
    if (device.Run() == Outcome::kFault) ++found;
  }
  EXPECT_GT(found, 0);  // what was read before anything was written is not remembered
}

void scattered_matrices(GM_ADDR x, GM_ADDR) {
  if ASCEND_IS_AIV
    return;
  TPipe pipe;
  TBuf<TPosition::A1> a1;
  pipe.InitBuffer(a1, 4096);
  HERE, DataCopy(a1.Get<half>(), floats(x).ReinterpretCast<half>(),
                 Nd2NzParams(2, 3, 16, 512, 64, 16, 1, 256));
}
TEST_F(Faults, MatricesOfRowsApart) { Expect<scattered_matrices>("srcNdMatrixStride"); }

// ---- Limits.

void unaligned_copy(GM_ADDR x, GM_ADDR) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 64);
  HERE, DataCopy(a, floats(x), 13);
}
TEST_F(Faults, UnalignedLength) { Expect<unaligned_copy>("not a multiple of 32 bytes"); }

void unaligned_address(GM_ADDR x, GM_ADDR) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 64);
  HERE, DataCopy(a[3], floats(x), 8);
}
TEST_F(Faults, UnalignedAddress) { Expect<unaligned_address>("not at a multiple of 32"); }

void over_capacity(GM_ADDR, GM_ADDR) {
  if (!first_vector_core()) return;
  TPipe pipe;
  TBuf<> a, b;
  pipe.InitBuffer(a, 128 << 10);
  HERE, pipe.InitBuffer(b, 65 << 10);
}
TEST_F(Faults, BufferOverCapacity) { Expect<over_capacity>("65536 are left of 196608"); }

void beyond_the_tensor(GM_ADDR, GM_ADDR) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 64);
  HERE, Duplicate(a, 1.0f, 65);
}
TEST_F(Faults, BeyondTheTensor) { Expect<beyond_the_tensor>("4 more than its tensor has"); }

void too_many_repeats(GM_ADDR, GM_ADDR) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 64 * 256);
  const int32_t repeats = 256;
  HERE, Adds(a, a, 1.0f, 64, repeats, {1, 1, 8, 8});
}
TEST_F(Faults, RepeatOver255) { Expect<too_many_repeats>("repeatTime is 256"); }

void too_many_fractals(GM_ADDR, GM_ADDR) {
  if ASCEND_IS_AIV
    return;
  TPipe pipe;
  TBuf<TPosition::A1> a1;
  TBuf<TPosition::A2> a2;
  pipe.InitBuffer(a1, 512);
  pipe.InitBuffer(a2, 512);
  LoadData2DParams params;
  params.repeatTimes = 300;
  HERE, LoadData(a2.Get<half>(), a1.Get<half>(), params);
}
TEST_F(Faults, RepeatOver255OfFractals) { Expect<too_many_fractals>("repeatTimes is 300"); }

// ---- Settings that the twin does not emulate are refused, never passed over.

enum class Setting : int32_t {
  kBias,
  kOffset,
  kSparse,
  kWinograd,
  kDirection,
  kSid,
  kTransposed,
  kFractalGap,
  kRelu,
  kScale,
  kMatrixStride,
};
template <Setting kSetting>
void unusual(GM_ADDR, GM_ADDR y) {
  if ASCEND_IS_AIV
    return;
  TPipe pipe;
  TBuf<TPosition::A1> a1;
  TBuf<TPosition::A2> a2;
  TBuf<TPosition::B2> b2;
  TBuf<TPosition::CO1> co1;
  pipe.InitBuffer(a1, 512);
  pipe.InitBuffer(a2, 512);
  pipe.InitBuffer(b2, 512);
  pipe.InitBuffer(co1, 1024);
  LoadData2DParams load(0, 1, 1, 0, 0, false, 0);
  if (kSetting == Setting::kSid) load.sid = 1;
  if (kSetting == Setting::kTransposed) load.ifTranspose = true;
  HERE, LoadData(a2.Get<half>(), a1.Get<half>(), load);
  LoadData2dTransposeParams turned(0, 1, 1, 0, 0, 0);
  if (kSetting == Setting::kFractalGap) turned.dstFracGap = 1;
  HERE, LoadDataWithTranspose(b2.Get<half>(), a1.Get<half>(), turned);
  PipeBarrier<PIPE_ALL>();
  MmadParams product(16, 16, 16, 0, false, true);
  if (kSetting == Setting::kBias) product.isBias = true;
  if (kSetting == Setting::kOffset) product.fmOffset = 1;
  if (kSetting == Setting::kSparse) product.enSsparse = true;
  if (kSetting == Setting::kWinograd) product.enWinogradB = true;
  if (kSetting == Setting::kDirection) product.kDirectionAlign = true;
  HERE, Mmad(co1.Get<float>(), a2.Get<half>(), b2.Get<half>(), product);
  PipeBarrier<PIPE_ALL>();
  FixpipeParamsV220 out(16, 16, 16, 16, false);
  if (kSetting == Setting::kRelu) out.reluEn = true;
  if (kSetting == Setting::kScale) out.deqScalar = 1;
  if (kSetting == Setting::kMatrixStride) out.srcNdStride = 1;
  HERE, Fixpipe(floats(y), co1.Get<float>(), out);
}
TEST_F(Faults, UnusualSettings) {
  Expect<unusual<Setting::kSid>>("sid", 1);
  Expect<unusual<Setting::kTransposed>>("ifTranspose", 1);
  Expect<unusual<Setting::kFractalGap>>("dstFracGap", 1);
  Expect<unusual<Setting::kBias>>("isBias", 1);
  Expect<unusual<Setting::kOffset>>("fmOffset", 1);
  Expect<unusual<Setting::kSparse>>("enSsparse", 1);
  Expect<unusual<Setting::kWinograd>>("enWinogradB", 1);
  Expect<unusual<Setting::kDirection>>("kDirectionAlign", 1);
  Expect<unusual<Setting::kRelu>>("reluEn", 1);
  Expect<unusual<Setting::kScale>>("deqScalar", 1);
  Expect<unusual<Setting::kMatrixStride>>("srcNdStride", 1);
}

void reserved_field(GM_ADDR x, GM_ADDR) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 64);
  HERE, DataCopyPad(a, floats(x), {1, 12, 0, 0, 1}, DataCopyPadExtParams<float>{false, 0, 0, 0.0f});
}
TEST_F(Faults, ReservedFieldOfACopy) { Expect<reserved_field>("rsv is reserved"); }

template <class To, class From, RoundMode kMode>
void round_mode(GM_ADDR, GM_ADDR) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 64), b = local(pipe, 64);
  Duplicate(a, 1.0f, 64);
  PipeBarrier<PIPE_V>();
  HERE, Cast(b.ReinterpretCast<To>(), a.ReinterpretCast<From>(), kMode, 64);
}
TEST_F(Faults, RoundModesThatTheConversionDoesNotTake) {
  Expect<round_mode<int32_t, float, RoundMode::CAST_NONE>>("takes CAST_RINT", 1);
  Expect<round_mode<int32_t, float, RoundMode::CAST_ODD>>("takes CAST_RINT", 1);
  Expect<round_mode<float, float, RoundMode::CAST_NONE>>("takes CAST_RINT", 1);
  Expect<round_mode<float, int32_t, RoundMode::CAST_ODD>>("takes CAST_NONE, RINT", 1);
  Expect<round_mode<int8_t, half, RoundMode::CAST_ODD>>("takes CAST_NONE, RINT", 1);
  Expect<round_mode<float, half, RoundMode::CAST_RINT>>("CAST_NONE only", 1);
  Expect<round_mode<int16_t, int32_t, RoundMode::CAST_RINT>>("CAST_NONE only", 1);
}

// ---- Memory.

void beyond_global_memory(GM_ADDR x, GM_ADDR) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 64);
  HERE, DataCopy(a, floats(x)[4096 - 32], 64);
}
TEST_F(Faults, BeyondGlobalMemory) { Expect<beyond_global_memory>("128 bytes beyond the end"); }

void another_buffer(GM_ADDR, GM_ADDR) {
  if ASCEND_IS_AIC
    return;
  TPipe pipe;
  TBuf<TPosition::A1> a1;
  HERE, pipe.InitBuffer(a1, 512);
}
TEST_F(Faults, ABufferTheCoreDoesNotHave) { Expect<another_buffer>("has no L1"); }

void never_written(GM_ADDR, GM_ADDR) {
  if (!first_vector_core()) return;
  TPipe pipe;
  auto a = local(pipe, 128);
  Duplicate(a, 1.0f, 64);
  PipeBarrier<PIPE_V>();
  HERE, Muls(a, a, 2.0f, 65);
}
TEST_F(Faults, NeverWritten) { Expect<never_written>("which was never written"); }

void queue_without_enque(GM_ADDR x, GM_ADDR) {
  if (!first_vector_core()) return;
  TPipe pipe;
  TQue<TPosition::VECIN, 1> queue;
  pipe.InitBuffer(queue, 1, 256);
  auto a = queue.AllocTensor<float>();
  DataCopy(a, floats(x), 64);
  HERE, queue.DeQue<float>();
}
TEST_F(Faults, DeQueBeforeEnQue) { Expect<queue_without_enque>("nothing is in the queue"); }

void queue_beyond_depth(GM_ADDR, GM_ADDR) {
  if (!first_vector_core()) return;
  TPipe pipe;
  TQue<TPosition::VECIN, 1> queue;
  pipe.InitBuffer(queue, 2, 256);
  auto a = queue.AllocTensor<float>();
  auto b = queue.AllocTensor<float>();
  queue.EnQue(a);
  HERE, queue.EnQue(b);
}
TEST_F(Faults, QueueBeyondItsDepth) { Expect<queue_beyond_depth>("more tensors"); }

void flags_of_the_pipe(GM_ADDR, GM_ADDR) {
  if ASCEND_IS_AIV
    return;
  TPipe pipe;
  HERE, SetFlag<HardEvent::M_MTE1>(EVENT_ID1);
}
TEST_F(Faults, FlagsThatTheTPipeKeepsSet) {
  Expect<flags_of_the_pipe>("again, without a WaitFlag");
}

// ---- Injection.

void plain(GM_ADDR x, GM_ADDR y) {
  if ASCEND_IS_AIC
    return;
  TPipe pipe;
  auto a = local(pipe, 64);
  const int64_t at = 64 * GetBlockIdx();
  DataCopy(a, floats(x)[at], 64);
  SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
  WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
  Adds(a, a, 1.0f, 64);
  SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
  WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
  DataCopy(floats(y)[at], a, 64);
}
TEST_F(Faults, Injected) {
  Device device(few_cores(3));
  Array<float> x(device, std::vector<float>(4096, 1.0f)), y(device, 4096);
  device.set_injection(Injection{1, 2, 4});
  device.Launch<plain>(2, GM_ADDR(x), GM_ADDR(y));
  expect_fault(device, "injected", 0, __FILE__);
  EXPECT_EQ(device.fault()->core, "AIV 1");
  device.Reset();
  device.Launch<plain>(2, GM_ADDR(x), GM_ADDR(y));
  expect_end(device);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(y[i], 2);
}

}  // namespace
}  // namespace weft::twin
