#include "time/operator_times.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/barrier.h"
#include "time/full_run.h"
#include "time/kernel_bars.h"
#include "time/quantum_steps.h"

namespace weft::timing {
namespace {

ModelShape small(int kv_heads = 2) {
  return {.name = "small",
          .layers = 3,
          .hidden = 512,
          .ffn = 1536,
          .heads = 8,
          .kv_heads = kv_heads,
          .head_dim = 64,
          .vocab = 8192,
          .qkv_bias = true,
          .qk_norm = false};
}

// Three layers of Qwen2.5-7B, with fewer tokens.
ModelShape qwen() {
  return {.name = "three layers",
          .layers = 3,
          .hidden = 3584,
          .ffn = 18944,
          .heads = 28,
          .kv_heads = 4,
          .head_dim = 128,
          .vocab = 32768,
          .qkv_bias = true,
          .qk_norm = false};
}

ChipModel chip(std::string_view name = "910b2") {
  ChipModel model = *find_chip_model(name);
  model.cores = 4;
  return model;
}

// A vector operator: all of `bytes` come into UB, from L2 at the best.
void expect_fetched(const ChipModel& model, const OperatorTime& time, double bytes,
                    const char* name) {
  const double rate = 2 * model.cores * model.per_second(model.vector_l2_rate);
  EXPECT_GE(time.seconds, bytes / rate) << name;
  EXPECT_LE(time.work, time.seconds) << name;
}

void expect_possible(const ChipModel& model, const OperatorTime& time, double flops, double bytes,
                     const char* name) {
  EXPECT_GE(time.seconds, flops / model.peak_flops()) << name;
  EXPECT_GE(time.seconds, bytes / model.hbm_bandwidth) << name;
  EXPECT_LE(time.work, time.seconds) << name;
}

TEST(OperatorTimes, NothingIsFasterThanTheChip) {
  const ChipModel model = chip();
  const ModelShape shape = small();
  OperatorTimes times(model, shape, 4);
  for (const int rows : {1, 16, 100, 512, 700}) {
    const auto multiply = [&](Matrix matrix, double inputs, double outputs, const char* name) {
      expect_possible(model, times.Multiply(matrix, rows), 2.0 * rows * inputs * outputs,
                      2 * inputs * outputs, name);
    };
    multiply(Matrix::kQkv, shape.hidden, shape.qkv(), "qkv");
    multiply(Matrix::kOut, shape.queries(), shape.hidden, "out");
    multiply(Matrix::kGateUp, shape.hidden, 2.0 * shape.ffn, "gate, up");
    multiply(Matrix::kDown, shape.ffn, shape.hidden, "down");
    multiply(Matrix::kHead, shape.hidden, shape.vocab, "head");
    expect_possible(model, times.Prefill(512, rows), 4.0 * shape.queries() * rows * 512,
                    512 * shape.key_bytes(), "attention of a prompt");
    expect_fetched(model, times.Norm(rows, true), 2.0 * rows * 4 * shape.hidden, "norm");
    expect_fetched(model, times.SwiGlu(rows), 2.0 * rows * 2 * shape.ffn, "swiglu");
    expect_fetched(model, times.Store(rows, true, true), 4.0 * rows * shape.qkv(), "store");
  }
  for (const int rows : {1, 4}) {
    expect_possible(model, times.Decode(rows, 2048), 4.0 * shape.queries() * rows * 2048,
                    rows * 2048 * shape.key_bytes(), "attention of streams");
  }
}

struct Sums {
  double multiply_adds = 0;
  double hbm_bytes = 0;
};
Sums sums_of(const std::vector<Step>& steps) {
  Sums sums;
  for (const Step& step : steps) {
    sums.multiply_adds += step.time.multiply_adds;
    sums.hbm_bytes += step.time.hbm_bytes;
  }
  return sums;
}

// What a step multiplies and fetches, counted by hand. A lone row is multiplied twice, since an
// Mmad has two rows at the least; its four query heads of a group are four rows of attention.
TEST(OperatorTimes, ADecodeStepMovesWhatItMust) {
  const ChipModel model = chip();
  const ModelShape shape = small();
  OperatorTimes times(model, shape, 4);
  QuantumRows rows;
  rows.contexts = rows.output_contexts = {1024};
  const Sums sums = sums_of(steps_of(times, rows, {0, shape.layers, shape.layers}, {}));
  const double attention = 2.0 * shape.queries() * 1024;
  EXPECT_EQ(sums.multiply_adds,
            shape.layers * (2 * shape.layer_weights() + attention) + 2 * shape.head_weights());
  const double weights = 2 * (shape.layers * shape.layer_weights() + shape.head_weights());
  const double keys = shape.layers * shape.key_bytes() * 1024;
  EXPECT_GE(sums.hbm_bytes, weights + keys);
  EXPECT_LE(sums.hbm_bytes, 1.03 * (weights + keys));  // norms, biases, rows
}

// All rows through all matrices, but that the last layer only needs keys and values. Attention has
// whole tiles of 64 keys, up to the one in which a tile of rows ends; that holds as many tokens as
// fill 128 rows with the query heads of a group.
TEST(OperatorTimes, APromptMovesWhatItMust) {
  const ChipModel model = chip();
  const ModelShape shape = small();
  OperatorTimes times(model, shape, 4);
  constexpr int kRows = 256;
  QuantumRows rows;
  rows.prompts = {{0, kRows}};
  const Sums sums = sums_of(steps_of(times, rows, {0, shape.layers, shape.layers}, {}));
  const int tokens = 128 / (shape.heads / shape.kv_heads);
  double looks = 0;
  for (int token = 0; token < kRows; token += tokens)
    looks += tokens * std::ceil((token + tokens) / 64.0) * 64;
  const double layer = kRows * shape.layer_weights() + 2 * shape.queries() * looks;
  const double last = static_cast<double>(kRows) * shape.hidden * shape.keys();
  EXPECT_EQ(sums.multiply_adds, (shape.layers - 1) * layer + last);
  const double weights = 2 * ((shape.layers - 1) * shape.layer_weights() +
                              static_cast<double>(shape.hidden) * shape.keys());
  // Of a layer: keys read; what operators leave: normed rows twice, qkv, queries, keys and values,
  // attention, gate and up, SwiGLU, and the results of two matrices.
  const double read = shape.key_bytes();
  const double left = 2.0 * 2 * shape.hidden + 4.0 * shape.qkv() + 2.0 * 2 * shape.queries() +
                      shape.key_bytes() + 2.0 * 3 * shape.ffn + 2.0 * 4 * shape.hidden;
  const double last_left = 2.0 * shape.hidden + 4.0 * shape.keys() + shape.key_bytes();
  const double rest = kRows * ((shape.layers - 1) * (read + left) + last_left);
  EXPECT_GE(sums.hbm_bytes, weights + rest);
  EXPECT_LE(sums.hbm_bytes, 1.03 * (weights + rest));  // norms, biases, rows, rotation
}

TEST(OperatorTimes, TheSameEveryTime) {
  const ChipModel model = chip();
  OperatorTimes first(model, small(), 4);
  OperatorTimes second(model, small(), 4);
  second.Norm(16, true);  // what was simulated before does not matter
  second.Prefill(0, 128);
  EXPECT_EQ(first.Multiply(Matrix::kDown, 48).seconds, second.Multiply(Matrix::kDown, 48).seconds);
  EXPECT_EQ(first.Decode(3, 700).seconds, second.Decode(3, 700).seconds);
}

TEST(OperatorTimes, BetweenSimulatedShapesTimesAreNear) {
  const ChipModel model = *find_chip_model("910b2");
  OperatorTimes times(model, qwen(), 24);
  for (const int rows : {577, 900, 1500}) {
    const double exact = times.SimulateMultiply(Matrix::kGateUp, rows).seconds;
    EXPECT_NEAR(times.Multiply(Matrix::kGateUp, rows).seconds, exact, 0.05 * exact) << rows;
  }
  for (const auto& [first, rows] : {std::pair(300, 128), std::pair(700, 200)}) {
    const double exact = times.SimulatePrefill(first, rows).seconds;
    EXPECT_NEAR(times.Prefill(first, rows).seconds, exact, 0.2 * exact) << first << ", " << rows;
  }
  for (const auto& [rows, context] : {std::pair(4, 2200), std::pair(16, 800)}) {
    const double exact = times.SimulateDecode(rows, context).seconds;
    EXPECT_NEAR(times.Decode(rows, context).seconds, exact, 0.15 * exact) << rows;
  }
}

// Operators one after another, against the layer program itself.
TEST(OperatorTimes, TheirSumIsTheWholeQuantum) {
  struct Case {
    const char* name;
    int kv_heads;
    bool int8;
  };
  for (const auto& [name, kv_heads, int8] :
       {Case{"910b2", 4, false}, Case{"article", 28, false}, Case{"910b2", 28, true}}) {
    const ChipModel model = *find_chip_model(name);
    const auto cores = static_cast<int>(model.cores);
    ModelShape shape = qwen();
    shape.kv_heads = kv_heads;
    shape.int8 = int8;
    OperatorBench bench(model);
    OperatorTimes times(model, shape, cores);
    const FixedCosts fixed = measure_fixed_costs(times);  // of a lone stream's steps
    for (const FullQuantum& quantum :
         {FullQuantum{.first = 0, .rows = 0, .streams = 2, .context = 2048},
          FullQuantum{.first = 0, .rows = 0, .streams = 8, .context = 1024},
          FullQuantum{.first = 512, .rows = 512, .streams = 0, .context = 0}}) {
      const Timing full = bench.Replay(record_quantum(bench, shape, cores, quantum));
      bench.Clear();
      double sum = 0;
      for (const Step& step :
           steps_of(times, rows_of(quantum), {0, shape.layers, shape.layers}, fixed))
        sum += step.time.seconds;
      EXPECT_NEAR(sum, full.seconds, 0.02 * full.seconds)
          << name << ", " << kv_heads << " heads of keys, " << quantum.rows << " rows, "
          << quantum.streams << " streams";
    }
  }
}

TEST(KernelBars, AMultiplicationIsNearTheChip) {
  const KernelBar bar = time_matmul(chip(), 1024, 1024, 1024);
  EXPECT_GE(bar.seconds, bar.bound);
  EXPECT_LE(bar.seconds, 2 * bar.bound);
  EXPECT_GT(bar.cube, 0.4);
  for (const double share : {bar.cube, bar.mte1, bar.mte2, bar.fixpipe, bar.vector})
    EXPECT_LE(share, 1);
}

// A few rows wait for weights, of which int8 has about half the bytes.
TEST(KernelBars, Int8WeightsAreFewerBytes) {
  const ChipModel model = chip();
  const KernelBar half = time_matmul(model, 16, 2048, 4096);
  const KernelBar int8 = time_matmul(model, 16, 2048, 4096, true);
  EXPECT_GE(int8.seconds, int8.bound);
  EXPECT_LT(int8.bound, 0.6 * half.bound);
  EXPECT_GT(int8.vector, 0);  // which turns them to halves
  EXPECT_EQ(half.vector, 0);
}

TEST(KernelBars, LargeKernelsHoldTheirBars) {
  const ChipModel model = *find_chip_model("910b2");
  const KernelBar matmul = time_matmul(model, 4096, 4096, 4096);
  EXPECT_GE(matmul.seconds, matmul.bound);
  EXPECT_LE(matmul.seconds, 1.25 * matmul.bound);
  const KernelBar attention = time_attention(model, 4096);
  EXPECT_GE(attention.seconds, attention.bound);
  EXPECT_LE(attention.seconds, 1.5 * 88.9e-6);  // reported of another kernel
}

TEST(ChipModel, ConstantsCanBeChanged) {
  ChipModel model = *find_chip_model("910b2");
  EXPECT_TRUE(change(model, "hbm_bandwidth=1e12").ok());
  EXPECT_EQ(model.hbm_bandwidth, 1e12);
  EXPECT_TRUE(change(model, "hbm_bandwidth*0.5").ok());
  EXPECT_EQ(model.hbm_bandwidth, 5e11);
  for (const char* wrong : {"hbm_bandwidth",
                            "hbm_bandwidth=",
                            "hbm_bandwidth=x",
                            "speed=1",
                            "hbm_bandwidth=-1",
                            "hbm_bandwidth=0",
                            "hbm_bandwidth=nan",
                            "hbm_bandwidth=inf",
                            "hbm_bandwidth=1e400",
                            "=1",
                            "",
                            "issue_queue=0.5",
                            "issue_queue=0",
                            "issue_queue*0.01",
                            "issue_queue=1e9",
                            "cores=0",
                            "cores=65",
                            "cores=2.5",
                            "latency_spread=1.5",
                            "hbm_latency=1",
                            "cube_efficiency=0"}) {
    EXPECT_FALSE(change(model, wrong).ok()) << wrong;
  }
  const Status queue = change(model, "issue_queue=0.5");
  for (const char* named : {"issue_queue=0.5", "from 1 to 1024"})
    EXPECT_NE(queue.error().message.find(named), std::string::npos) << queue.error().message;
  EXPECT_FALSE(find_chip_model("910z").ok());
  EXPECT_FALSE(find_chip_model("910B2").ok());
  for (const std::string_view name : kPresets) {
    const ChipModel preset = *find_chip_model(name);
    for (const Constant& constant : constants())
      EXPECT_FALSE(source_of(preset, constant).empty()) << constant.name;
  }
}

TEST(ChipModel, PresetsLieWithinTheRanges) {
  for (const std::string_view name : kPresets) {
    for (const Constant& constant : constants()) {
      ChipModel preset = *find_chip_model(name);
      const double before = preset.*constant.value;
      EXPECT_TRUE(change(preset, std::string(constant.name) + "*1").ok()) << constant.name;
      EXPECT_EQ(preset.*constant.value, before);
      EXPECT_NE(source_of(preset, constant), "--set");
    }
  }
  EXPECT_EQ(find_chip_model("article")->frequency, 1.85e9);
  EXPECT_EQ(find_chip_model("910b4")->frequency, 1.5e9);
  ChipModel model = *find_chip_model("910b2");
  ASSERT_TRUE(change(model, "launch=1e-6").ok());
  for (const Constant& constant : constants())
    EXPECT_EQ(source_of(model, constant) == "--set", constant.name == "launch") << constant.name;
}

// Whatever the ranges allow has a time.
TEST(ChipModel, ExtremesOfEachConstantHaveTimes) {
  for (const Constant& constant : constants()) {
    if (constant.name == "cores") continue;
    for (const double value : {constant.range.least, constant.range.most}) {
      ChipModel model = chip();
      model.*constant.value = value;
      OperatorTimes times(model, small(), 4);
      const double seconds = (times.Multiply(Matrix::kDown, 16) + times.Decode(2, 512)).seconds;
      EXPECT_TRUE(seconds > 0 && seconds < 1e4) << constant.name << ", " << seconds;
    }
  }
}

// A write, looks by a copy, a flag within the block and a look: what each costs, and for a look
// that came too early another; not what a round of flags for each doubling of the team would.
TEST(OperatorTimes, ABarrierIsOneHopHoweverManyCores) {
  for (const int cores : {1, 4, 32}) {
    ChipModel model = *find_chip_model("article");
    model.cores = cores;
    OperatorTimes times(model, small(), cores);
    const double seconds = times.Barrier().seconds;
    const double hop = model.flag_latency + model.l2_latency * (1 - model.latency_spread);
    EXPECT_GT(seconds, hop + model.cross_latency + model.scalar_miss) << cores;
    EXPECT_LT(seconds, 2 * hop + model.cross_latency + 3 * model.scalar_miss) << cores;
  }
}

void Meet(GM_ADDR flags, int32_t rounds) {
  AscendC::TPipe pipe;
  weft_ascend::TeamBarrier barrier;
  barrier.Init(pipe, flags, weft_ascend::WholeLaunch(), 0);
  for (int32_t round = 0; round < rounds; ++round) {
    barrier.Arrive();
    barrier.Leave();
  }
}

// However often the twin lets a program look, it is one look for each barrier, which awaits one
// change of each other program's flag. That of its own cube core it has waited for before.
TEST(Recorder, LooksBecomeOneThatAwaitsTheNextChanges) {
  const ChipModel model = chip();
  OperatorBench bench(model);
  constexpr int kCores = 4;
  constexpr int kRounds = 5;
  const Recording recording = bench.Record<&Meet>(
      kCores, bench.Memory(static_cast<uint64_t>(weft_ascend::BarrierBytes(kCores))), kRounds);
  ASSERT_EQ(recording.programs.size(), size_t{kCores} * kProgramsOfCore);
  for (size_t i = 0; i < recording.programs.size(); ++i) {
    int looks = 0;
    for (const Record& record : recording.programs[i]) {
      EXPECT_NE(record.kind, Record::Kind::kCopy);
      if (record.kind != Record::Kind::kLook) continue;
      ++looks;
      EXPECT_EQ(recording.looks[record.index].awaited.size(), kCores * kProgramsOfCore - 1U);
    }
    EXPECT_EQ(looks, i % kProgramsOfCore == 0 ? 0 : kRounds) << "program " << i;
  }
}

}  // namespace
}  // namespace weft::timing
