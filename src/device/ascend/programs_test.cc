// The kernels' entry points as the article draws them: a prompt's layers launched one by one, and a
// decode loop that stays on its cores. And what becomes of a layer that is never sent.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "ascend/kernels/flag_layout.h"
#include "device/ascend/ascend_model.h"
#include "device/ascend/quantum_tables.h"
#include "device/executor_driver_test.h"
#include "twin.h"

namespace weft {
namespace {

using test::Expected;
using test::Logits;
using test::Tokens;
using weft_ascend::Launch;
using weft_ascend::ProgramReport;
using weft_ascend::RingEntry;

constexpr int kBlocks = 2;
constexpr int kBoard = 1;
constexpr int kNextBoard = 0;
constexpr int64_t kSpinCap = 3000;
const ExecutorLimits kLimits = {2, 2, 64, 4, 128, 4, 64};

// Kernels launched by hand on a model in the twin's memory.
class Bench {
 public:
  explicit Bench(uint64_t seed)
      : checkpoint_(*Checkpoint::open(test::tiny("llama", "f32.gguf"))),
        model_(*build_model(checkpoint_)),
        slots_(static_cast<size_t>(kLimits.slots)),
        boards_(static_cast<size_t>(kLimits.passes)) {
    twin::Options options;
    options.chip.cores = kBlocks;
    options.seed = seed;
    twin::set_acl_options(options);
    device_ = std::move(*AclDevice::create(0, "linked in"));
    memory_ = std::move(*AscendModel::create(model_, *read_layer_roles(model_), checkpoint_,
                                             AscendWeights::kHalf,
                                             {.limits = kLimits, .cores = kBlocks}, {}));
    for (SamplerState& slot : slots_) slot.open({test::greedy(), 1, 0, {}, {}}, vocab(), 128);
    make_launch();
  }

  int layers() const { return model_.config.layers; }
  int vocab() const { return model_.config.vocab; }

  // Writes the descriptor of a quantum of one pass; its memory lives as long as this.
  QuantumTables& describe(const Pass& pass, int begin, int end) {
    Quantum quantum{1, {&pass}, begin, end};
    tables_.push_back(std::make_unique<QuantumTables>(kLimits));
    QuantumTables& tables = *tables_.back();
    tables.fill(quantum, weft_ascend::kTeamAll,
                {.slots = slots_,
                 .token_on_device = token_on_device_,
                 .boards = boards_,
                 .layers = layers(),
                 .vocab = vocab(),
                 .head_rows = kLimits.output_rows});
    descriptors_.push_back(*DeviceMemory::allocate(tables.bytes(), "a test"));
    EXPECT_TRUE(descriptors_.back().write(0, tables.at(descriptors_.back().address())).ok());
    return tables;
  }
  uint64_t last_descriptor() const { return descriptors_.back().address(); }

  // A layer, or several, as a launch of their own.
  void prefill(const Pass& pass, int begin, int end) {
    describe(pass, begin, end);
    reset_flags();
    const std::array<uint64_t, 2> arguments = {launch_.address(), last_descriptor()};
    EXPECT_TRUE(device_->launch("weft_prefill", kBlocks, arguments).ok());
    const Status status = device_->synchronize();
    EXPECT_TRUE(status.ok()) << status.error().message;
  }

  // The decode loop over what its ring holds, to the end of the epoch.
  void decode(const std::vector<uint64_t>& descriptors) {
    reset_flags();
    std::vector<RingEntry> entries;
    for (const uint64_t descriptor : descriptors) {
      entries.push_back({descriptor, weft_ascend::kRunQuantum, weft_ascend::kTeamAll, {}});
    }
    entries.push_back({0, weft_ascend::kEndEpoch, 0, {}});
    EXPECT_TRUE(ring_.write_values<RingEntry>(0, entries).ok());
    EXPECT_TRUE(head_.write_value(0, static_cast<int64_t>(entries.size())).ok());
    EXPECT_TRUE(device_->launch("weft_decode", kBlocks, launch_.address()).ok());
    const Status status = device_->synchronize();
    EXPECT_TRUE(status.ok()) << status.error().message;
  }

  Logits logits(int row) {
    Logits logits(static_cast<size_t>(vocab()));
    EXPECT_TRUE(memory_->read_logits(0, row, logits).ok());
    return logits;
  }
  int64_t board(int board = kBoard) {
    return read<int64_t>(flags_,
                         kBoardFlags + static_cast<uint64_t>(board) * weft_ascend::kFlagBytes);
  }
  std::vector<ProgramReport> reports() {
    std::vector<ProgramReport> reports(kBlocks * weft_ascend::kPrograms);
    EXPECT_TRUE(reports_.read(0, std::as_writable_bytes(std::span(reports))).ok());
    return reports;
  }

 private:
  static constexpr uint64_t kBoardFlags = 4 * weft_ascend::kFlagBytes;

  template <class T>
  static T read(const DeviceMemory& memory, uint64_t offset) {
    T value{};
    EXPECT_TRUE(memory.read(offset, std::as_writable_bytes(std::span(&value, 1))).ok());
    return value;
  }

  void make_launch() {
    const auto make = [](uint64_t bytes) { return *DeviceMemory::allocate(bytes, "a test"); };
    launch_ = make(sizeof(Launch));
    head_ = make(weft_ascend::kFlagBytes);
    ring_ = make(8 * sizeof(RingEntry));
    flags_ = make(kBoardFlags + 2 * weft_ascend::kFlagBytes);
    barrier_ = make(static_cast<uint64_t>(weft_ascend::BarrierBytes(kBlocks)));
    progress_ = make(2 * sizeof(weft_ascend::GroupProgress));
    reports_ = make(kBlocks * weft_ascend::kPrograms * sizeof(ProgramReport));
    Launch launch{};
    launch.blocks[0] = kBlocks;
    launch.ring_entries = 8;
    launch.epoch_quanta = 8;
    launch.spin_cap = kSpinCap;
    launch.model = memory_->address();
    launch.workspaces = memory_->workspaces();
    launch.ring_heads[0] = head_.address();
    launch.rings[0] = ring_.address();
    launch.barriers[0] = barrier_.address();
    launch.barriers[1] = barrier_.address();
    launch.decisions = flags_.address();
    launch.boards = flags_.address() + kBoardFlags;
    launch.progress = progress_.address();
    launch.reports = reports_.address();
    EXPECT_TRUE(launch_.write_value(0, launch).ok());
  }

  // As before a launch: all but the boards'.
  void reset_flags() {
    for (DeviceMemory* memory : {&barrier_, &progress_, &reports_, &head_}) {
      EXPECT_TRUE(memory->clear().ok());
    }
    EXPECT_TRUE(flags_.write(0, std::vector<std::byte>(kBoardFlags)).ok());
  }

  Checkpoint checkpoint_;
  Model model_;
  std::unique_ptr<AclDevice> device_;
  std::unique_ptr<AscendModel> memory_;
  std::vector<SamplerState> slots_;
  std::vector<uint8_t> token_on_device_ = std::vector<uint8_t>(2);
  std::vector<BoardUse> boards_;
  std::vector<std::unique_ptr<QuantumTables>> tables_;
  std::vector<DeviceMemory> descriptors_;
  DeviceMemory launch_, head_, ring_, flags_, barrier_, progress_, reports_;
};

Segment rows_of(std::span<const TokenId> tokens, int first, std::span<const BlockId> blocks,
                Outputs outputs) {
  Segment segment;
  segment.first_position = first;
  segment.rows = static_cast<int32_t>(tokens.size());
  segment.tokens = tokens;
  segment.outputs = outputs;
  segment.blocks = blocks;
  return segment;
}

// The prompt but for its last row, a launch a layer; then the last row in the decode loop, which
// finds every layer sent.
TEST(AscendPrograms, LayersLaunchedOneByOneAndADecodeLoop) {
  const Expected expected("llama");
  const std::span prompt = std::span(expected.prompt).first(33);
  const std::array<BlockId, 2> blocks = {1, 3};
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    Bench bench(seed);
    const Pass whole{0, {rows_of(prompt, 0, blocks, Outputs::kLast)}};
    bench.prefill(whole, 0, bench.layers());
    const Logits wanted = bench.logits(0);

    Pass sender{0, {rows_of(prompt.first(32), 0, blocks, Outputs::kNone)}};
    sender.sends = kBoard;
    for (int layer = 0; layer < bench.layers(); ++layer) {
      bench.prefill(sender, layer, layer + 1);
      EXPECT_EQ(bench.board(), layer + 1);
    }
    Pass follower{1, {rows_of(prompt.last(1), 32, blocks, Outputs::kLast)}};
    follower.follows = kBoard;
    bench.describe(follower, 0, 2);
    const uint64_t first = bench.last_descriptor();
    bench.describe(follower, 2, bench.layers());
    bench.decode({first, bench.last_descriptor()});
    EXPECT_TRUE(test::same_bits({bench.logits(0)}, {wanted}));
    for (const ProgramReport& report : bench.reports()) EXPECT_EQ(report.code, 0);
  }
}

// Nobody sends the third layer: who follows ends with a code that says so, and takes along those
// that wait for it, also for its own layers.
TEST(AscendPrograms, ALostSendEndsTheLaunchWithACode) {
  const Expected expected("llama");
  const std::span prompt = std::span(expected.prompt).first(9);
  const std::array<BlockId, 2> blocks = {0, 2};
  Bench bench(5);
  Pass sender{0, {rows_of(prompt.first(8), 0, blocks, Outputs::kNone)}};
  sender.sends = kBoard;
  bench.prefill(sender, 0, 2);
  Pass follower{1, {rows_of(prompt.last(1), 8, blocks, Outputs::kLast)}};
  follower.follows = kBoard;
  follower.sends = kNextBoard;
  bench.describe(follower, 0, bench.layers());
  bench.decode({bench.last_descriptor()});
  int lost = 0;
  for (const ProgramReport& report : bench.reports()) {
    EXPECT_TRUE(report.code == weft_ascend::kSendLost || report.code == weft_ascend::kPeerFailed ||
                report.code == weft_ascend::kTeamLost)
        << report.code;
    lost += report.code == weft_ascend::kSendLost ? 1 : 0;
    EXPECT_EQ(report.layer, 2);
    EXPECT_EQ(report.place, weft_ascend::kInBoard);
  }
  EXPECT_GT(lost, 0);
  EXPECT_EQ(bench.board(kNextBoard), weft_ascend::kAborted);
}

}  // namespace
}  // namespace weft
