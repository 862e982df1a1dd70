#pragma once
// PassLedger: where each pass stands between quanta, and how far each board was sent, as the host
// knows from quanta that have ended.

#include <cstdint>
#include <vector>

#include "device/ascend/quantum_tables.h"
#include "device/executor.h"

namespace weft {

// The engine thread's.
class PassLedger {
 public:
  PassLedger(int passes, int layers)
      : places_(static_cast<size_t>(passes)), boards_(places_.size()), layers_(layers) {}

  // Whether the quantum may take the pass up: it begins anew, or stands there with these rows.
  bool stands_at(const Pass& pass, int layer) const;
  int64_t rows(PassId pass) const { return places_[static_cast<size_t>(pass)].rows; }
  bool is_sent(BoardId board, int layers) const {
    return boards_[static_cast<size_t>(board)].sent >= layers;
  }

  // Before a quantum: boards whose pass is sent from its first layer on are used anew. Flags only
  // grow, so each use counts on from where no earlier one can have come to.
  void begin(const Quantum& quantum);
  void end(const Quantum& quantum);
  void drop(PassId pass) { places_[static_cast<size_t>(pass)] = {}; }
  void drop_rows(PassId pass, int64_t count) { places_[static_cast<size_t>(pass)].rows -= count; }

  const std::vector<BoardUse>& boards() const { return boards_; }
  // What each board's flag stands at.
  std::vector<int64_t> flags() const;

 private:
  struct Place {
    int next_layer = 0;
    int64_t rows = 0;
  };

  std::vector<Place> places_;
  std::vector<BoardUse> boards_;
  int layers_;
};

}  // namespace weft
