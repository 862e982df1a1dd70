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
    : shift_(granule_shift(buffer)), cells_((bytes >> shift_) + 1) {
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

Conflict Shadow::Read(pipe_t pipe, uint32_t sequence, const Clock& now, const Pieces& pieces,
                      bool must_be_written, bool own_order) {
  Clock clock = now;
  if (own_order) clock.ended[pipe] = std::max(clock.ended[pipe], sequence - 1);
  int slot = -1;  // the scalar unit's reads have ended when it goes on
  for (int i = 0; i < kReaders; ++i) {
    if (readers_[i] == pipe) slot = i;
  }
  Conflict conflict;
  for (uint32_t piece = 0; piece < pieces.count; ++piece) {
    const uint32_t start = pieces.address + piece * pieces.stride;
    const uint32_t last = (start + pieces.length - 1) >> shift_;
    for (uint32_t index = start >> shift_; index <= last; ++index) {
      Cell& cell = cells_[index];
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
    }
  }
  return conflict;
}

Conflict Shadow::Write(pipe_t pipe, uint32_t sequence, const Clock& now, const Pieces& pieces,
                       bool own_order) {
  Clock clock = now;
  if (own_order) clock.ended[pipe] = std::max(clock.ended[pipe], sequence - 1);
  Conflict conflict;
  for (uint32_t piece = 0; piece < pieces.count; ++piece) {
    const uint32_t start = pieces.address + piece * pieces.stride;
    const uint32_t last = (start + pieces.length - 1) >> shift_;
    for (uint32_t index = start >> shift_; index <= last; ++index) {
      Cell& cell = cells_[index];
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
      cell.write = (static_cast<uint32_t>(pipe) << kNumberBits) | sequence;
    }
  }
  return conflict;
}

void Shadow::Forget(uint32_t bytes) {
  const auto end = std::min<size_t>(cells_.size(), (bytes >> shift_) + 1);
  std::fill(cells_.begin(), cells_.begin() + static_cast<std::ptrdiff_t>(end), Cell{});
}

void Shadow::Rewind() {
  for (Cell& cell : cells_) {
    const bool written = cell.write != 0;
    cell = Cell{};
    if (written) cell.write = 1;  // by the scalar unit, before anything
  }
}

}  // namespace weft::twin
