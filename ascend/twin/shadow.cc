#include "shadow.h"

#include <algorithm>

namespace weft::twin {
namespace {

constexpr uint32_t kNumberBits = 28;
constexpr uint32_t kNumber = (1u << kNumberBits) - 1;

uint32_t granule_shift(Buffer buffer) {
  switch (buffer) {
    case Buffer::kL0a:
    case Buffer::kL0b:
      return 9;  // a fractal of 512 bytes
    case Buffer::kL0c:
      return 10;  // 16 x 16 floats
    default:
      return 5;
  }
}

}  // namespace

Shadow::Shadow(Buffer buffer, uint32_t bytes)
    : shift_(granule_shift(buffer)),
      cells_(((bytes >> shift_) / kRun + 1) * kRun),
      runs_(cells_.size() / kRun) {
  switch (buffer) {
    case Buffer::kUb:
      readers_[0] = PIPE_V, readers_[1] = PIPE_MTE3, readers_[2] = PIPE_MTE2;
      break;
    case Buffer::kL1:
      readers_[0] = PIPE_MTE1, readers_[1] = PIPE_MTE3, readers_[2] = PIPE_FIX;
      break;
    default:
      readers_[0] = PIPE_M, readers_[1] = PIPE_FIX, readers_[2] = PIPE_V;
      break;
  }
}

template <class Visit>
void Shadow::ForEachCell(const Pieces& pieces, bool unite, const Visit& visit) {
  for (uint32_t piece = 0; piece < pieces.count; ++piece) {
    const uint32_t start = pieces.address + piece * pieces.stride;
    const uint32_t end = ((start + pieces.length - 1) >> shift_) + 1;
    for (uint32_t index = start >> shift_; index < end;) {
      Run& run = runs_[index / kRun];
      const uint32_t run_end = (index / kRun + 1) * kRun;
      const bool whole = index % kRun == 0 && run_end <= end;
      if (whole && run.uniform) {
        visit(run.all, index);
        index = run_end;
        continue;
      }
      if (run.uniform) {
        std::fill_n(cells_.begin() + index / kRun * kRun, kRun, run.all);
        run.uniform = false;
      }
      for (const uint32_t stop = std::min(end, run_end); index < stop; ++index) {
        visit(cells_[index], index);
      }
      if (whole && unite) {
        run.all = cells_[index - 1];
        run.uniform = true;
      }
    }
  }
}

Conflict Shadow::Read(pipe_t pipe, uint32_t sequence, const Clock& now, const Pieces& pieces,
                      bool must_be_written, bool own_order) {
  Clock clock = Since(now);
  sequence -= base_[pipe];
  if (own_order) clock.ended[pipe] = std::max(clock.ended[pipe], sequence - 1);
  int slot = -1;  // the scalar unit's reads have ended when it goes on
  for (int i = 0; i < kReaders; ++i) {
    if (readers_[i] == pipe) slot = i;
  }
  Conflict conflict;
  ForEachCell(pieces, false, [&](Cell& cell, uint32_t index) {
    const auto writer = static_cast<pipe_t>(cell.write >> kNumberBits);
    const uint32_t number = cell.write & kNumber;
    if (number > clock.ended[writer] && !(writer == pipe && number == sequence)) [[unlikely]] {
      if (conflict.hazard == Hazard::kNone) {
        conflict = {Hazard::kReadAfterWrite, writer, number, index << shift_};
      }
    } else if (must_be_written && cell.write == 0 && conflict.hazard == Hazard::kNone)
        [[unlikely]] {
      conflict = {Hazard::kUnwritten, pipe, sequence, index << shift_};
    }
    if (slot >= 0) cell.read[slot] = sequence;
  });
  conflict.sequence += base_[conflict.pipe];
  return conflict;
}

Conflict Shadow::Write(pipe_t pipe, uint32_t sequence, const Clock& now, const Pieces& pieces,
                       bool own_order) {
  Clock clock = Since(now);
  sequence -= base_[pipe];
  if (own_order) clock.ended[pipe] = std::max(clock.ended[pipe], sequence - 1);
  Conflict conflict;
  // What is ordered after this write is ordered after the reads that this is ordered after.
  const Cell written{(static_cast<uint32_t>(pipe) << kNumberBits) | sequence, {}};
  ForEachCell(pieces, true, [&](Cell& cell, uint32_t index) {
    const auto writer = static_cast<pipe_t>(cell.write >> kNumberBits);
    const uint32_t number = cell.write & kNumber;
    if (number > clock.ended[writer] && !(writer == pipe && number == sequence)) [[unlikely]] {
      if (conflict.hazard == Hazard::kNone) {
        conflict = {Hazard::kWriteAfterWrite, writer, number, index << shift_};
      }
    }
    for (int i = 0; i < kReaders; ++i) {
      const uint32_t read = cell.read[i];
      if (read > clock.ended[readers_[i]] && !(readers_[i] == pipe && read == sequence))
          [[unlikely]] {
        // A flag that is missing says more than a barrier that is.
        if (conflict.hazard == Hazard::kNone || conflict.pipe == pipe) {
          conflict = {Hazard::kWriteAfterRead, readers_[i], read, index << shift_};
        }
      }
    }
    cell = written;
  });
  conflict.sequence += base_[conflict.pipe];
  return conflict;
}

void Shadow::Forget(uint32_t bytes) {
  const uint32_t runs =
      std::min<uint32_t>(static_cast<uint32_t>(runs_.size()), (bytes >> shift_) / kRun + 1);
  for (uint32_t i = 0; i < runs; ++i) runs_[i] = Run{};
}

void Shadow::Clear() {
  base_ = {};
  std::fill(runs_.begin(), runs_.end(), Run{});
}

Clock Shadow::Since(const Clock& now) const {
  Clock clock;
  for (int i = 0; i < kPipes; ++i) {
    clock.ended[i] = now.ended[i] > base_[i] ? now.ended[i] - base_[i] : 0;
  }
  return clock;
}

void Shadow::Rewind(const std::array<uint32_t, kPipes>& last) {
  for (int i = 0; i < kPipes; ++i) base_[i] = last[i] - 1;
  const auto rewind = [](Cell& cell) {
    const bool written = cell.write != 0;
    cell = Cell{};
    if (written) cell.write = 1;  // by the scalar unit, before anything
  };
  for (Run& run : runs_) rewind(run.all);
  for (Cell& cell : cells_) rewind(cell);
}

}  // namespace weft::twin
