#include "base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace weft {
namespace {

constexpr Duration kFirstDraw = std::chrono::milliseconds(300);  // shorter work shows nothing
constexpr Duration kRedraw = std::chrono::milliseconds(100);
constexpr size_t kBarWidth = 24;

std::string amount(double value, ProgressUnit unit) {
  if (unit == ProgressUnit::kItems) return fmt::format("{:.0f}", value);
  constexpr std::array<std::string_view, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  size_t power = 0;
  for (; value >= 1000 && power + 1 < kUnits.size(); ++power) value /= 1000;
  return fmt::format("{:.{}f} {}", value, power == 0 || value >= 100 ? 0 : 1, kUnits[power]);
}

ProgressBar::Output standard_error() {
  static const SteadyClock clock;
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return {stderr, isatty(STDERR_FILENO) == 1, known ? size.ws_col : 80, &clock};
}

}  // namespace

std::string progress_line(const std::string& label, uint64_t done, uint64_t total,
                          ProgressUnit unit, Duration elapsed, int columns) {
  std::string line = label;
  if (total == 0) {
    line += fmt::format("  {}", amount(static_cast<double>(done), unit));
  } else {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    const auto filled = static_cast<size_t>(share * static_cast<double>(kBarWidth));
    line += fmt::format("  [{}{}] {:3.0f}%  {} of {}", std::string(filled, '#'),
                        std::string(kBarWidth - filled, ' '), share * 100,
                        amount(static_cast<double>(done), unit),
                        amount(static_cast<double>(total), unit));
  }
  if (unit == ProgressUnit::kBytes && elapsed > Duration::zero()) {
    line += fmt::format("  {}/s", amount(static_cast<double>(done) / seconds(elapsed), unit));
  }
  size_t cut = std::min(line.size(), static_cast<size_t>(std::max(columns, 0)));
  // Never inside a UTF-8 character of the label.
  while (cut > 0 && cut < line.size() && (static_cast<unsigned char>(line[cut]) & 0xc0) == 0x80)
    --cut;
  return line.substr(0, cut);
}

ProgressBar::ProgressBar(std::string label, uint64_t total, ProgressUnit unit)
    : ProgressBar(std::move(label), total, unit, standard_error()) {}

ProgressBar::ProgressBar(std::string label, uint64_t total, ProgressUnit unit, Output output)
    : label_(std::move(label)),
      total_(total),
      unit_(unit),
      output_(output),
      start_(output.clock->now()),
      next_draw_(start_ + kFirstDraw) {}

void ProgressBar::update(uint64_t done) {
  if (!output_.terminal) return;
  const TimePoint now = output_.clock->now();
  if (now < next_draw_) return;
  next_draw_ = now + kRedraw;
  // One column is left free: a full line would wrap. \x1b[K clears what a longer line left behind.
  const std::string line =
      progress_line(label_, done, total_, unit_, now - start_, output_.columns - 1);
  fmt::print(output_.stream, "\r{}\x1b[K", line);
  std::fflush(output_.stream);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (!drawn_) return;
  fmt::print(output_.stream, "\r\x1b[K");
  std::fflush(output_.stream);
  drawn_ = false;
}

}  // namespace weft
