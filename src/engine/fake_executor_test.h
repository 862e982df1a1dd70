#pragma once
// An executor for tests without a model, but with layers that read each other: a row's state in a
// layer depends on its state in the layer before and on everything stored in that layer for the
// positions up to its own, read through the row's block table; what it samples also on the slot's
// parameters and counts. So a wrong table, a layer run out of order, a missing or overwritten
// position or lost counts change the tokens. Every requirement of device/executor.h is checked; a
// breach is a test failure.
//
// Quanta take as long as the test says, on a clock of the test; of two groups the one that is done
// first completes first.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
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
  static constexpr int kLayers = 4;

  explicit FakeExecutor(ExecutorLimits limits, int vocab = 1000, bool split = false)
      : limits_(limits),
        vocab_(vocab),
        split_(split),
        store_(static_cast<size_t>(limits.blocks)),
        passes_(static_cast<size_t>(limits.passes)) {
    for (auto& block : store_) block.assign(kLayers * kBlockPositions, 0);
  }
  ~FakeExecutor() override {
    EXPECT_TRUE(slots_.empty()) << "slots are open at the end";
    EXPECT_TRUE(started_.empty()) << "a quantum was never waited for";
    for (const OpenPass& pass : passes_) EXPECT_EQ(pass.next_layer, 0) << "a pass was left open";
  }

  // Faults to inject; set before the engine runs.
  // The row at `position` of the sequence with these tokens yields something that is not a number.
  std::function<bool(const std::vector<TokenId>& tokens, int position)> not_a_number;
  // The status of a quantum.
  std::function<Status(const Quantum&)> status;
  // Called by wait() before it completes a quantum.
  std::function<void(const Quantum&)> before_completion;
  // How long a quantum takes, on this clock; without, no time.
  std::function<Duration(Group, const Quantum&)> duration;
  FakeClock* clock = nullptr;

  uint64_t quanta() const { return quanta_; }
  int64_t row_layers() const { return row_layers_; }  // rows x layers run so far

  const ExecutorLimits& limits() const override { return limits_; }
  int layers() const override { return kLayers; }
  int vocab() const override { return vocab_; }
  int cores(Group group) const override { return group == Group::kAll ? 2 : split_ ? 1 : 0; }
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
    for (const Started& started : started_) {
      EXPECT_FALSE(names(started.quantum, id)) << "slot " << id << " is closed while it runs";
    }
    EXPECT_EQ(slots_.erase(id), 1U) << "slot " << id << " is not open";
  }

  // Runs it at once: what a follower waits for was started before.
  void start(Group group, const Quantum& quantum) override {
    EXPECT_GT(cores(group), 0) << "no such group";
    for (const Started& other : started_) {
      EXPECT_NE(other.group, group) << "two quanta on one group";
      EXPECT_TRUE(other.group != Group::kAll && group != Group::kAll) << "cores are in use";
    }
    EXPECT_GE(quantum.layer_begin, 0);
    EXPECT_LT(quantum.layer_begin, quantum.layer_end);
    EXPECT_LE(quantum.layer_end, kLayers);
    EXPECT_FALSE(quantum.passes.empty());
    check(quantum);
    Started& started = started_.emplace_back();
    started.group = group;
    started.quantum = quantum;
    Completion& completion = started.completion;
    completion.quantum = quantum.id;
    if (status) completion.status = status(quantum);
    if (clock != nullptr) completion.start = clock->now();
    completion.end = completion.start + (duration ? duration(group, quantum) : Duration{});
    completion.busy_core_seconds = seconds(completion.end - completion.start) * cores(group);
    // A failed quantum may have written anything: it writes and reports nothing here.
    if (completion.status.ok()) run(quantum, completion);
    for (const Pass* pass : quantum.passes) {
      OpenPass& open = passes_[static_cast<size_t>(pass->id)];
      open.next_layer = quantum.layer_end % kLayers;
      open.hidden.resize(static_cast<size_t>(pass->rows()));
    }
  }

  bool wait(TimePoint, Completion& completion) override {
    EXPECT_FALSE(started_.empty()) << "nothing was started";
    const auto first = std::min_element(
        started_.begin(), started_.end(),
        [](const Started& a, const Started& b) { return a.completion.end < b.completion.end; });
    if (before_completion) before_completion(first->quantum);
    completion = std::move(first->completion);
    if (clock != nullptr && completion.end > clock->now()) {
      clock->advance(completion.end - clock->now());
    }
    started_.erase(first);
    ++quanta_;
    return true;
  }

  void drop_pass(PassId id) override {
    check_left(id);
    passes_[static_cast<size_t>(id)] = {};
  }

  void drop_rows(PassId id, int64_t first, int64_t count) override {
    check_left(id);
    auto& hidden = passes_[static_cast<size_t>(id)].hidden;
    ASSERT_LE(first + count, static_cast<int64_t>(hidden.size()));
    hidden.erase(hidden.begin() + first, hidden.begin() + first + count);
  }

  CoreTime core_time() const override { return {}; }
  TimePoint last_layer_end() const override { return {}; }

 private:
  struct Slot {
    SamplingParams sampling;
    uint64_t seed = 0;
    uint32_t choice = 0;
    int prompt = 0;
    std::vector<TokenId> tokens;  // prompt, outputs of before, samples
    bool sampled = false;         // "the slot's last sample" exists
  };
  struct OpenPass {
    int next_layer = 0;
    std::vector<uint64_t> hidden;  // of each row
  };
  struct Started {
    Group group;
    Quantum quantum;
    Completion completion;
  };

  static bool names(const Quantum& quantum, SlotId id) {
    for (const Pass* pass : quantum.passes) {
      for (const Segment& segment : pass->segments) {
        if (segment.slot == id) return true;
      }
    }
    return false;
  }

  void check_left(PassId id) {
    EXPECT_GT(passes_.at(static_cast<size_t>(id)).next_layer, 0) << "pass " << id << " is not open";
    for (const Started& started : started_) {
      for (const Pass* pass : started.quantum.passes) EXPECT_NE(pass->id, id) << "it runs";
    }
  }

  void check(const Quantum& quantum) {
    int64_t rows = 0;
    std::set<PassId> ids;
    for (const Pass* pass : quantum.passes) {
      ASSERT_GE(pass->id, 0);
      ASSERT_LT(pass->id, limits_.passes);
      EXPECT_TRUE(ids.insert(pass->id).second) << "pass " << pass->id << " runs twice";
      EXPECT_FALSE(pass->segments.empty());
      rows += pass->rows();
      const OpenPass& open = passes_[static_cast<size_t>(pass->id)];
      EXPECT_EQ(open.next_layer, quantum.layer_begin) << "pass " << pass->id;
      if (quantum.layer_begin > 0) {
        EXPECT_EQ(static_cast<int64_t>(open.hidden.size()), pass->rows());
      }
      for (const Segment& segment : pass->segments) {
        ASSERT_TRUE(slots_.contains(segment.slot)) << "slot " << segment.slot << " is closed";
        check_rows(segment, slots_.at(segment.slot));
        check_blocks(segment);
      }
    }
    EXPECT_LE(rows, limits_.rows);
  }

  void check_rows(const Segment& segment, const Slot& slot) const {
    EXPECT_GT(segment.rows, 0);
    const int end = segment.first_position + segment.rows;
    EXPECT_LE(end, limits_.context);
    ASSERT_LE(end, static_cast<int>(slot.tokens.size()));
    if (segment.tokens.empty()) {
      EXPECT_EQ(segment.rows, 1);
      EXPECT_TRUE(slot.sampled);
      EXPECT_EQ(end, static_cast<int>(slot.tokens.size()));
    } else {
      EXPECT_EQ(static_cast<int>(segment.tokens.size()), segment.rows);
      EXPECT_TRUE(std::equal(segment.tokens.begin(), segment.tokens.end(),
                             slot.tokens.begin() + segment.first_position));
    }
    const bool prefill = end <= slot.prompt - 1;
    EXPECT_EQ(segment.row_class, prefill ? RowClass::kPrefill : RowClass::kDecode);
    EXPECT_TRUE(prefill || segment.first_position >= slot.prompt - 1) << "two classes mixed";
    if (segment.outputs == Outputs::kLast) {
      EXPECT_EQ(end, static_cast<int>(slot.tokens.size())) << "a sample before the last token";
    }
    EXPECT_EQ(segment.targets.size(), segment.outputs == Outputs::kAll ? segment.tokens.size() : 0);
    for (const TokenId target : segment.targets) {
      EXPECT_GE(target, kSample);
      EXPECT_LT(target, vocab_);
    }
  }

  void check_blocks(const Segment& segment) const {
    const int positions = segment.first_position + segment.rows;
    EXPECT_GE(static_cast<int>(segment.blocks.size()) * kBlockPositions, positions);
    std::set<BlockId> mine;
    for (const BlockId block : segment.blocks) {
      ASSERT_GE(block, 0);
      ASSERT_LT(block, limits_.blocks);
      EXPECT_TRUE(mine.insert(block).second) << "block " << block << " twice in one table";
    }
  }

  // Layer by layer, and in each all rows store before any reads.
  void run(const Quantum& quantum, Completion& completion) {
    for (const Pass* pass : quantum.passes) {
      if (quantum.layer_begin == 0) embed(*pass);
      row_layers_ += pass->rows() * (quantum.layer_end - quantum.layer_begin);
    }
    for (int layer = quantum.layer_begin; layer < quantum.layer_end; ++layer) {
      for (const Pass* pass : quantum.passes) each_row(*pass, layer, &FakeExecutor::store);
      for (const Pass* pass : quantum.passes) each_row(*pass, layer, &FakeExecutor::attend);
    }
    if (quantum.layer_end < kLayers) return;
    for (const Pass* pass : quantum.passes) report(*pass, completion);
  }

  void embed(const Pass& pass) {
    std::vector<uint64_t>& hidden = passes_[static_cast<size_t>(pass.id)].hidden;
    hidden.clear();
    for (const Segment& segment : pass.segments) {
      for (int row = 0; row < segment.rows; ++row) {
        const TokenId token = segment.tokens.empty() ? slots_.at(segment.slot).tokens.back()
                                                     : segment.tokens[static_cast<size_t>(row)];
        hidden.push_back(mix(static_cast<uint64_t>(token), 7));
      }
    }
  }

  using RowStep = void (FakeExecutor::*)(const Segment&, int position, int layer, uint64_t& hidden);
  void each_row(const Pass& pass, int layer, RowStep step) {
    std::vector<uint64_t>& hidden = passes_[static_cast<size_t>(pass.id)].hidden;
    size_t i = 0;
    for (const Segment& segment : pass.segments) {
      for (int row = 0; row < segment.rows; ++row) {
        (this->*step)(segment, segment.first_position + row, layer, hidden[i++]);
      }
    }
  }

  void store(const Segment& segment, int position, int layer, uint64_t& hidden) {
    cell(segment, position, layer) = mix(hidden, static_cast<uint64_t>(position * kLayers + layer));
  }

  void attend(const Segment& segment, int position, int layer, uint64_t& hidden) {
    uint64_t sum = 0;
    for (int p = 0; p <= position; ++p) sum += cell(segment, p, layer);
    hidden = mix(hidden, sum);
  }

  uint64_t& cell(const Segment& segment, int position, int layer) {
    const BlockId block = segment.blocks[static_cast<size_t>(position / kBlockPositions)];
    return store_[static_cast<size_t>(block)]
                 [static_cast<size_t>(layer * kBlockPositions + position % kBlockPositions)];
  }

  void report(const Pass& pass, Completion& completion) {
    const std::vector<uint64_t>& hidden = passes_[static_cast<size_t>(pass.id)].hidden;
    size_t i = 0;
    for (size_t s = 0; s < pass.segments.size(); ++s) {
      const Segment& segment = pass.segments[s];
      Slot& slot = slots_.at(segment.slot);
      for (int row = 0; row < segment.rows; ++row) {
        const uint64_t state = hidden[i++];
        const bool all = segment.outputs == Outputs::kAll;
        if (!all && (segment.outputs == Outputs::kNone || row + 1 < segment.rows)) continue;
        OutputRow out;
        out.pass = pass.id;
        out.segment = static_cast<int>(s);
        out.row = row;
        const TokenId target = all ? segment.targets[static_cast<size_t>(row)] : kSample;
        fill(slot, segment.first_position + row, state, target, out);
        if (target == kSample && out.finite) {
          slot.tokens.push_back(out.token);
          slot.sampled = true;
        }
        completion.outputs.push_back(std::move(out));
      }
    }
  }

  void fill(const Slot& slot, int position, uint64_t state, TokenId target, OutputRow& out) {
    if (not_a_number && not_a_number(slot.tokens, position)) {
      out.finite = false;
      return;
    }
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
  bool split_;
  std::vector<std::vector<uint64_t>> store_;  // [blocks][kLayers][kBlockPositions]
  std::map<SlotId, Slot> slots_;
  std::vector<OpenPass> passes_;
  std::vector<Started> started_;
  uint64_t quanta_ = 0;
  int64_t row_layers_ = 0;
};

}  // namespace weft
