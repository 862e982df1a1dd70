#pragma once
// A line on a terminal that shows how far a long piece of work has come. It is drawn only if
// standard error is a terminal and the work takes more than a fraction of a second, and leaves
// nothing behind.

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "base/clock.h"

namespace weft {

enum class ProgressUnit { kBytes, kItems };

// "loading  [#######             ]  36%  35.4 MB of 98.4 MB  120 MB/s"; without bar and percentage
// where total is 0 (unknown). At most `columns` characters.
std::string progress_line(const std::string& label, uint64_t done, uint64_t total,
                          ProgressUnit unit, Duration elapsed, int columns);

// One thread uses it.
class ProgressBar {
 public:
  // Where it is drawn; tests give their own.
  struct Output {
    std::FILE* stream;
    bool terminal;
    int columns;
    const Clock* clock;
  };

  ProgressBar(std::string label, uint64_t total, ProgressUnit unit);  // on standard error
  ProgressBar(std::string label, uint64_t total, ProgressUnit unit, Output output);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(uint64_t done);  // redraws at most ten times a second
  void relabel(std::string label) { label_ = std::move(label); }  // from the next update on
  void clear();  // takes the line away; a later update may draw it again

 private:
  std::string label_;
  uint64_t total_;
  ProgressUnit unit_;
  Output output_;
  TimePoint start_;
  TimePoint next_draw_;
  bool drawn_ = false;
};

}  // namespace weft
