#pragma once
// OpenPass: a pass between its first layer and its last, and which sequence stands behind each of
// its segments. PassTable: all of them.

#include <cstdint>
#include <vector>

#include "device/executor.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"

namespace weft {

// Its spans point into the sequences' tokens and blocks, which stay where they are while a sequence
// is admitted. Engine thread only.
class OpenPass {
 public:
  bool open() const { return !owners_.empty(); }
  PassKind kind() const { return kind_; }
  const Pass& pass() const { return pass_; }
  int next_layer() const { return next_layer_; }
  bool running() const { return running_to_ != kNone; }
  int running_to() const { return running_to_; }
  int shared_layers() const { return shared_layers_; }
  OpenPass* leader() const { return leader_; }
  const Work& work() const { return work_; }                        // of a layer
  const std::vector<Sequence*>& owners() const { return owners_; }  // of each segment

  // The row of the token that the device sampled last for this sequence.
  void add_stream(Sequence& sequence);
  // Rows [first, first + rows) of the tokens known so far.
  void add_rows(Sequence& sequence, int first, int rows);
  // Rows of segments that were padded, for devices that run tiles.
  int64_t padded_rows(int tile_rows) const;

  // A quantum that has it was started, and has ended.
  void start(int layer_end, bool shared);
  void end_quantum();
  // The device keeps a hidden state of it.
  bool on_device(const Executor& executor) const {
    return next_layer_ > 0 && next_layer_ < executor.layers();
  }
  // Takes the rows of one that leaves; not while it runs.
  void remove(const Sequence& sequence, Executor& executor);

 private:
  friend class PassTable;
  void add_segment(Sequence& sequence, Segment segment);
  void count_work();

  PassKind kind_ = PassKind::kPrefill;
  Pass pass_;
  std::vector<Sequence*> owners_;
  Work work_;
  int next_layer_ = 0;
  int running_to_ = kNone;
  int shared_layers_ = 0;
  OpenPass* leader_ = nullptr;
};

// As many as the device has; storage is used again.
class PassTable {
 public:
  explicit PassTable(int passes);

  // Requires a free one.
  OpenPass& open(PassKind kind);
  // `follower` waits for each layer of `leader`, which has not begun.
  static void tie(OpenPass& leader, OpenPass& follower);
  // After its last layer, or once it has no rows.
  void close(OpenPass& pass);
  // The open ones, in the order in which they opened.
  const std::vector<OpenPass*>& open_passes() const { return order_; }
  OpenPass& at(PassId id) { return passes_.at(static_cast<size_t>(id)); }

 private:
  std::vector<OpenPass> passes_;
  std::vector<OpenPass*> order_;
};

}  // namespace weft
