#include "metrics/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace weft {
namespace {

constexpr const char* kGroupNames[] = {"all cores", "prefill cores", "decode cores"};
constexpr size_t kLongestEvent = 512;

double microseconds(Duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

const char* name_of(const QuantumSpan& span) {
  if (span.prefill_rows == 0) return "decode";
  return span.decode_rows == 0 ? "prefill" : "decode and prefill";
}

}  // namespace

Result<std::unique_ptr<TraceWriter>> TraceWriter::create(const std::filesystem::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) {
    return Error{ErrorKind::kIo, fmt::format("cannot write the trace {}: {}", path.string(),
                                             std::system_category().message(errno))};
  }
  return std::unique_ptr<TraceWriter>(new TraceWriter(path, file));
}

TraceWriter::TraceWriter(std::filesystem::path path, std::FILE* file)
    : path_(std::move(path)), file_(file) {
  append("{}", "[");
  for (int group = 0; group < static_cast<int>(std::size(kGroupNames)); ++group) {
    append(R"({}{{"name":"thread_name","ph":"M","pid":1,"tid":{},"args":{{"name":"{}"}}}})",
           group == 0 ? "\n" : ",\n", group, kGroupNames[group]);
  }
}

TraceWriter::~TraceWriter() {
  append("{}", "\n]\n");
  flush();
  if (file_ != nullptr && std::fclose(file_) != 0)
    spdlog::warn("the trace {} is incomplete: {}", path_.string(),
                 std::system_category().message(errno));
}

void TraceWriter::quantum(const QuantumSpan& span) {
  append(
      R"(,
{{"name":"{}","ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"quantum":{},"pass":{},"layer_begin":{},"layer_end":{},"decode_rows":{},"prefill_rows":{},"predicted_us":{:.1f},"busy_core_us":{:.1f}}}}})",
      name_of(span), span.group, microseconds(span.start.time_since_epoch()),
      microseconds(span.end - span.start), span.quantum, span.pass, span.layer_begin,
      span.layer_end, span.decode_rows, span.prefill_rows, span.predicted_seconds * 1e6,
      span.busy_core_seconds * 1e6);
}

template <class... Args>
void TraceWriter::append(const char* format, const Args&... args) {
  if (file_ == nullptr) return;
  if (buffer_.size() - used_ < kLongestEvent) flush();
  const auto end =
      fmt::format_to_n(buffer_.data() + used_, kLongestEvent, fmt::runtime(format), args...);
  used_ += std::min(end.size, kLongestEvent);
}

void TraceWriter::flush() {
  if (file_ == nullptr) return;
  // The buffer above is all there is: what is written is with the system at once.
  if (std::fwrite(buffer_.data(), 1, used_, file_) != used_ || std::fflush(file_) != 0) {
    spdlog::warn("the trace {} ends here: {}", path_.string(),
                 std::system_category().message(errno));
    std::fclose(std::exchange(file_, nullptr));
  }
  used_ = 0;
}

}  // namespace weft
