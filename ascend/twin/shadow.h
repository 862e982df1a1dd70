#pragma once
// Who wrote and read each granule of a local buffer last. With the clocks of the pipes it tells at
// once, whatever the order of execution, whether an access is ordered after the ones it depends on.

#include <array>
#include <cstdint>
#include <vector>

#include "instruction.h"

namespace weft::twin {

enum class Hazard : uint8_t {
  kNone,
  kReadAfterWrite,
  kWriteAfterRead,
  kWriteAfterWrite,
  kUnwritten
};

struct Conflict {
  Hazard hazard = Hazard::kNone;
  pipe_t pipe = PIPE_S;   // of the earlier access
  uint32_t sequence = 0;  // its number in that pipe
  uint32_t address = 0;   // where they meet
};

class Shadow {
 public:
  Shadow(Buffer buffer, uint32_t bytes);

  // An access by instruction `sequence` of `pipe` at time `now`; records it and returns the first
  // access it is not ordered after. With `must_be_written`, reading what was never written is one.
  // `own_order`: the pipe keeps its own instructions apart.
  Conflict Read(pipe_t pipe, uint32_t sequence, const Clock& now, const Pieces& pieces,
                bool must_be_written, bool own_order);
  Conflict Write(pipe_t pipe, uint32_t sequence, const Clock& now, const Pieces& pieces,
                 bool own_order);

  // The first `bytes` bytes count as never written.
  void Forget(uint32_t bytes);
  // A new program begins, with new numbers.
  void Clear();
  // All instructions up to `last`, by pipe, have ended: cells need not tell them apart any more.
  // Cells have room for 2^28 numbers after the last rewind.
  void Rewind(const std::array<uint32_t, kPipes>& last);

 private:
  static constexpr int kReaders = 3;
  static constexpr uint32_t kRun = 32;  // cells that can be one
  struct Cell {
    uint32_t write = 0;  // pipe in the upper 4 bits, number in the lower 28; 0: never
    uint32_t read[kReaders] = {};
  };
  struct Run {
    Cell all;             // of every cell while they are alike
    bool uniform = true;  // else the cells have their own
  };

  // A clock in numbers since the last rewind.
  Clock Since(const Clock& now) const;

  // Calls visit(cell) for the cells of the pieces, whole runs of alike ones at once. Cells that
  // become alike by it are made one if `unite`.
  template <class Visit>
  void ForEachCell(const Pieces& pieces, bool unite, const Visit& visit);

  uint32_t shift_;  // log2 of the granule
  pipe_t readers_[kReaders];
  std::vector<Cell> cells_;
  std::vector<Run> runs_;
  std::array<uint32_t, kPipes> base_{};  // the numbers at the last rewind, less one
};

}  // namespace weft::twin
