#pragma once
// An executor for tests without a model. What it stores for a position depends on the token there,
// and what it samples on everything stored below the row, read through the row's block table, and
// on the slot's parameters and counts. So a wrong table, a missing or overwritten position or lost
// counts change the tokens. Every requirement of device/executor.h is checked; a breach is a test
// failure.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/executor.h"

namespace weft {

inline uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a ^ (b + 0x9e3779b97f4a7c15U + (a << 6U) + (a >> 2U));
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

class FakeExecutor final : public Executor {
 public:
  explicit FakeExecutor(ExecutorLimits limits, int vocab = 1000)
      : limits_(limits), vocab_(vocab), store_(static_cast<size_t>(limits.blocks)) {
    for (auto& block : store_) block.assign(kBlockPositions, 0);
  }
  ~FakeExecutor() override {
    EXPECT_TRUE(slots_.empty()) << "slots are open at the end";
    EXPECT_FALSE(started_.has_value()) << "a quantum was never waited for";
  }

  // Faults to inject; set before the engine runs.
  // The row at `position` of the sequence with these tokens yields something that is not a number.
  std::function<bool(const std::vector<TokenId>& tokens, int position)> not_a_number;
  // The status of a quantum.
  std::function<Status(const Quantum&)> status;
  // Called by wait() before it completes a quantum.
  std::function<void(const Quantum&)> before_completion;

  uint64_t quanta() const { return quanta_; }

  const ExecutorLimits& limits() const override { return limits_; }
  int layers() const override { return kLayers; }
  int vocab() const override { return vocab_; }
  int groups() const override { return 1; }
  int cores(GroupId) const override { return 1; }
  std::string description() const override { return "fake"; }

  void open_slot(SlotId id, const SlotInit& init) override {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, limits_.slots);
    EXPECT_FALSE(slots_.contains(id)) << "slot " << id << " is open already";
    EXPECT_FALSE(init.prompt.empty());
    Slot& slot = slots_[id];
    slot.sampling = init.sampling;
    slot.seed = init.seed;
    slot.choice = init.choice;
    slot.tokens.assign(init.prompt.begin(), init.prompt.end());
    slot.tokens.insert(slot.tokens.end(), init.output.begin(), init.output.end());
    slot.prompt = static_cast<int>(init.prompt.size());
  }

  void close_slot(SlotId id) override {
    EXPECT_FALSE(started_ && names(*started_, id)) << "slot " << id << " is closed while it runs";
    EXPECT_EQ(slots_.erase(id), 1U) << "slot " << id << " is not open";
  }

  void start(GroupId group, const Quantum& quantum) override {
    EXPECT_EQ(group, 0);
    EXPECT_FALSE(started_.has_value()) << "two quanta on one group";
    EXPECT_EQ(quantum.layer_begin, 0);
    EXPECT_EQ(quantum.layer_end, kLayers);
    EXPECT_FALSE(quantum.passes.empty());
    started_ = quantum;
    check(quantum);
  }

  std::optional<Completion> wait(TimePoint) override {
    EXPECT_TRUE(started_.has_value()) << "nothing was started";
    if (before_completion) before_completion(*started_);
    Completion completion;
    completion.quantum = started_->id;
    if (status) completion.status = status(*started_);
    // A failed quantum may have written anything: it writes and reports nothing here.
    if (completion.status.ok()) run(*started_, completion);
    started_.reset();
    ++quanta_;
    return completion;
  }

  void drop_pass(PassId) override { ADD_FAILURE() << "no pass is left before its last layer"; }

 private:
  static constexpr int kLayers = 4;

  struct Slot {
    SamplingParams sampling;
    uint64_t seed = 0;
    uint32_t choice = 0;
    int prompt = 0;
    std::vector<TokenId> tokens;  // prompt, outputs of before, samples
    int stored = 0;               // positions whose content is in the store
    bool sampled = false;         // "the slot's last sample" exists
    std::vector<BlockId> blocks;
  };

  static bool names(const Quantum& quantum, SlotId id) {
    for (const Pass* pass : quantum.passes) {
      for (const Segment& segment : pass->segments) {
        if (segment.slot == id) return true;
      }
    }
    return false;
  }

  void check(const Quantum& quantum) {
    int64_t rows = 0;
    std::set<PassId> ids;
    std::map<SlotId, int> next;
    for (const Pass* pass : quantum.passes) {
      EXPECT_GE(pass->id, 0);
      EXPECT_LT(pass->id, limits_.passes);
      EXPECT_TRUE(ids.insert(pass->id).second) << "pass " << pass->id << " runs twice";
      EXPECT_FALSE(pass->segments.empty());
      rows += pass->rows();
      for (const Segment& segment : pass->segments) {
        ASSERT_TRUE(slots_.contains(segment.slot)) << "slot " << segment.slot << " is closed";
        Slot& slot = slots_.at(segment.slot);
        check_rows(segment, slot, next.try_emplace(segment.slot, slot.stored).first->second);
        check_blocks(segment, slot);
      }
    }
    EXPECT_LE(rows, limits_.rows);
  }

  void check_rows(const Segment& segment, const Slot& slot, int& next) const {
    EXPECT_GT(segment.rows, 0);
    EXPECT_EQ(segment.first_position, next) << "a position is left out or runs twice";
    next = segment.first_position + segment.rows;
    EXPECT_LE(next, limits_.context);
    ASSERT_LE(next, static_cast<int>(slot.tokens.size()));
    if (segment.tokens.empty()) {
      EXPECT_EQ(segment.rows, 1);
      EXPECT_TRUE(slot.sampled);
      EXPECT_EQ(next, static_cast<int>(slot.tokens.size()));
    } else {
      EXPECT_EQ(static_cast<int>(segment.tokens.size()), segment.rows);
      EXPECT_TRUE(std::equal(segment.tokens.begin(), segment.tokens.end(),
                             slot.tokens.begin() + segment.first_position));
    }
    const bool prefill = next <= slot.prompt - 1;
    EXPECT_EQ(segment.row_class, prefill ? RowClass::kPrefill : RowClass::kDecode);
    EXPECT_TRUE(prefill || segment.first_position >= slot.prompt - 1) << "two classes mixed";
    if (segment.outputs == Outputs::kLast) {
      EXPECT_EQ(next, static_cast<int>(slot.tokens.size())) << "a sample before the last token";
    }
    EXPECT_EQ(segment.targets.size(), segment.outputs == Outputs::kAll ? segment.tokens.size() : 0);
    for (const TokenId target : segment.targets) {
      EXPECT_GE(target, kSample);
      EXPECT_LT(target, vocab_);
    }
  }

  void check_blocks(const Segment& segment, Slot& slot) {
    const int positions = segment.first_position + segment.rows;
    EXPECT_GE(static_cast<int>(segment.blocks.size()) * kBlockPositions, positions);
    std::set<BlockId> mine;
    for (const BlockId block : segment.blocks) {
      ASSERT_GE(block, 0);
      ASSERT_LT(block, limits_.blocks);
      EXPECT_TRUE(mine.insert(block).second) << "block " << block << " twice in one table";
    }
    slot.blocks.assign(segment.blocks.begin(), segment.blocks.end());
    for (const auto& [id, other] : slots_) {
      if (&other == &slot) continue;
      for (const BlockId block : other.blocks) {
        EXPECT_FALSE(mine.contains(block)) << "block " << block << " has two owners";
      }
    }
  }

  void run(const Quantum& quantum, Completion& completion) {
    for (const Pass* pass : quantum.passes) {
      for (size_t i = 0; i < pass->segments.size(); ++i) {
        run_segment(*pass, static_cast<int>(i), completion);
      }
    }
  }

  void run_segment(const Pass& pass, int index, Completion& completion) {
    const Segment& segment = pass.segments[static_cast<size_t>(index)];
    Slot& slot = slots_.at(segment.slot);
    for (int row = 0; row < segment.rows; ++row) {
      const int position = segment.first_position + row;
      const TokenId token =
          segment.tokens.empty() ? slot.tokens.back() : segment.tokens[static_cast<size_t>(row)];
      cell(segment, position) = mix(static_cast<uint64_t>(token), static_cast<uint64_t>(position));
      ++slot.stored;
      const bool all = segment.outputs == Outputs::kAll;
      if (!all && (segment.outputs == Outputs::kNone || row + 1 < segment.rows)) continue;
      OutputRow out;
      out.pass = pass.id;
      out.segment = index;
      out.row = row;
      const TokenId target = all ? segment.targets[static_cast<size_t>(row)] : kSample;
      report(segment, slot, position, target, out);
      if (target == kSample && out.finite) {
        slot.tokens.push_back(out.token);
        slot.sampled = true;
      }
      completion.outputs.push_back(std::move(out));
    }
  }

  uint64_t& cell(const Segment& segment, int position) {
    const auto block =
        static_cast<size_t>(segment.blocks[static_cast<size_t>(position / kBlockPositions)]);
    return store_[block][static_cast<size_t>(position % kBlockPositions)];
  }

  // Reads everything stored up to `position`.
  void report(const Segment& segment, const Slot& slot, int position, TokenId target,
              OutputRow& out) {
    if (not_a_number && not_a_number(slot.tokens, position)) {
      out.finite = false;
      return;
    }
    uint64_t state = 1;
    for (int p = 0; p <= position; ++p) state = mix(state, cell(segment, p));
    out.log_sum_exp = static_cast<float>(state % 17);
    out.token = target == kSample ? sample(slot, state) : target;
    out.logprob = -static_cast<float>(mix(state, static_cast<uint64_t>(out.token)) % 4096) / 256;
    for (int i = 0; i < slot.sampling.top_logprobs; ++i) {
      out.top.push_back(
          {static_cast<TokenId>((state + static_cast<uint64_t>(i)) % static_cast<uint64_t>(vocab_)),
           -static_cast<float>(i)});
    }
  }

  TokenId sample(const Slot& slot, uint64_t state) const {
    if (slot.sampling.temperature > 0) state = mix(mix(state, slot.seed), slot.choice);
    if (slot.sampling.repetition_penalty != 1.0F) {
      for (const TokenId token : slot.tokens) state = mix(state, static_cast<uint64_t>(token));
    }
    auto token = static_cast<TokenId>(state % static_cast<uint64_t>(vocab_));
    const int outputs = static_cast<int>(slot.tokens.size()) - slot.prompt;
    const auto& forbidden = slot.sampling.forbidden;
    while (outputs < slot.sampling.min_tokens &&
           std::find(forbidden.begin(), forbidden.end(), token) != forbidden.end()) {
      token = (token + 1) % vocab_;
    }
    return token;
  }

  ExecutorLimits limits_;
  int vocab_;
  std::vector<std::vector<uint64_t>> store_;  // [blocks][kBlockPositions]
  std::map<SlotId, Slot> slots_;
  std::optional<Quantum> started_;
  uint64_t quanta_ = 0;
};

}  // namespace weft
