#pragma once
// Replay: a recording against a clock. Each pipe has a clock of its own, which flags and barriers
// join; the scalar unit issues in order; copies share the memory system with those of all other
// cores, in the order of their times. Nothing is drawn: the same recording and constants give the
// same times.

#include <array>
#include <cstdint>
#include <vector>

#include "time/chip_model.h"
#include "time/recording.h"

namespace weft::timing {

struct ProgramTimes {
  double end = 0;
  std::array<double, twin::kPipes> busy{};  // PIPE_S: the scalar unit, without its waits
  std::vector<double> clocks;               // when it asked for the time
};

struct Timing {
  double seconds = 0;  // of the whole
  std::vector<ProgramTimes> programs;
  double hbm_bytes = 0;
  double multiply_adds = 0;

  double busy(pipe_t pipe) const;  // seconds, of all programs
};

// `l2` is what L2 holds, at the beginning and then at the end.
Timing replay(const ChipModel& model, const Recording& recording, L2Lines& l2);
// With nothing in L2.
Timing replay(const ChipModel& model, const Recording& recording);

}  // namespace weft::timing
