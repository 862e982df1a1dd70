#include "cli/mixed_figures.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cli/paired_ratio.h"

namespace weft {
namespace {

constexpr int kShortPrompt = 1000;
constexpr size_t kEnoughGaps = 5;  // for a median of a request's own

// Disjoint and ascending.
using Spans = std::vector<std::pair<TimePoint, TimePoint>>;

Spans merged(Spans spans) {
  std::sort(spans.begin(), spans.end());
  Spans merged;
  for (const auto& span : spans) {
    if (!merged.empty() && span.first <= merged.back().second) {
      merged.back().second = std::max(merged.back().second, span.second);
    } else {
      merged.push_back(span);
    }
  }
  return merged;
}

using SpanIterator = Spans::const_iterator;

// The first that ends after `time`.
SpanIterator first_after(const Spans& spans, TimePoint time) {
  return std::upper_bound(spans.begin(), spans.end(), time,
                          [](TimePoint t, const auto& span) { return t < span.second; });
}

// More of the gap than what tokens of one step may be apart when they arrive, and than the rest of
// a step that had begun when the prompt came.
bool overlaps(const Spans& spans, const Gap& gap) {
  constexpr int kLeastShare = 5;
  Duration common{};
  for (auto span = first_after(spans, gap.begin); span != spans.end() && span->first < gap.end;
       ++span)
    common += std::min(span->second, gap.end) - std::max(span->first, gap.begin);
  return common > (gap.end - gap.begin) / kLeastShare;
}

// The span's end counts as within.
bool within(const Spans& spans, TimePoint time) {
  const auto span = first_after(spans, time - Duration(1));
  return span != spans.end() && span->first < time;
}

// When prompts were read, of chat streams or of the others.
Spans prefills(const PhaseRecord& record, bool of_streams) {
  Spans spans;
  for (const RequestRecord& request : record.requests) {
    if (request.stream != of_streams || request.continued) continue;
    spans.emplace_back(request.sent, request.tokens.empty() ? record.end : request.tokens.front());
  }
  return merged(std::move(spans));
}

bool has_streams(const PhaseRecord& record) {
  return std::any_of(record.requests.begin(), record.requests.end(),
                     [](const RequestRecord& request) { return request.stream; });
}

class Collector {
 public:
  Collector(const MixedTargets& targets, std::optional<int> prompt)
      : targets_(targets), prompt_(prompt) {}

  void add(const MixedRepeat& repeat) {
    double largest_alone = 0;
    double largest_during = 0;
    double largest = 0;
    for (const PhaseRecord* record : repeat) {
      streams_ = has_streams(*record);
      const std::vector<Gap> gaps = gaps_of(*record);
      add_requests(*record, gaps);
      add_rates(*record);
      add_stall(*record, gaps);
      add_engine(*record);
      for (const Gap& gap : gaps) {
        const RequestRecord& request = record->requests[gap.request];
        if (!chosen(request)) continue;
        all_.push_back(gap.length());
        largest = std::max(largest, gap.length());
        if (request.stream != streams_) continue;
        if (gap.kind == GapKind::kAlone) {
          alone_.push_back(gap.length());
          largest_alone = std::max(largest_alone, gap.length());
        } else if (gap.kind == GapKind::kPrompt) {
          during_.push_back(gap.length());
          largest_during = std::max(largest_during, gap.length());
        }
      }
    }
    largest_alone_.push_back(largest_alone);
    largest_during_.push_back(largest_during);
    largest_.push_back(largest);
  }

  MixedFigures figures() {
    MixedFigures f = figures_;
    if (f.wall > 0) {
      f.output_rate = static_cast<double>(tokens_) / f.wall;
      f.goodput = good_ / f.wall;
      f.goodput_tpot = good_by_mean_ / f.wall;
    }
    if (!ttft_.empty()) {
      f.ttft_mean = mean(ttft_);
      f.ttft_p50 = percentile(ttft_, 0.5);
      f.ttft_p99 = percentile(ttft_, 0.99);
    }
    if (!short_ttft_.empty() && short_ttft_.size() < ttft_.size())
      f.short_ttft_mean = mean(short_ttft_);
    if (!tpot_.empty()) {
      f.tpot_p50 = percentile(tpot_, 0.5);
      f.tpot_p99 = percentile(tpot_, 0.99);
    }
    if (alone_seconds_ > 0) f.rate_alone = alone_tokens_ / alone_seconds_;
    if (during_seconds_ > 0) f.rate_during = during_tokens_ / during_seconds_;
    f.alone = gap_figures(std::move(alone_), largest_alone_);
    f.during = gap_figures(std::move(during_), largest_during_);
    f.all = gap_figures(std::move(all_), largest_);
    if (stall_known_) f.stall = stall_;
    if (core_seconds_ > 0) {
      EngineFigures& engine = *f.engine;
      for (double* share : {&engine.busy, &engine.barrier, &engine.idle}) *share /= core_seconds_;
      if (engine.roofline) *engine.roofline /= core_seconds_;
      if (engine_wall_ > 0) engine.host /= engine_wall_;
    }
    return f;
  }

 private:
  static double mean(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }

  static GapFigures gap_figures(std::vector<double> gaps, const std::vector<double>& largest) {
    GapFigures f;
    f.count = gaps.size();
    if (gaps.empty()) return f;
    f.mean = mean(gaps);
    f.max = median(largest);
    f.largest = *std::max_element(largest.begin(), largest.end());
    f.p50 = percentile(gaps, 0.5);
    f.p99 = percentile(std::move(gaps), 0.99);
    return f;
  }

  bool chosen(const RequestRecord& request) const {
    return request.stream || !prompt_ || request.prompt == *prompt_;
  }

  void add_requests(const PhaseRecord& record, const std::vector<Gap>& gaps) {
    figures_.wall += seconds(record.end - record.start);
    size_t gap = 0;
    for (size_t i = 0; i < record.requests.size(); ++i) {
      const RequestRecord& request = record.requests[i];
      std::vector<double> own;
      for (; gap < gaps.size() && gaps[gap].request == i; ++gap) own.push_back(gaps[gap].length());
      if (!chosen(request)) continue;
      tokens_ +=
          static_cast<uint64_t>(std::count_if(request.tokens.begin(), request.tokens.end(),
                                              [&](TimePoint time) { return time > record.start; }));
      add_goodput(request, own);
      if (request.stream) continue;
      ++figures_.requests;
      figures_.failed += request.error.empty() ? 0 : 1;
      if (!own.empty()) tpot_.push_back(mean(own));
      if (!request.has_first_token()) continue;
      ttft_.push_back(seconds(request.to_first_token()));
      if (request.prompt < kShortPrompt) short_ttft_.push_back(ttft_.back());
    }
  }

  void add_goodput(const RequestRecord& request, const std::vector<double>& own) {
    if (!request.error.empty() || request.tokens.empty()) return;
    if (request.has_first_token() && seconds(request.to_first_token()) > targets_.ttft) return;
    if (own.empty() || percentile(own, 0.99) <= targets_.itl) ++good_;
    if (own.empty() || mean(own) <= targets_.itl) ++good_by_mean_;
  }

  // Tokens of chat streams per second of the phase with and without a prompt.
  void add_rates(const PhaseRecord& record) {
    if (!streams_) return;
    const Spans spans = prefills(record, false);
    double during = 0;
    for (const auto& [begin, end] : spans) during += seconds(end - begin);
    during_seconds_ += during;
    alone_seconds_ += seconds(record.end - record.begin) - during;
    for (const RequestRecord& request : record.requests) {
      if (!request.stream) continue;
      for (size_t t = request.continued ? 1 : 0; t < request.tokens.size(); ++t) {
        const TimePoint at = request.tokens[t];
        ++(within(spans, at) ? during_tokens_ : alone_tokens_);
      }
    }
  }

  void add_stall(const PhaseRecord& record, const std::vector<Gap>& gaps) {
    std::vector<double> pooled;
    std::vector<std::vector<double>> own(record.requests.size());
    for (const Gap& gap : gaps) {
      if (gap.kind != GapKind::kAlone) continue;
      pooled.push_back(gap.length());
      own[gap.request].push_back(gap.length());
    }
    if (pooled.empty()) return;
    stall_known_ = true;
    const double by_default = median(std::move(pooled));
    std::vector<double> expected;
    expected.reserve(own.size());
    for (std::vector<double>& gaps_alone : own) {
      expected.push_back(gaps_alone.size() >= kEnoughGaps ? median(std::move(gaps_alone))
                                                          : by_default);
    }
    for (const Gap& gap : gaps) {
      if (gap.kind != GapKind::kAlone && chosen(record.requests[gap.request]))
        stall_ += std::max(0.0, gap.length() - expected[gap.request]);
    }
  }

  void add_engine(const PhaseRecord& record) {
    if (!record.before || !record.after) return;
    const EngineStats& a = *record.before;
    const EngineStats& b = *record.after;
    if (!figures_.engine) figures_.engine.emplace();
    EngineFigures& f = *figures_.engine;
    f.busy += b.busy_core_seconds - a.busy_core_seconds;
    f.barrier += b.barrier_core_seconds - a.barrier_core_seconds;
    f.idle += b.idle_core_seconds - a.idle_core_seconds;
    if (b.roofline_core_seconds) {
      f.roofline =
          f.roofline.value_or(0) + *b.roofline_core_seconds - a.roofline_core_seconds.value_or(0);
    }
    f.host += b.host_seconds - a.host_seconds;
    f.stall_seconds += b.stall_seconds - a.stall_seconds;
    f.quanta += b.quanta - a.quanta;
    f.steps += b.steps - a.steps;
    f.missed_steps += b.missed_steps - a.missed_steps;
    f.preemptions += b.preemptions - a.preemptions;
    core_seconds_ = f.busy + f.barrier + f.idle;
    engine_wall_ += b.wall_seconds - a.wall_seconds;
  }

  const MixedTargets targets_;
  const std::optional<int> prompt_;
  bool streams_ = false;  // in the record at hand
  MixedFigures figures_;
  uint64_t tokens_ = 0;
  double good_ = 0;
  double good_by_mean_ = 0;
  std::vector<double> ttft_, short_ttft_, tpot_;
  std::vector<double> alone_, during_, all_;
  std::vector<double> largest_alone_, largest_during_, largest_;  // of each repeat
  double alone_seconds_ = 0;
  double during_seconds_ = 0;
  double alone_tokens_ = 0;
  double during_tokens_ = 0;
  bool stall_known_ = false;
  double stall_ = 0;
  double core_seconds_ = 0;
  double engine_wall_ = 0;
};

}  // namespace

std::vector<Gap> gaps_of(const PhaseRecord& record) {
  const Spans prompts = prefills(record, false);
  const Spans chats = prefills(record, true);
  std::vector<Gap> gaps;
  for (size_t i = 0; i < record.requests.size(); ++i) {
    const std::vector<TimePoint>& tokens = record.requests[i].tokens;
    for (size_t t = 1; t < tokens.size(); ++t) {
      Gap gap{.request = i, .begin = tokens[t - 1], .end = tokens[t]};
      if (overlaps(prompts, gap)) {
        gap.kind = GapKind::kPrompt;
      } else if (overlaps(chats, gap)) {
        gap.kind = GapKind::kChat;
      }
      gaps.push_back(gap);
    }
  }
  return gaps;
}

MixedFigures figures_of(std::span<const MixedRepeat> repeats, const MixedTargets& targets,
                        std::optional<int> prompt) {
  Collector collector(targets, prompt);
  for (const MixedRepeat& repeat : repeats) collector.add(repeat);
  return collector.figures();
}

double percentile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

}  // namespace weft
