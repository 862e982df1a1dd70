// The picture of `weft simulate`: figures over requests in flight.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "cli/mixed_picture.h"
#include "cli/simulate_report.h"

namespace weft {
namespace {

// Colours and fonts are written out: programs that turn SVG into pixels know no variables.
constexpr std::string_view kStyle =
    "text{font:12px system-ui,'DejaVu Sans',sans-serif;fill:#5c6675}"
    ".title{font-size:13px;font-weight:600;fill:#1c2430}.head{font-size:15px;font-weight:600;"
    "fill:#1c2430}.rule{stroke:#dfe4ea}.axis{stroke:#97a2b2;fill:none}"
    ".line{fill:none;stroke-width:2;stroke-linejoin:round}";
constexpr std::array<const char*, std::size(kModeNames)> kColors = {
    "#7a8594", "#a36bb5", "#3f9b57", "#2f6fd0", "#e8862a", "#c8342c"};
// Of figures that lie on another mode's, as auto's do on fused's.
constexpr const char* kDashes = "6 5";

constexpr double kWidth = 290;
constexpr double kHeight = 190;
constexpr double kLeft = 72;
constexpr double kBetween = 100;
constexpr double kLegend = 44;
constexpr double kHead = 66;  // above a row's charts
constexpr double kFoot = 54;  // and below

struct Point {
  double x = 0;
  double y = 0;
};
using Lines = std::map<Mode, std::vector<Point>>;

struct Scale {
  double low = 0;
  double high = 1;
  bool log = false;
  double share(double value) const {
    if (log) return std::log(value / low) / std::log(high / low);
    return (value - low) / (high - low);
  }
};

struct ChartText {
  std::string title;
  std::string unit;
  bool log = false;
};

// 1, 2 or 5 times a power of ten, so that about `count` fill the range.
double nice_step(double range, int count) {
  const double least = range / count;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

Scale scale_of(const Lines& lines, bool log) {
  double least = 1e300;
  double most = 0;
  for (const auto& [mode, points] : lines) {
    for (const Point& point : points) {
      least = std::min(least, point.y);
      most = std::max(most, point.y);
    }
  }
  if (!(most > 0)) return {0, 1, false};
  if (!log) return {0, 1.05 * most, false};
  return {std::pow(10, std::floor(std::log10(std::max(least, most * 1e-6)))), 1.3 * most, true};
}

std::vector<double> ticks_of(const Scale& scale) {
  std::vector<double> ticks;
  if (scale.log) {
    for (double power = scale.low; power <= scale.high; power *= 10) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor * power <= scale.high) ticks.push_back(factor * power);
      }
    }
    return ticks;
  }
  const double step = nice_step(scale.high - scale.low, 5);
  for (int i = 0; i * step <= scale.high; ++i) ticks.push_back(i * step);
  return ticks;
}

class Chart {
 public:
  Chart(double left, double top, const Lines& lines, const ChartText& text)
      : left_(left), top_(top), lines_(lines), text_(text), y_(scale_of(lines, text.log)) {
    for (const auto& [mode, points] : lines) {
      for (const Point& point : points) ran_.insert(point.x);
    }
  }

  std::string svg() const {
    std::string svg = fmt::format("<text class='title' x='{:.0f}' y='{:.0f}'>{}</text>", left_,
                                  top_ - 26, html_text(text_.title));
    svg += fmt::format("<text x='{:.0f}' y='{:.0f}'>{}</text>", left_, top_ - 10, text_.unit);
    for (const double tick : ticks_of(y_)) {
      svg += fmt::format(
          "<path class='rule' d='M{:.1f} {:.1f}h{:.0f}'/>"
          "<text x='{:.1f}' y='{:.1f}' text-anchor='end'>{:.6g}</text>",
          left_, y_of(tick), kWidth, left_ - 8, y_of(tick) + 4, tick);
    }
    svg += fmt::format("<path class='axis' d='M{:.1f} {:.1f}v{:.0f}h{:.0f}'/>", left_, top_,
                       kHeight, kWidth);
    for (const double x : ran_) {
      svg += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{:.0f}</text>", x_of(x),
                         top_ + kHeight + 18, x);
    }
    svg += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>requests in flight</text>",
                       left_ + kWidth / 2, top_ + kHeight + 36);
    for (const auto& [mode, points] : lines_) svg += line(mode, points);
    return svg;
  }

 private:
  double x_of(double x) const {
    constexpr double kMargin = 14;
    const double first = *ran_.begin();
    const double last = *ran_.rbegin();
    const double share = last > first ? std::log(x / first) / std::log(last / first) : 0.5;
    return left_ + kMargin + share * (kWidth - 2 * kMargin);
  }
  double y_of(double y) const { return top_ + kHeight * (1 - std::clamp(y_.share(y), 0.0, 1.0)); }

  std::string line(Mode mode, const std::vector<Point>& points) const {
    const char* color = kColors[static_cast<size_t>(mode)];
    std::string path;
    std::string circles;
    for (const Point& point : points) {
      const double x = x_of(point.x);
      const double y = y_of(point.y);
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, y);
      circles += fmt::format(
          "<circle cx='{:.1f}' cy='{:.1f}' r='3' fill='{}' stroke='{}' stroke-width='1.5'/>", x, y,
          mode == Mode::kAuto ? "#ffffff" : color, color);
    }
    return fmt::format("<path class='line' d='{}' stroke='{}'{}/>{}", path, color,
                       mode == Mode::kAuto ? fmt::format(" stroke-dasharray='{}'", kDashes) : "",
                       circles);
  }

  const double left_, top_;
  const Lines& lines_;
  const ChartText& text_;
  const Scale y_;
  std::set<double> ran_;  // requests in flight
};

std::string legend(const std::set<Mode>& modes) {
  std::string svg;
  double x = kLeft;
  for (const Mode mode : modes) {
    svg += fmt::format(
        "<path class='line' d='M{:.0f} 22h26' stroke='{}'{}/><text x='{:.0f}' y='26'>{}</text>", x,
        kColors[static_cast<size_t>(mode)],
        mode == Mode::kAuto ? fmt::format(" stroke-dasharray='{}'", kDashes) : "", x + 34,
        mode_name(mode));
    x += 110;
  }
  return svg;
}

// What is drawn of one chip and model.
std::string charts(std::span<const SimulateRow> rows, const SimulationResult& subject, double top) {
  static const std::array<ChartText, 3> kTexts = {
      ChartText{"Output", "tokens a second", false},
      ChartText{"First token, mean", "seconds", false},
      ChartText{"Largest gap of a stream", "milliseconds", true}};
  std::array<Lines, 3> lines;
  for (const SimulateRow& row : rows) {
    const SimulationResult& r = row.result;
    if (!row.note.empty() || r.chip != subject.chip || r.model != subject.model) continue;
    const double x = r.in_flight;
    const std::array<double, 3> values = {r.figures.output_rate, r.figures.ttft_mean.value_or(0),
                                          1e3 * r.figures.all.max};
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!kTexts[i].log || values[i] > 0) lines[i][r.settings.mode].push_back({x, values[i]});
    }
  }
  std::string svg = fmt::format("<text class='head' x='{:.0f}' y='{:.0f}'>{}, {}</text>", kLeft,
                                top + 14, html_text(subject.chip), html_text(subject.model));
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const double left = kLeft + static_cast<double>(i) * (kWidth + kBetween);
    svg += Chart(left, top + kHead, lines[i], kTexts[i]).svg();
  }
  return svg;
}

}  // namespace

std::string simulate_svg(std::span<const SimulateRow> rows) {
  std::vector<const SimulationResult*> subjects;
  std::set<Mode> modes;
  for (const SimulateRow& row : rows) {
    modes.insert(row.result.settings.mode);
    const bool known = std::any_of(subjects.begin(), subjects.end(), [&](const auto* subject) {
      return subject->chip == row.result.chip && subject->model == row.result.model;
    });
    if (!known) subjects.push_back(&row.result);
  }
  constexpr double kRow = kHead + kHeight + kFoot;
  constexpr double kAll = kLeft + 3 * kWidth + 2 * kBetween + 24;
  const double height = kLegend + kRow * static_cast<double>(subjects.size());
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0:.0f}' height='{1:.0f}' "
      "viewBox='0 0 {0:.0f} {1:.0f}'>\n<style>{2}</style>\n"
      "<rect width='{0:.0f}' height='{1:.0f}' fill='#ffffff'/>\n{3}\n",
      kAll, height, kStyle, legend(modes));
  for (size_t i = 0; i < subjects.size(); ++i)
    svg += charts(rows, *subjects[i], kLegend + kRow * static_cast<double>(i)) + '\n';
  return svg + "</svg>\n";
}

}  // namespace weft
