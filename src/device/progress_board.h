#pragma once
// ProgressBoard: how far the keys and values of passes are stored, and read by these themselves,
// for passes that go on from them on other cores at the same time.
//
// One counter for each BoardId. On a CPU it is an atomic in a cache line of its own; a device whose
// groups share no cache keeps a flag line for each in its memory, with the same contract.

#include <vector>

#include "device/executor.h"
#include "device/wait_counter.h"

namespace weft {

class ProgressBoard {
 public:
  explicit ProgressBoard(int boards) : lines_(static_cast<size_t>(boards)) {}

  // Before a pass is sent from its first layer on. Requires that nobody waits for the board.
  void reset(BoardId board) { line(board).sent.reset(); }

  // What was written in the layer is visible to whoever receives it. Layers are sent one after the
  // other by one thread at a time, which is never held up.
  void send(BoardId board, int layer);

  // Layers sent so far.
  int recv(BoardId board) const { return static_cast<int>(line(board).sent.value()); }

  // Returns once the layer was sent: spins first, then parks.
  void wait(BoardId board, int layer);

 private:
  struct alignas(64) Line {
    WaitCounter sent;
  };
  Line& line(BoardId board) { return lines_[static_cast<size_t>(board)]; }
  const Line& line(BoardId board) const { return lines_[static_cast<size_t>(board)]; }

  std::vector<Line> lines_;
};

}  // namespace weft
