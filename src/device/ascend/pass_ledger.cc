#include "device/ascend/pass_ledger.h"

namespace weft {

bool PassLedger::stands_at(const Pass& pass, int layer) const {
  const Place& place = places_[static_cast<size_t>(pass.id)];
  return layer == 0 || (place.next_layer == layer && place.rows == pass.rows());
}

void PassLedger::begin(const Quantum& quantum) {
  for (const Pass* pass : quantum.passes) {
    if (pass->sends == kNoBoard || quantum.layer_begin != 0) continue;
    BoardUse& board = boards_[static_cast<size_t>(pass->sends)];
    board = {board.base + layers_, 0};
  }
}

void PassLedger::end(const Quantum& quantum) {
  for (const Pass* pass : quantum.passes) {
    const bool ended = quantum.layer_end == layers_;
    places_[static_cast<size_t>(pass->id)] =
        ended ? Place{} : Place{quantum.layer_end, pass->rows()};
    if (pass->sends != kNoBoard) {
      boards_[static_cast<size_t>(pass->sends)].sent = quantum.layer_end;
    }
  }
}

std::vector<int64_t> PassLedger::flags() const {
  std::vector<int64_t> flags;
  flags.reserve(boards_.size());
  for (const BoardUse& board : boards_) flags.push_back(board.base + board.sent);
  return flags;
}

}  // namespace weft
