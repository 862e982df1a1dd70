#pragma once
// What the tests of all executors share: tiny models with their expected values, and a driver that
// plays the engine's part for a few sequences.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "device/executor.h"
#include "model/model.h"

namespace weft::test {

using Tokens = std::vector<TokenId>;
using Logits = std::vector<float>;

inline SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

inline std::filesystem::path tiny(const std::string& model, const std::string& file) {
  return std::filesystem::path(WEFT_TEST_DATA) / "tiny" / model / file;
}

struct Expected {
  explicit Expected(const std::string& name) {
    std::ifstream in(tiny(name, "expected.json"));
    const nlohmann::json json = nlohmann::json::parse(in);
    prompt = json["prompt"].get<Tokens>();
    greedy = json["greedy"].get<Tokens>();
    auto tensors = Safetensors::open(tiny(name, "expected.safetensors"));
    EXPECT_TRUE(tensors.ok());
    const auto values = *tensors->floats("logits");
    logits.assign(values.begin(), values.end());
  }
  Tokens prompt;
  Tokens greedy;
  Logits logits;  // [prompt, vocab]
};

// A sequence: its slot, its own blocks (scattered over the pool) and the position it has come to.
struct Sequence {
  SlotId slot = 0;
  std::vector<BlockId> blocks;
  int position = 0;
};

// A model, and an executor that whoever derives from this makes for it.
class ExecutorDriver {
 public:
  static constexpr int kSlots = 8;
  static constexpr int kPasses = 4;

  Executor& executor() { return *executor_; }
  void end_executor() { executor_.reset(); }
  const Model& model() const { return model_; }
  int layers() const { return model_.config.layers; }

  Sequence open(SlotId slot, const SamplingParams& sampling = greedy(), const Tokens& prompt = {},
                const Tokens& output = {}, uint64_t seed = 1, uint32_t choice = 0) {
    executor_->open_slot(slot, {sampling, seed, choice, prompt, output});
    Sequence sequence;
    sequence.slot = slot;
    const int blocks = blocks_of_a_sequence();
    for (int i = 0; i < blocks; ++i) {
      sequence.blocks.push_back((blocks - 1 - i) * kSlots + slot);
    }
    return sequence;
  }

  // A segment of the sequence's next rows; the sequence moves on.
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
  // One row: the slot's last sample.
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

  // Runs passes over layers [begin, end).
  std::vector<OutputRow> run(Group group, std::vector<const Pass*> passes, int begin, int end) {
    start(group, std::move(passes), begin, end);
    Completion completion = wait();
    EXPECT_TRUE(completion.status.ok()) << completion.status.error().message;
    EXPECT_EQ(completion.quantum, quanta_);
    EXPECT_GT(completion.busy_core_seconds, 0);
    EXPECT_LE(completion.start, completion.end);
    return std::move(completion.outputs);
  }
  std::vector<OutputRow> run(std::vector<const Pass*> passes, int begin, int end) {
    return run(Group::kAll, std::move(passes), begin, end);
  }
  // One pass through all layers.
  std::vector<OutputRow> run(std::vector<Segment> segments) {
    const Pass pass{0, std::move(segments)};
    return run({&pass}, 0, layers());
  }

  // Of output `i` of the last quantum that reached the head.
  const Logits& logits(size_t i) const { return seen_[i]; }

  // Prompt in one chunk, then `count` tokens one by one.
  Tokens generate(Sequence& sequence, const Tokens& prompt, int count) {
    Tokens tokens = {run({rows(sequence, prompt, Outputs::kLast)})[0].token};
    while (tokens.size() < static_cast<size_t>(count))
      tokens.push_back(run({next(sequence)})[0].token);
    return tokens;
  }

  // The logits of every row of `tokens`, fed in chunks of at most `chunk` rows.
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

 protected:
  ExecutorDriver(Checkpoint checkpoint, int context, int most_rows)
      : checkpoint_(std::move(checkpoint)),
        model_(*build_model(checkpoint_)),
        context_(context),
        seen_(static_cast<size_t>(most_rows)) {}

  const Checkpoint& checkpoint() const { return checkpoint_; }
  ExecutorLimits limits(int output_rows) const {
    return {kSlots,      kPasses,  static_cast<int>(seen_.size()),
            output_rows, context_, kSlots * blocks_of_a_sequence()};
  }
  // For an executor's on_logits; not while two groups run at once.
  auto observer() {
    return [this](int64_t i, std::span<const float> logits) {
      seen_[static_cast<size_t>(i)].assign(logits.begin(), logits.end());
    };
  }
  void take(Result<std::unique_ptr<Executor>> made) {
    ASSERT_TRUE(made.ok()) << made.error().message;
    executor_ = std::move(*made);
  }

 private:
  int blocks_of_a_sequence() const { return (context_ + kBlockPositions - 1) / kBlockPositions; }

  Checkpoint checkpoint_;
  Model model_;
  int context_;
  std::unique_ptr<Executor> executor_;
  uint64_t quanta_ = 0;
  std::vector<Logits> seen_;
};

// Equal to the last bit, and numbers.
inline ::testing::AssertionResult same_bits(const std::vector<Logits>& a,
                                            const std::vector<Logits>& b) {
  if (a.size() != b.size())
    return ::testing::AssertionFailure() << a.size() << " and " << b.size() << " rows";
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size() ||
        std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0) {
      return ::testing::AssertionFailure() << "row " << i << " differs";
    }
  }
  return ::testing::AssertionSuccess();
}

// The same token, and all that is known of its logits to the last bit.
inline bool same_output(const OutputRow& a, const OutputRow& b) {
  const auto bits = [](const OutputRow& row) {
    std::vector<float> values = {row.logprob, row.log_sum_exp, static_cast<float>(row.token)};
    for (const TokenLogprob& top : row.top) {
      values.push_back(top.logprob);
      values.push_back(static_cast<float>(top.token));
    }
    return values;
  };
  const std::vector<float> x = bits(a);
  const std::vector<float> y = bits(b);
  return a.finite && b.finite && x.size() == y.size() &&
         std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

}  // namespace weft::test
