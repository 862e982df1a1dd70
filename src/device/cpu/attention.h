#pragma once
// The attention of one quantum, cut into work items of similar cost.
//
// An item is a tile of rows of one sequence and one KV head. A single row whose keys would keep one
// core busy long after the others are done is cut at the fixed segments of the kernels instead, an
// item each, and merged in a second loop. How rows are cut changes no bit of the result.

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/cpu/batch.h"
#include "device/cpu/thread_pool.h"
#include "kernels/kernel_table.h"
#include "tensor/buffer.h"

namespace weft {

class AttentionPlan {
 public:
  // Takes all memory for batches within the limits and at most `threads` workers.
  static Result<AttentionPlan> create(const KernelTable& kernels, const KvLayout& layout, int heads,
                                      int threads, const ExecutorLimits& limits);

  // The engine thread cuts the rows of `sequences` (alive until the last run) for so many workers.
  void cut(std::span<const SequenceRows> sequences, int threads);

  struct Operands {
    KvLayerView kv;
    float scale = 0;
    const float* q = nullptr;  // [rows, q_stride]
    int64_t q_stride = 0;
    float* out = nullptr;  // [rows, out_stride]
    int64_t out_stride = 0;
  };
  // Called by every worker of a job.
  void run(ThreadPool::Worker& worker, const Operands& operands);

 private:
  struct Item {
    int32_t sequence;
    int32_t row_begin;
    int32_t row_end;
    int32_t segment;  // kWhole: all keys of the rows
    int32_t split;    // index of the split row whose segment this is
    int64_t cost;
  };
  struct SplitRow {
    int32_t sequence;
    int32_t segments;
  };

  void add_items(int32_t index, int64_t split_above);
  void deal();
  AttentionArgs args(const SequenceRows& sequence, const Operands& operands) const;
  float* partials(int split, int kv_head);

  const KernelTable* kernels_ = nullptr;
  KvLayout layout_;
  int heads_ = 0;
  int threads_ = 1;
  int max_segments_ = 0;
  std::span<const SequenceRows> sequences_;
  std::vector<Item> items_;  // of one KV head; every head has the same
  std::vector<Item> sorted_;
  std::vector<SplitRow> splits_;
  int64_t scratch_bytes_ = 0;
  Buffer scratch_;   // [threads, scratch_bytes_]
  Buffer partials_;  // [splits, kv_heads, max_segments, heads / kv_heads, 2 + head_dim]
};

}  // namespace weft
