#pragma once
// What the tests of the Ascend executor share: a driver that plays the engine's part on the twin.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/ascend/ascend_executor.h"
#include "device/cpu/test_driver.h"
#include "twin.h"

namespace weft::test {

struct TwinOptions {
  std::string file = "f32.gguf";
  uint64_t seed = 1;
  int cores = 2;
  int prefill_cores = 0;
  int decode_cores = 0;
  int context = 256;
  int output_rows = 8;
  bool observe = true;
  AscendWeights weights = AscendWeights::kAuto;
  int64_t spin_cap = 3000;
  int64_t epoch_quanta = 1 << 20;
};

class TwinDriver {
 public:
  static constexpr int kSlots = 8;
  static constexpr int kRows = 640;
  static constexpr int kPasses = 4;

  explicit TwinDriver(const std::string& name, const TwinOptions& options = {})
      : context_(options.context),
        checkpoint_(*Checkpoint::open(tiny(name, options.file))),
        model_(*build_model(checkpoint_)) {
    twin::Options device;
    device.chip.cores = options.cores;
    device.seed = options.seed;
    twin::set_acl_options(device);
    AscendOptions ascend;
    ascend.name = "twin";
    ascend.cores = options.cores;
    ascend.prefill_cores = options.prefill_cores;
    ascend.decode_cores = options.decode_cores;
    ascend.weights = options.weights;
    ascend.host_kernels = *find_kernels("ref");
    ascend.spin_cap = options.spin_cap;
    ascend.epoch_quanta = options.epoch_quanta;
    ascend.limits = {
        kSlots, kPasses, kRows, options.output_rows, context_, kSlots * blocks_of_a_sequence()};
    if (options.observe) {
      ascend.on_logits = [this](int64_t i, std::span<const float> logits) {
        seen_[static_cast<size_t>(i)].assign(logits.begin(), logits.end());
      };
    }
    seen_.resize(kRows);
    auto made = make_ascend_executor(model_, checkpoint_, ascend);
    EXPECT_TRUE(made.ok()) << made.error().message;
    executor_ = std::move(*made);
  }

  Executor& executor() { return *executor_; }
  void end_executor() { executor_.reset(); }
  const Model& model() const { return model_; }
  int layers() const { return model_.config.layers; }
  const Logits& logits(size_t i) const { return seen_[i]; }

  Sequence open(SlotId slot, const SamplingParams& sampling = greedy(), const Tokens& prompt = {},
                uint64_t seed = 1) {
    executor_->open_slot(slot, {sampling, seed, 0, prompt, {}});
    Sequence sequence;
    sequence.slot = slot;
    const int blocks = blocks_of_a_sequence();
    for (int i = 0; i < blocks; ++i) {
      sequence.blocks.push_back((blocks - 1 - i) * kSlots + slot);
    }
    return sequence;
  }

  static Segment rows(Sequence& sequence, std::span<const TokenId> tokens, Outputs outputs,
                      std::span<const TokenId> targets = {}) {
    Segment segment;
    segment.slot = sequence.slot;
    segment.first_position = sequence.position;
    segment.rows = static_cast<int32_t>(tokens.size());
    segment.row_class = RowClass::kPrefill;
    segment.tokens = tokens;
    segment.outputs = outputs;
    segment.targets = targets;
    segment.blocks = sequence.blocks;
    sequence.position += segment.rows;
    return segment;
  }
  static Segment next(Sequence& sequence) {
    Segment segment = rows(sequence, {}, Outputs::kLast);
    segment.row_class = RowClass::kDecode;
    segment.rows = 1;
    ++sequence.position;
    return segment;
  }

  void start(Group group, std::vector<const Pass*> passes, int begin, int end) {
    executor_->start(group, {++quanta_, std::move(passes), begin, end});
  }
  Completion wait() {
    Completion completion;
    EXPECT_TRUE(executor_->wait(TimePoint::max(), completion));
    return completion;
  }
  uint64_t last_quantum() const { return quanta_; }

  std::vector<OutputRow> run(Group group, std::vector<const Pass*> passes, int begin, int end) {
    start(group, std::move(passes), begin, end);
    Completion completion = wait();
    EXPECT_TRUE(completion.status.ok()) << completion.status.error().message;
    EXPECT_EQ(completion.quantum, quanta_);
    EXPECT_GT(completion.busy_core_seconds, 0);
    return std::move(completion.outputs);
  }
  std::vector<OutputRow> run(std::vector<Segment> segments) {
    const Pass pass{0, std::move(segments)};
    return run(Group::kAll, {&pass}, 0, layers());
  }

  Tokens generate(Sequence& sequence, const Tokens& prompt, int count) {
    Tokens tokens = {run({rows(sequence, prompt, Outputs::kLast)})[0].token};
    while (tokens.size() < static_cast<size_t>(count)) {
      tokens.push_back(run({next(sequence)})[0].token);
    }
    return tokens;
  }

  std::vector<Logits> all_logits(Sequence& sequence, std::span<const TokenId> tokens,
                                 size_t chunk) {
    std::vector<Logits> all;
    for (size_t at = 0; at < tokens.size(); at += chunk) {
      const auto part = tokens.subspan(at, std::min(chunk, tokens.size() - at));
      const Tokens targets(part.size(), 0);
      run({rows(sequence, part, Outputs::kAll, targets)});
      for (size_t i = 0; i < part.size(); ++i) all.push_back(seen_[i]);
    }
    return all;
  }

 private:
  int blocks_of_a_sequence() const { return (context_ + kBlockPositions - 1) / kBlockPositions; }

  int context_;
  Checkpoint checkpoint_;
  Model model_;
  std::unique_ptr<Executor> executor_;
  uint64_t quanta_ = 0;
  std::vector<Logits> seen_;
};

}  // namespace weft::test
