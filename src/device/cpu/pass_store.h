#pragma once
// PassStore: the hidden states of passes that stand between two layers.
//
// Places and counts belong to the engine thread; the workers of a quantum read and write the rows
// of its passes.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "device/executor.h"
#include "tensor/buffer.h"

namespace weft {

class PassStore {
 public:
  static Result<PassStore> create(const ExecutorLimits& limits, int hidden);

  float* rows(PassId pass) { return buffer_.as<float>() + pass * pass_floats_; }

  // Whether the quantum may take the pass up: it begins anew, or stands there with these rows.
  bool stands_at(const Pass& pass, int layer) const;
  void leave(const Pass& pass, int next_layer);
  void drop(PassId pass) { places_[static_cast<size_t>(pass)] = {}; }
  void drop_rows(PassId pass, int64_t first, int64_t count);

 private:
  struct Place {
    int next_layer = 0;
    int64_t rows = 0;
  };

  std::vector<Place> places_;
  int64_t width_ = 0;
  int64_t pass_floats_ = 0;
  Buffer buffer_;  // [limits.passes, limits.rows, width]
};

}  // namespace weft
