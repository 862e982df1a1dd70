#pragma once
// A file of every quantum in Chrome's trace format, for Perfetto: one line of time for each group
// of cores.

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/clock.h"
#include "base/result.h"

namespace weft {

struct QuantumSpan {
  int group = 0;  // 0: all cores, 1: prefill cores, 2: decode cores
  TimePoint start{};
  TimePoint end{};
  int layer_begin = 0;
  int layer_end = 0;
  int decode_rows = 0;
  int prefill_rows = 0;
  uint64_t quantum = 0;
  int pass = -1;  // of the prompt's rows, where there are any
  double predicted_seconds = 0;
  double busy_core_seconds = 0;
};

// One thread uses it. Writing allocates nothing. If the disk refuses, a warning says so and the
// trace ends there; nobody else notices.
class TraceWriter {
 public:
  static Result<std::unique_ptr<TraceWriter>> create(const std::filesystem::path& path);
  ~TraceWriter();  // completes the file
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  void quantum(const QuantumSpan& span);

 private:
  TraceWriter(std::filesystem::path path, std::FILE* file);
  template <class... Args>
  void append(const char* format, const Args&... args);
  void flush();

  std::filesystem::path path_;
  std::FILE* file_;  // null after an error
  size_t used_ = 0;
  std::array<char, size_t{1} << 16U> buffer_;
};

}  // namespace weft
