#include "device/cpu/attention.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace weft {
namespace {

constexpr int kWhole = -1;
// A row is split where one of its KV heads would take more than this part of a core's share.
constexpr int kLargestShare = 4;

int64_t keys_of(const SequenceRows& s, int row_begin, int row_end) {
  const int64_t first = s.first_position + row_begin + 1;
  const int64_t last = s.first_position + row_end;
  return (first + last) * (row_end - row_begin) / 2;
}

}  // namespace

Result<AttentionPlan> AttentionPlan::create(const KernelTable& kernels, const KvLayout& layout,
                                            int heads, int threads, const ExecutorLimits& limits) {
  AttentionPlan plan;
  plan.kernels_ = &kernels;
  plan.layout_ = layout;
  plan.heads_ = heads;
  plan.max_segments_ = (limits.context + kSegmentKeys - 1) / kSegmentKeys;
  // Each split row holds more than its part of all keys, so there are no more than parts.
  const int max_splits = std::min(limits.rows, kLargestShare * threads / layout.kv_heads + 1);
  const auto max_items = static_cast<size_t>(limits.rows) +
                         static_cast<size_t>(max_splits) * static_cast<size_t>(plan.max_segments_);
  plan.items_.reserve(max_items);
  plan.sorted_.reserve(max_items);
  plan.splits_.reserve(static_cast<size_t>(max_splits));
  plan.scratch_bytes_ = (kernels.attention_scratch(layout, heads) + 63) / 64 * 64;
  WEFT_ASSIGN(plan.scratch_, Buffer::allocate(static_cast<size_t>(plan.scratch_bytes_ * threads)));
  const int64_t floats = int64_t{max_splits} * plan.max_segments_ * heads * (2 + layout.head_dim);
  WEFT_ASSIGN(plan.partials_, Buffer::allocate(static_cast<size_t>(floats) * sizeof(float)));
  return plan;
}

void AttentionPlan::cut(std::span<const SequenceRows> sequences, int threads) {
  sequences_ = sequences;
  threads_ = threads;
  sorted_.clear();
  splits_.clear();
  int64_t keys = 0;
  for (const SequenceRows& s : sequences) keys += keys_of(s, 0, s.rows);
  const int64_t split_above =
      threads_ == 1
          ? INT64_MAX
          : std::max<int64_t>(kSegmentKeys, keys * layout_.kv_heads / (kLargestShare * threads_));
  for (size_t i = 0; i < sequences.size(); ++i) add_items(static_cast<int32_t>(i), split_above);
  deal();
}

void AttentionPlan::add_items(int32_t index, int64_t split_above) {
  const SequenceRows& s = sequences_[static_cast<size_t>(index)];
  const int64_t keys = keys_of(s, 0, 1);
  if (s.rows == 1 && keys > split_above) {
    const auto segments = static_cast<int32_t>((keys + kSegmentKeys - 1) / kSegmentKeys);
    const auto split = static_cast<int32_t>(splits_.size());
    WEFT_CHECK(splits_.size() < splits_.capacity());
    splits_.push_back({index, segments});
    for (int32_t segment = 0; segment < segments; ++segment) {
      sorted_.push_back({index, 0, 1, segment, split, kSegmentKeys});
    }
    return;
  }
  const int tile = kernels_->attention_tile_rows;
  for (int begin = 0; begin < s.rows; begin += tile) {
    const int end = std::min(begin + tile, s.rows);
    sorted_.push_back({index, begin, end, kWhole, 0, keys_of(s, begin, end)});
  }
}

// Workers begin with equal shares of the items, in order. So the items are dealt to the shares by
// descending cost: the shares weigh about the same, and what is stolen near the end is small.
void AttentionPlan::deal() {
  std::sort(sorted_.begin(), sorted_.end(), [](const Item& a, const Item& b) {
    return a.cost != b.cost ? a.cost > b.cost
                            : std::tie(a.sequence, a.row_begin, a.segment) <
                                  std::tie(b.sequence, b.row_begin, b.segment);
  });
  items_.clear();
  const auto threads = static_cast<size_t>(threads_);
  for (size_t share = 0; share < threads; ++share) {
    for (size_t i = share; i < sorted_.size(); i += threads) items_.push_back(sorted_[i]);
  }
}

AttentionArgs AttentionPlan::args(const SequenceRows& s, const Operands& o) const {
  AttentionArgs args;
  args.layout = layout_;
  args.kv = o.kv;
  args.blocks = s.blocks;
  args.heads = heads_;
  args.scale = o.scale;
  args.rows = s.rows;
  args.first_position = s.first_position;
  args.q = o.q + s.first_row * o.q_stride;
  args.q_stride = o.q_stride;
  args.out = o.out + s.first_row * o.out_stride;
  args.out_stride = o.out_stride;
  return args;
}

float* AttentionPlan::partials(int split, int kv_head) {
  const int64_t group = heads_ / layout_.kv_heads;
  const int64_t index = int64_t{split} * layout_.kv_heads + kv_head;
  return partials_.as<float>() + index * max_segments_ * group * (2 + layout_.head_dim);
}

void AttentionPlan::run(ThreadPool::Worker& worker, const Operands& operands) {
  std::byte* scratch = scratch_.data() + worker.index() * scratch_bytes_;
  const int heads = layout_.kv_heads;
  const int64_t group = heads_ / heads;
  worker.parallel_for(
      static_cast<int64_t>(items_.size()) * heads, 1, [&](int64_t begin, int64_t /*end*/) {
        const Item& item = items_[static_cast<size_t>(begin / heads)];
        const int head = static_cast<int>(begin % heads);
        const AttentionArgs a = args(sequences_[static_cast<size_t>(item.sequence)], operands);
        if (item.segment == kWhole) {
          kernels_->attention_tile(a, head, item.row_begin, item.row_end, scratch);
        } else {
          float* out = partials(item.split, head) + item.segment * group * (2 + layout_.head_dim);
          kernels_->attention_segment(a, head, item.row_begin, item.segment, out, scratch);
        }
      });
  if (splits_.empty()) return;
  worker.parallel_for(
      static_cast<int64_t>(splits_.size()) * heads, 1, [&](int64_t begin, int64_t /*end*/) {
        const int split = static_cast<int>(begin / heads);
        const int head = static_cast<int>(begin % heads);
        const SplitRow& row = splits_[static_cast<size_t>(split)];
        kernels_->attention_merge(args(sequences_[static_cast<size_t>(row.sequence)], operands),
                                  head, 0, row.segments, partials(split, head));
      });
}

}  // namespace weft
