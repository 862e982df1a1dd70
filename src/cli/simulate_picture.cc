// The picture of `weft simulate`.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "cli/simulate_report.h"

namespace weft {
namespace {

constexpr std::array<const char*, 6> kColors = {"#8a8a8a", "#b07aa1", "#59a14f",
                                                "#4e79a7", "#f28e2b", "#e15759"};
constexpr double kWidth = 300;
constexpr double kHeight = 180;

struct Point {
  double x = 0;
  double y = 0;
};

std::string chart(double left, double top, const std::string& title, const std::string& unit,
                  const std::map<Mode, std::vector<Point>>& lines) {
  double most = 1e-9;
  double farthest = 1;
  for (const auto& [mode, points] : lines) {
    for (const Point& point : points) {
      most = std::max(most, point.y);
      farthest = std::max(farthest, point.x);
    }
  }
  const auto x_of = [&](double x) {
    return left + (farthest > 1 ? kWidth * std::log2(x) / std::log2(farthest) : 0);
  };
  const auto y_of = [&](double y) { return top + kHeight * (1 - y / (1.05 * most)); };
  std::string text = fmt::format(
      "<text x='{}' y='{}' class='t'>{}</text>"
      "<path d='M{} {}V{}H{}' class='a'/>"
      "<text x='{}' y='{}' class='n' text-anchor='end'>{:.4g} {}</text>",
      left, top - 12, title, left, top, top + kHeight, left + kWidth, left - 4, y_of(most) + 4,
      most, unit);
  for (const auto& [mode, points] : lines) {
    std::string path;
    for (const Point& point : points)
      path +=
          fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x_of(point.x), y_of(point.y));
    text += fmt::format("<path d='{}' fill='none' stroke='{}' stroke-width='2'/>", path,
                        kColors[static_cast<size_t>(mode)]);
  }
  for (double x = 1; x <= farthest; x *= 2) {
    text += fmt::format("<text x='{:.1f}' y='{}' class='n' text-anchor='middle'>{:.0f}</text>",
                        x_of(x), top + kHeight + 14, x);
  }
  return text;
}

}  // namespace

std::string simulate_svg(std::span<const SimulateRow> rows) {
  std::vector<std::pair<std::string, std::string>> subjects;
  for (const SimulateRow& row : rows) {
    const std::pair subject(row.result.chip, row.result.model);
    if (std::find(subjects.begin(), subjects.end(), subject) == subjects.end())
      subjects.push_back(subject);
  }
  constexpr double kRow = kHeight + 80;
  const double height = 60 + kRow * static_cast<double>(subjects.size());
  std::string text = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='1160' height='{0}' viewBox='0 0 1160 {0}'>"
      "<style>text{{font:12px sans-serif;fill:#333}}.t{{font-weight:bold}}.n{{fill:#777;"
      "font-size:11px}}.a{{fill:none;stroke:#999}}</style>"
      "<rect width='1160' height='{0}' fill='#fff'/>",
      height);
  double legend = 60;
  for (size_t i = 0; i < std::size(kModeNames); ++i) {
    text += fmt::format(
        "<rect x='{}' y='12' width='12' height='12' fill='{}'/>"
        "<text x='{}' y='22'>{}</text>",
        legend, kColors[i], legend + 18, kModeNames[i]);
    legend += 90;
  }
  double top = 70;
  for (const auto& [chip, model] : subjects) {
    std::array<std::map<Mode, std::vector<Point>>, 3> lines;
    for (const SimulateRow& row : rows) {
      const SimulationResult& r = row.result;
      if (!row.note.empty() || r.chip != chip || r.model != model) continue;
      const double x = r.in_flight;
      lines[0][r.settings.mode].push_back({x, r.figures.output_rate});
      lines[1][r.settings.mode].push_back({x, r.figures.ttft_mean.value_or(0)});
      lines[2][r.settings.mode].push_back({x, 1e3 * r.figures.all.max});
    }
    text += chart(70, top, fmt::format("{}, {}: tokens a second", chip, model), "", lines[0]);
    text += chart(450, top, "mean time to the first token", "s", lines[1]);
    text += chart(830, top, "largest gap of a stream", "ms", lines[2]);
    top += kRow;
  }
  return text + "</svg>\n";
}

}  // namespace weft
