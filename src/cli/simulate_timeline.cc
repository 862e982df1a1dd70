#include "cli/simulate_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "cli/mixed_picture.h"

namespace weft {
namespace {

using timing::StepSpan;

// Colours and fonts are written out: programs that turn SVG into pixels know no variables.
constexpr std::string_view kStyle =
    "text{font:12px system-ui,'DejaVu Sans',sans-serif;fill:#5c6675}"
    ".title{font-size:15px;font-weight:600;fill:#1c2430}.mode{font-size:13px;font-weight:600;"
    "fill:#1c2430}.in{font-size:11px;fill:#ffffff}.rule{stroke:#dfe4ea}";
constexpr const char* kPromptColor = "#e8862a";
constexpr const char* kStreamColor = "#2f6fd0";
constexpr const char* kMixedColor = "#7d58b8";
constexpr const char* kIdleColor = "#e9edf2";
constexpr const char* kAnswerColor = "#3f9b57";
constexpr const char* kInk = "#1c2430";

constexpr double kWidth = 1120;
constexpr double kLeft = 150;
constexpr double kRight = 24;
constexpr double kTop = 78;      // above the first mode
constexpr double kName = 26;     // a mode's name
constexpr double kCores = 72;    // all cores
constexpr double kLaneGap = 3;   // between two groups
constexpr double kStream = 7;    // a stream's tokens
constexpr double kModeGap = 22;  // below a mode
constexpr double kFoot = 14;

constexpr double kBefore = 0.06;  // seconds of the picture before the prompt comes
constexpr double kAfter = 0.06;   // after the last mode has read it
constexpr double kLeastLabel = 90;

// Consecutive steps of one quantum.
struct Span {
  Group group = Group::kAll;
  uint64_t quantum = 0;
  double begin = 0;  // seconds since the prompt came
  double end = 0;
  int prompt_rows = 0;
  int single_rows = 0;

  const char* color() const {
    return prompt_rows == 0 ? kStreamColor : single_rows == 0 ? kPromptColor : kMixedColor;
  }
  std::string label() const {
    if (prompt_rows == 0) return "";
    const std::string rows = fmt::format("{} rows of the prompt", format_count(prompt_rows));
    return single_rows == 0 ? rows : fmt::format("{}, {} of streams", rows, single_rows);
  }
};

struct Scene {
  const SimulationResult& result;
  const PhaseRecord& record;
  const RequestRecord* prompt;
  std::vector<Span> spans;

  double since(TimePoint time) const { return seconds(time - prompt->sent); }
  double first_token() const { return since(prompt->tokens.front()); }
};

std::optional<Scene> scene_of(const SimulateRow& row) {
  if (!row.note.empty() || row.result.records.empty()) return std::nullopt;
  Scene scene{row.result, row.result.records.front(), nullptr, {}};
  for (const RequestRecord& request : scene.record.requests) {
    if (!request.stream && request.has_first_token()) scene.prompt = &request;
  }
  if (scene.prompt == nullptr) return std::nullopt;
  for (const StepSpan& step : row.result.steps) {
    const double begin = scene.since(step.begin);
    const double end = scene.since(step.end);
    const auto last = std::find_if(scene.spans.rbegin(), scene.spans.rend(),
                                   [&](const Span& span) { return span.group == step.group; });
    if (last != scene.spans.rend() && last->quantum == step.quantum) {
      last->end = end;
    } else {
      scene.spans.push_back(
          {step.group, step.quantum, begin, end, step.prompt_rows, step.single_rows});
    }
  }
  return scene;
}

// Seconds to x.
struct Axis {
  double from = 0;
  double to = 1;
  double x(double time) const {
    return kLeft + (std::clamp(time, from, to) - from) / (to - from) * (kWidth - kLeft - kRight);
  }
  bool shows(double begin, double end) const { return end > from && begin < to; }
};

Axis axis_of(std::span<const Scene> scenes) {
  Axis axis{-kBefore, kAfter};
  for (const Scene& scene : scenes) {
    axis.from = std::max(axis.from, scene.since(scene.record.begin));
    axis.to = std::max(axis.to, scene.first_token() + kAfter);
  }
  return axis;
}

// Lines of tokens, by the order in which streams began. One that ended and the one that took its
// place are one line.
std::vector<std::vector<const RequestRecord*>> stream_lines(const PhaseRecord& record) {
  std::vector<const RequestRecord*> streams;
  for (const RequestRecord& request : record.requests) {
    if (request.stream) streams.push_back(&request);
  }
  std::sort(streams.begin(), streams.end(), [](const auto* a, const auto* b) {
    return std::pair(a->sent, a) < std::pair(b->sent, b);  // of the same moment, in their order
  });
  std::vector<std::vector<const RequestRecord*>> lines;
  for (const RequestRecord* stream : streams) {
    const auto free = std::find_if(lines.begin(), lines.end(), [&](const auto& line) {
      const RequestRecord& last = *line.back();
      return !last.cut && !last.tokens.empty() && last.tokens.back() <= stream->sent;
    });
    if (free == lines.end()) {
      lines.push_back({stream});
    } else {
      free->push_back(stream);
    }
  }
  return lines;
}

// A mode's part of the picture; nothing is drawn after the end of its run.
class Panel {
 public:
  Panel(const Scene& scene, const Axis& axis, double top) : scene_(scene), axis_(axis), top_(top) {}

  static double height(const Scene& scene) {
    return kName + kCores + kLaneGap + 10 + kStream * (scene.record.streams + 1) + kModeGap;
  }

  std::string svg() const { return name() + lanes() + tokens() + arrival(); }

 private:
  double lanes_top() const { return top_ + kName; }
  double tokens_top() const { return lanes_top() + kCores + kLaneGap + 10; }

  double largest_gap() const {
    double largest = 0;
    for (const Gap& gap : gaps_of(scene_.record)) {
      if (scene_.record.requests[gap.request].stream &&
          axis_.shows(scene_.since(gap.begin), scene_.since(gap.end)))
        largest = std::max(largest, gap.length());
    }
    return largest;
  }

  std::string name() const {
    const SimulationResult& result = scene_.result;
    return fmt::format(
        "<text x='{:.0f}' y='{:.1f}'><tspan class='mode'>{}</tspan><tspan dx='12'>the prompt's "
        "first token after {:.0f} ms; a stream's largest gap {:.0f} ms</tspan></text>",
        kLeft, top_ + 16, setup_text(result.settings, result.cores), 1e3 * scene_.first_token(),
        1e3 * largest_gap());
  }

  std::string arrival() const {
    return fmt::format("<path d='M{:.1f} {:.1f}V{:.1f}' stroke='{}' stroke-dasharray='4 3'/>",
                       axis_.x(0), lanes_top() - 4, top_ + height(scene_) - kModeGap, kInk);
  }

  std::string lane(Group group, double top, double height, const std::string& label,
                   const std::string& cores) const {
    std::string svg = fmt::format(
        "<text x='{:.0f}' y='{:.1f}' text-anchor='end'>{}</text>"
        "<text x='{:.0f}' y='{:.1f}' text-anchor='end'>{}</text>"
        "<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}' fill='{}'/>",
        kLeft - 10, top + height / 2 - 3, label, kLeft - 10, top + height / 2 + 12, cores,
        axis_.x(axis_.from), top, axis_.x(scene_.since(scene_.record.end)) - axis_.x(axis_.from),
        height, kIdleColor);
    for (const Span& span : scene_.spans) {
      // Modes that have groups still run some quanta on all cores.
      if ((span.group != group && span.group != Group::kAll) || !axis_.shows(span.begin, span.end))
        continue;
      const double x = axis_.x(span.begin);
      const double width = axis_.x(span.end) - x;
      // A hair between quanta, where there is room for it.
      svg += fmt::format("<rect x='{:.2f}' y='{:.1f}' width='{:.2f}' height='{:.1f}' fill='{}'/>",
                         x, top, width > 3 ? width - 0.7 : width, height, span.color());
      const std::string text = span.label();
      if (width > kLeastLabel && width > 6.2 * static_cast<double>(text.size()) && !text.empty()) {
        svg += fmt::format("<text class='in' x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>",
                           x + width / 2, top + height / 2 + 4, text);
      }
    }
    return svg;
  }

  std::string lanes() const {
    const int cores = scene_.result.cores;
    const int decode = scene_.result.settings.decode_cores;
    const double top = lanes_top();
    if (decode == 0)
      return lane(Group::kAll, top, kCores + kLaneGap, "all cores", fmt::format("{}", cores));
    const double prompts = kCores * (cores - decode) / cores;
    return lane(Group::kPrefill, top, prompts, "prompts' cores",
                fmt::format("{}", cores - decode)) +
           lane(Group::kDecode, top + prompts + kLaneGap, kCores - prompts, "streams' cores",
                fmt::format("{}", decode));
  }

  std::string ticks(const RequestRecord& request, double y, const char* color) const {
    std::string path;
    for (const TimePoint time : request.tokens) {
      const double at = scene_.since(time);
      if (at >= axis_.from && at <= axis_.to)
        path += fmt::format("M{:.1f} {:.1f}v{:.1f}", axis_.x(at), y, kStream - 2);
    }
    return fmt::format("<path d='{}' stroke='{}' stroke-width='1.6'/>", path, color);
  }

  std::string tokens() const {
    const int streams = scene_.record.streams;
    double y = tokens_top();
    std::string svg = fmt::format(
        "<text x='{:.0f}' y='{:.1f}' text-anchor='end'>streams' tokens</text>"
        "<text x='{:.0f}' y='{:.1f}' text-anchor='end'>its answer</text>",
        kLeft - 10, y + kStream * streams / 2 + 2, kLeft - 10, y + kStream * (streams + 1) + 2);
    for (const auto& line : stream_lines(scene_.record)) {
      for (const RequestRecord* request : line) svg += ticks(*request, y, kStreamColor);
      y += kStream;
    }
    return svg + ticks(*scene_.prompt, y + 1, kAnswerColor);
  }

  const Scene& scene_;
  const Axis& axis_;
  const double top_;
};

std::string legend() {
  const std::pair<const char*, const char*> entries[] = {{kPromptColor, "a prompt's rows"},
                                                         {kStreamColor, "streams' rows"},
                                                         {kMixedColor, "both together"},
                                                         {kIdleColor, "idle"}};
  std::string svg;
  double x = kLeft;
  for (const auto& [color, text] : entries) {
    svg += fmt::format(
        "<rect x='{:.0f}' y='42' width='14' height='14' rx='2' fill='{}'/>"
        "<text x='{:.0f}' y='53'>{}</text>",
        x, color, x + 20, text);
    x += 135;
  }
  return svg;
}

// Lines behind the modes, and times below.
std::string time_axis(const Axis& axis, double bottom) {
  const double range = axis.to - axis.from;
  double step = std::pow(10, std::floor(std::log10(range / 4)));
  for (const double factor : {2.0, 2.5, 2.0}) {
    if (range / step > 16) step *= factor;
  }
  std::string svg;
  for (double time = std::ceil(axis.from / step) * step; time <= axis.to; time += step) {
    svg += fmt::format(
        "<path class='rule' d='M{0:.1f} {1:.0f}V{2:.0f}'/>"
        "<text x='{0:.1f}' y='{3:.0f}' text-anchor='middle'>{4:.0f}{5}</text>",
        axis.x(time), kTop, bottom, bottom + 18, 1e3 * time + 0.0,
        std::abs(time) < step / 2 ? " ms" : "");
  }
  return svg;
}

}  // namespace

MixedPhase timeline_phase(int streams, int prompt, int output) {
  MixedPhase phase;
  phase.name = "timeline";
  phase.streams = streams;
  phase.alone = std::chrono::milliseconds(streams > 0 ? 200 : 0);
  phase.requests = {{{}, prompt, output}};
  return phase;
}

std::string simulate_timeline(std::span<const SimulateRow> rows) {
  std::vector<Scene> scenes;
  for (const SimulateRow& row : rows) {
    if (std::optional<Scene> scene = scene_of(row)) scenes.push_back(*std::move(scene));
  }
  const Axis axis = axis_of(scenes);
  double bottom = kTop;
  std::string panels;
  for (const Scene& scene : scenes) {
    panels += Panel(scene, axis, bottom).svg() + '\n';
    bottom += Panel::height(scene);
  }
  std::string title = "Nothing was simulated";
  if (!scenes.empty()) {
    const SimulationResult& result = scenes.front().result;
    title = fmt::format("{}, {}: a prompt of {} tokens comes to {} running streams at 0 ms",
                        result.chip, result.model, format_count(scenes.front().prompt->prompt),
                        scenes.front().record.streams);
  }
  return fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0:.0f}' height='{1:.0f}' "
      "viewBox='0 0 {0:.0f} {1:.0f}'>\n<style>{2}</style>\n"
      "<rect width='{0:.0f}' height='{1:.0f}' fill='#ffffff'/>\n"
      "<text class='title' x='{3:.0f}' y='26'>{4}</text>{5}\n{6}\n{7}</svg>\n",
      kWidth, bottom + kFoot, kStyle, kLeft, html_text(title), legend(),
      time_axis(axis, bottom - kModeGap + 6), panels);
}

}  // namespace weft
