#include "cli/mixed_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace weft {
namespace {

// What pictures need, in the page and by themselves. Colours stand where they are used, since many
// programs that show SVG know no variables.
constexpr std::string_view kPictureStyle = R"(
svg text { fill: #5c6675; font: 12px system-ui, sans-serif; }
svg .title { fill: #1c2430; font-weight: 600; font-size: 14px; }
.panel { fill: #f6f8fa; } .prompt { fill: #f3d9a4; } .rule { stroke: #dfe4ea; }
.target { stroke: #1c2430; stroke-dasharray: 5 4; }
.gap { stroke: #2f6fd0; stroke-width: 2; } .slow { stroke: #c8342c; stroke-width: 3; }
@media (prefers-color-scheme: dark) {
  svg text { fill: #97a2b2; } svg .title { fill: #e6eaf0; }
  .panel { fill: #191f27; } .prompt { fill: #4a3c1c; } .rule { stroke: #2b333e; }
  .target { stroke: #e6eaf0; } .gap { stroke: #6aa3f5; } .slow { stroke: #ff7a6e; } }
)";

constexpr std::string_view kPageStyle = R"(
:root { --page: #ffffff; --ink: #1c2430; --soft: #5c6675; --rule: #dfe4ea; --bar: #b9cff0; }
@media (prefers-color-scheme: dark) {
  :root { --page: #12161c; --ink: #e6eaf0; --soft: #97a2b2; --rule: #2b333e; --bar: #2c4468; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 62rem; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.5rem 0 .5rem; }
p { margin: .25rem 0; color: var(--soft); }
svg { display: block; width: 100%; height: auto; margin: .75rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--rule); }
th { color: var(--soft); font-weight: 500; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
td.bar { background: linear-gradient(to right, var(--bar) var(--w), transparent var(--w))
  no-repeat left center / 100% 70%; min-width: 6rem; }
)";

constexpr double kWidth = 960;
constexpr double kHeight = 220;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 34;
constexpr double kBottom = 30;
constexpr double kLeastGap = 1e-3;  // seconds: the foot of the axis

// One subject's phase on its way into a picture.
struct Scene {
  const MixedSubject* subject;
  const PhaseRecord* record;
  std::vector<Gap> gaps;
};

// Seconds since the first arrival to x, seconds of a gap to y (logarithmic).
struct Axes {
  double from = 0;
  double to = 1;
  double highest = 1;
  double x(double t) const {
    return kLeft + (std::clamp(t, from, to) - from) / (to - from) * (kWidth - kLeft - kRight);
  }
  double y(double gap) const {
    const double share =
        std::log(std::max(gap, kLeastGap) / kLeastGap) / std::log(highest / kLeastGap);
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }
};

double since_start(const PhaseRecord& record, TimePoint time) {
  return seconds(time - record.start);
}

// The longest single prompt that comes to running streams; else the first phase.
size_t phase_to_show(const std::vector<PhaseRecord>& phases) {
  size_t best = 0;
  int longest = 0;
  for (size_t i = 0; i < phases.size(); ++i) {
    int prompts = 0;
    int length = 0;
    for (const RequestRecord& request : phases[i].requests) {
      if (request.stream) continue;
      ++prompts;
      length = request.prompt;
    }
    if (prompts == 1 && length > longest) {
      longest = length;
      best = i;
    }
  }
  return best;
}

std::vector<Scene> scenes_of(const MixedResult& result) {
  std::vector<Scene> scenes;
  for (const MixedSubject& subject : result.subjects) {
    if (subject.repeats.empty()) continue;
    const std::vector<PhaseRecord>& phases = subject.repeats.front();
    const size_t phase = phase_to_show(phases);
    if (phase < phases.size()) scenes.push_back({&subject, &phases[phase], gaps_of(phases[phase])});
  }
  return scenes;
}

Axes axes_of(const std::vector<Scene>& scenes) {
  Axes axes;
  for (const Scene& scene : scenes) {
    axes.from = std::min(axes.from, since_start(*scene.record, scene.record->begin));
    axes.to = std::max(axes.to, since_start(*scene.record, scene.record->end));
    for (const Gap& gap : scene.gaps) axes.highest = std::max(axes.highest, gap.length());
  }
  axes.highest *= 1.2;
  return axes;
}

std::string grid(const Axes& axes) {
  std::string svg;
  for (double gap = kLeastGap; gap <= axes.highest; gap *= 10) {
    svg +=
        fmt::format(R"(<line class="rule" x1="{:.0f}" x2="{:.0f}" y1="{:.1f}" y2="{:.1f}"/>)"
                    R"(<text x="{:.0f}" y="{:.1f}" text-anchor="end">{}</text>)",
                    kLeft, kWidth - kRight, axes.y(gap), axes.y(gap), kLeft - 8, axes.y(gap) + 4,
                    gap < 1 ? fmt::format("{:.0f} ms", gap * 1e3) : fmt::format("{:.0f} s", gap));
  }
  const double span = axes.to - axes.from;
  double step = std::pow(10, std::floor(std::log10(span)));
  if (span / step < 4) step /= 2;
  for (double t = std::ceil(axes.from / step) * step; t <= axes.to; t += step) {
    svg += fmt::format(R"(<text x="{:.1f}" y="{:.0f}" text-anchor="middle">{:g} s</text>)",
                       axes.x(t), kHeight - 10, std::round(t * 100) / 100 + 0.0);
  }
  return svg;
}

std::string prompts(const Scene& scene, const Axes& axes) {
  std::string svg;
  std::string note;
  int count = 0;
  for (const RequestRecord& request : scene.record->requests) {
    if (request.stream || request.tokens.empty()) continue;
    const double from = axes.x(since_start(*scene.record, request.sent));
    const double to = axes.x(since_start(*scene.record, request.tokens.front()));
    svg += fmt::format(
        R"(<rect class="prompt" x="{:.1f}" y="{:.0f}" width="{:.1f}" height="{:.0f}"/>)", from,
        kTop, std::max(1.0, to - from), kHeight - kTop - kBottom);
    if (++count == 1)
      note = fmt::format(": a prompt of {} tokens, its first token after {}",
                         format_count(request.prompt),
                         format_seconds(seconds(request.to_first_token())));
  }
  if (count > 1) note = fmt::format(": {} prompts", count);
  return svg + fmt::format(R"(<text class="title" x="{:.0f}" y="22">{}{}</text>)", kLeft,
                           html_text(scene.subject->name), note);
}

std::string picture(const Scene& scene, const Axes& axes, double target) {
  const auto streams = [&](const Gap& gap) { return scene.record->requests[gap.request].stream; };
  const bool any_stream = std::any_of(scene.gaps.begin(), scene.gaps.end(), streams);
  std::string svg = fmt::format(R"(<rect class="panel" width="{:.0f}" height="{:.0f}" rx="6"/>)",
                                kWidth, kHeight);
  svg += prompts(scene, axes) + grid(axes);
  svg += fmt::format(R"(<line class="target" x1="{:.0f}" x2="{:.0f}" y1="{:.1f}" y2="{:.1f}"/>)"
                     R"(<text x="{:.0f}" y="{:.1f}" text-anchor="end">target {:.0f} ms</text>)",
                     kLeft, kWidth - kRight, axes.y(target), axes.y(target), kWidth - kRight - 4,
                     axes.y(target) - 5, target * 1e3);
  // A gap is a line as long as it lasted, at the height of its length.
  for (const Gap& gap : scene.gaps) {
    if (any_stream && !streams(gap)) continue;
    const double from = axes.x(since_start(*scene.record, gap.begin));
    const double to = axes.x(since_start(*scene.record, gap.end));
    svg += fmt::format(R"(<path class="{}" d="M{:.1f} {:.1f}h{:.1f}"/>)",
                       gap.length() > target ? "slow" : "gap", from, axes.y(gap.length()),
                       std::max(1.5, to - from));
  }
  return svg;
}

struct Column {
  std::string_view title;
  std::function<std::optional<double>(const MixedFigures&)> value;
  std::function<std::string(double)> text;
};

std::string in_ms(double seconds) {
  return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.1 ? 1 : 0);
}
std::string in_seconds(double seconds) { return format_seconds(seconds); }
std::string in_share(double share) { return format_share(share); }
std::string plain(double value) { return fmt::format("{:.1f}", value); }
std::string plain2(double value) { return fmt::format("{:.2f}", value); }

std::optional<double> if_any(const GapFigures& gaps, double GapFigures::* figure) {
  return gaps.count > 0 ? std::optional(gaps.*figure) : std::nullopt;
}

const std::vector<Column>& columns() {
  using F = const MixedFigures&;
  static const std::vector<Column> columns = {
      {"first token, median", [](F f) { return f.ttft_p50; }, in_seconds},
      {"output tokens/s", [](F f) { return std::optional(f.output_rate); }, plain},
      {"gap, no prompt: p99", [](F f) { return if_any(f.alone, &GapFigures::p99); }, in_ms},
      {"gap, prompt read: p99", [](F f) { return if_any(f.during, &GapFigures::p99); }, in_ms},
      {"largest gap", [](F f) { return if_any(f.during, &GapFigures::max); }, in_ms},
      {"stall", [](F f) { return f.stall; }, in_seconds},
      {"goodput, 1/s", [](F f) { return std::optional(f.goodput); }, plain2},
      {"cores busy", [](F f) { return f.engine ? std::optional(f.engine->busy) : std::nullopt; },
       in_share},
      {"of the roofline", [](F f) { return f.engine ? f.engine->roofline : std::nullopt; },
       in_share},
  };
  return columns;
}

std::string table(const std::vector<MixedRow>& rows) {
  std::string html = "<div class=\"scroll\"><table><tr><th></th>";
  for (const Column& column : columns()) html += fmt::format("<th>{}</th>", column.title);
  html += "</tr>\n";
  for (const MixedRow& row : rows) {
    html += fmt::format("<tr><td>{}</td>", html_text(row.subject));
    for (const Column& column : columns()) {
      double largest = 0;
      for (const MixedRow& other : rows)
        largest = std::max(largest, column.value(other.figures).value_or(0));
      const std::optional<double> value = column.value(row.figures);
      const double share = value && largest > 0 ? *value / largest : 0;
      html += fmt::format("<td class=\"bar\" style=\"--w:{:.1f}%\">{}</td>", share * 100,
                          value ? column.text(*value) : "-");
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string tables(const MixedResult& result) {
  std::string html;
  const std::vector<MixedRow> rows = rows_of(result);
  for (size_t begin = 0; begin < rows.size();) {
    const auto same = [&](const MixedRow& row) {
      return row.phase == rows[begin].phase && row.prompt == rows[begin].prompt;
    };
    size_t end = begin;
    while (end < rows.size() && same(rows[end])) ++end;
    std::string title = rows[begin].phase.empty() ? "All phases" : "Prompt: " + rows[begin].phase;
    if (rows[begin].prompt)
      title += fmt::format(", of {} tokens", format_count(*rows[begin].prompt));
    html += fmt::format("<h2>{}</h2>\n", html_text(title));
    html += table({rows.begin() + static_cast<std::ptrdiff_t>(begin),
                   rows.begin() + static_cast<std::ptrdiff_t>(end)});
    begin = end;
  }
  return html;
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '&':
        html += "&amp;";
        break;
      case '"':
        html += "&quot;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

std::string mixed_page(const MixedResult& result) {
  const std::vector<Scene> scenes = scenes_of(result);
  const Axes axes = axes_of(scenes);
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>weft bench mixed: {}</title>\n<style>{}</style>\n</head>\n<body>\n"
      "<h1>Streams while prompts are read</h1>\n"
      "<p>{}, weft {}; {}; {}</p>\n<p>Workload {}, {}, seed {}. Targets: gaps {:.0f} ms, first "
      "token {:.1f} s.</p>\n",
      html_text(result.model), std::string(kPictureStyle) + std::string(kPageStyle),
      html_text(result.model), WEFT_VERSION, html_text(result.cpu), html_text(result.executor),
      html_text(result.workload), html_text(result.transport), result.seed,
      result.targets.itl * 1e3, result.targets.ttft);
  if (!scenes.empty()) {
    html +=
        "<h2>Gaps between the tokens of running streams</h2>\n<p>Each line is a gap: as long "
        "as it lasted, as high as its length. A prompt is read in the shaded time.</p>\n";
    for (const Scene& scene : scenes) {
      html += fmt::format(
          "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"token gaps of {}\">{}"
          "</svg>\n",
          kWidth, kHeight, html_text(scene.subject->name),
          picture(scene, axes, result.targets.itl));
    }
  }
  html += tables(result);
  for (const MixedSubject& subject : result.subjects) {
    if (!subject.error.empty())
      html += fmt::format("<p>{}: {}</p>\n", html_text(subject.name), html_text(subject.error));
  }
  return html + "</body>\n</html>\n";
}

std::string mixed_svg(const MixedResult& result) {
  constexpr double kBetween = 12;
  const std::vector<Scene> scenes = scenes_of(result);
  const Axes axes = axes_of(scenes);
  const double height = static_cast<double>(scenes.size()) * (kHeight + kBetween);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
      "aria-label=\"token gaps of running streams while a prompt is read\">\n<style>{}</style>\n",
      kWidth, height, kPictureStyle);
  for (size_t i = 0; i < scenes.size(); ++i) {
    svg += fmt::format("<g transform=\"translate(0 {:.0f})\">{}</g>\n",
                       static_cast<double>(i) * (kHeight + kBetween),
                       picture(scenes[i], axes, result.targets.itl));
  }
  return svg + "</svg>\n";
}

}  // namespace weft
