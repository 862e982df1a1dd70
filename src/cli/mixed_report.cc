#include "cli/mixed_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

std::vector<MixedRepeat> phase_of(const MixedSubject& subject, size_t phase) {
  std::vector<MixedRepeat> repeats;
  for (const auto& records : subject.repeats) {
    if (phase < records.size()) repeats.push_back({&records[phase]});
  }
  return repeats;
}

std::vector<MixedRepeat> all_phases(const MixedSubject& subject) {
  std::vector<MixedRepeat> repeats;
  for (const auto& records : subject.repeats) {
    MixedRepeat& repeat = repeats.emplace_back();
    for (const PhaseRecord& record : records) repeat.push_back(&record);
  }
  return repeats;
}

// The longest list of phases that a subject has played.
const std::vector<PhaseRecord>* longest_run(const MixedResult& result) {
  const std::vector<PhaseRecord>* longest = nullptr;
  for (const MixedSubject& subject : result.subjects) {
    for (const auto& records : subject.repeats) {
      if (longest == nullptr || records.size() > longest->size()) longest = &records;
    }
  }
  return longest;
}

std::set<int> prompt_lengths(const PhaseRecord& record) {
  std::set<int> lengths;
  for (const RequestRecord& request : record.requests) {
    if (!request.stream) lengths.insert(request.prompt);
  }
  return lengths;
}

// A trace of many lengths has one row.
constexpr size_t kMostLengths = 8;

void add_phase_rows(const MixedResult& result, size_t phase, const PhaseRecord& example,
                    std::vector<MixedRow>& rows) {
  const std::set<int> lengths = prompt_lengths(example);
  std::vector<std::optional<int>> classes(lengths.begin(), lengths.end());
  if (lengths.size() <= 1 || lengths.size() > kMostLengths) classes = {std::nullopt};
  for (const std::optional<int>& length : classes) {
    for (const MixedSubject& subject : result.subjects) {
      const std::vector<MixedRepeat> repeats = phase_of(subject, phase);
      if (repeats.empty()) continue;
      rows.push_back(
          {subject.name, example.name, length, figures_of(repeats, result.targets, length)});
    }
  }
}

std::string format_ms(const GapFigures& gaps, double GapFigures::* figure) {
  if (gaps.count == 0) return "-";
  const double ms = gaps.*figure * 1e3;
  return fmt::format("{:.{}f}", ms, ms < 100 ? 1 : 0);
}

template <class... Cells>
std::string line(size_t first, const Cells&... cells) {
  std::string text;
  size_t column = 0;
  ((text += column++ == 0 ? fmt::format("{:<{}}", cells, first) : fmt::format("{:>9}", cells)),
   ...);
  return text + '\n';
}

std::string format_number(std::optional<double> value, int digits = 1) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

template <class Share>
std::optional<double> engine_share(const MixedFigures& f, Share EngineFigures::* share) {
  return f.engine ? std::optional<double>((*f.engine).*share) : std::nullopt;
}

std::string cells(size_t width, const std::string& name, const MixedFigures& f) {
  return line(width, name, format_seconds(f.ttft_p50), format_seconds(f.ttft_p99),
              format_number(f.output_rate), format_number(f.rate_during),
              format_ms(f.alone, &GapFigures::p50), format_ms(f.alone, &GapFigures::p99),
              format_ms(f.during, &GapFigures::p50), format_ms(f.during, &GapFigures::p99),
              format_ms(f.during, &GapFigures::max), format_number(f.stall, 2),
              format_number(f.goodput, 2), format_share(engine_share(f, &EngineFigures::busy)),
              format_share(engine_share(f, &EngineFigures::roofline)));
}

// Of each subject while a prompt was read: ": serial 8812 ms, fused 61.3 ms".
std::string largest_gaps(const std::vector<MixedRow>& rows) {
  std::string text;
  for (const MixedRow& row : rows) {
    if (!row.phase.empty()) continue;
    text += fmt::format("{} {} {} ms", text.empty() ? ":" : ",", row.subject,
                        format_ms(row.figures.during, &GapFigures::largest));
  }
  return text;
}

// What the columns of the table leave open.
std::string notes(const std::vector<MixedRow>& rows, size_t repeats) {
  if (rows.empty()) return "";
  std::string text = "\n* of chat streams while a prompt is read\n";
  if (repeats > 1) {
    text += "max: the median of the repeats' largest; of all repeats" + largest_gaps(rows) + '\n';
  }
  if (std::any_of(rows.begin(), rows.end(), [](const MixedRow& row) {
        return engine_share(row.figures, &EngineFigures::roofline) > 1.0;
      })) {
    text += "over 100 % of the roofline: the machine was slower when its limits were measured\n";
  }
  return text;
}

std::string heading(size_t width) {
  // Over the columns of cells(), nine characters each.
  return fmt::format("{:<{}}{:>18}{:>18}{:>18}{:>27}{:>9}{:>9}{:>9}{:>10}\n", "", width,
                     "first token", "output  streams*", "gap ms, no prompt",
                     "gap ms, prompt being read", "stall", "goodput", "cores", "of the") +
         line(width, "", "p50", "p99", "tok/s", "tok/s", "p50", "p99", "p50", "p99", "max", "s",
              "1/s", "busy", "roofline");
}

Json to_json(const GapFigures& gaps) {
  if (gaps.count == 0) return nullptr;
  return {{"count", gaps.count},      {"mean_ms", gaps.mean * 1e3},
          {"p50_ms", gaps.p50 * 1e3}, {"p99_ms", gaps.p99 * 1e3},
          {"max_ms", gaps.max * 1e3}, {"largest_ms", gaps.largest * 1e3}};
}

Json to_json(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json to_json(const std::optional<EngineFigures>& engine) {
  if (!engine) return nullptr;
  return {{"busy", engine->busy},
          {"barrier", engine->barrier},
          {"idle", engine->idle},
          {"roofline", to_json(engine->roofline)},
          {"host", engine->host},
          {"stall_seconds", engine->stall_seconds},
          {"quanta", engine->quanta},
          {"steps", engine->steps},
          {"missed_steps", engine->missed_steps},
          {"preemptions", engine->preemptions}};
}

Json to_json(const MixedRow& row) {
  const MixedFigures& f = row.figures;
  return {{"subject", row.subject},
          {"phase", row.phase.empty() ? Json("all") : Json(row.phase)},
          {"prompt", row.prompt ? Json(*row.prompt) : Json(nullptr)},
          {"requests", f.requests},
          {"failed", f.failed},
          {"wall_seconds", f.wall},
          {"ttft_seconds",
           {{"mean", to_json(f.ttft_mean)},
            {"p50", to_json(f.ttft_p50)},
            {"p99", to_json(f.ttft_p99)},
            {"mean_of_short", to_json(f.short_ttft_mean)}}},
          {"tpot_seconds", {{"p50", to_json(f.tpot_p50)}, {"p99", to_json(f.tpot_p99)}}},
          {"output_tokens_per_second", f.output_rate},
          {"streams_tokens_per_second",
           {{"alone", to_json(f.rate_alone)}, {"during", to_json(f.rate_during)}}},
          {"gaps",
           {{"alone", to_json(f.alone)}, {"during", to_json(f.during)}, {"all", to_json(f.all)}}},
          {"stall_seconds", to_json(f.stall)},
          {"goodput", f.goodput},
          {"goodput_tpot", f.goodput_tpot},
          {"engine", to_json(f.engine)}};
}

}  // namespace

std::vector<MixedRow> rows_of(const MixedResult& result) {
  std::vector<MixedRow> rows;
  for (const MixedSubject& subject : result.subjects) {
    if (!subject.repeats.empty())
      rows.push_back(
          {subject.name, "", std::nullopt, figures_of(all_phases(subject), result.targets)});
  }
  const std::vector<PhaseRecord>* phases = longest_run(result);
  for (size_t i = 0; phases != nullptr && i < phases->size(); ++i)
    add_phase_rows(result, i, (*phases)[i], rows);
  return rows;
}

std::string mixed_table(const MixedResult& result) {
  const std::vector<MixedRow> rows = rows_of(result);
  size_t width = 10;
  for (const MixedSubject& subject : result.subjects)
    width = std::max(width, subject.name.size() + 2);
  size_t repeats = 0;
  for (const MixedSubject& subject : result.subjects)
    repeats = std::max(repeats, subject.repeats.size());

  std::string text = fmt::format(
      "{}, weft {}\n{}, {}\nworkload {}, {}, seed {}{}; targets: gaps {:.0f} ms, first token "
      "{:.1f} s\n",
      result.model, WEFT_VERSION, result.cpu, result.executor, result.workload, result.transport,
      result.seed, repeats > 1 ? fmt::format(", {} repeats", repeats) : "",
      result.targets.itl * 1e3, result.targets.ttft);
  std::string section = "-";
  for (const MixedRow& row : rows) {
    std::string title = row.phase.empty() ? "all" : "prompt: " + row.phase;
    if (row.prompt) title += fmt::format(", of {} tokens", format_count(*row.prompt));
    if (title != section) {
      text += '\n' + title + '\n' + heading(width);
      section = title;
    }
    text += cells(width, row.subject, row.figures);
  }
  text += notes(rows, repeats);
  for (const MixedSubject& subject : result.subjects) {
    if (subject.error.empty()) continue;
    const bool named = subject.error.starts_with(subject.name);
    text += fmt::format("\n{}{}{}\n", named ? "" : subject.name, named ? "" : ": ", subject.error);
  }
  for (const MixedRow& row : rows) {
    if (row.phase.empty() && row.figures.failed > 0) {
      text += fmt::format("\n{}: {} of {} requests failed\n", row.subject, row.figures.failed,
                          row.figures.requests);
    }
  }
  return text;
}

Json mixed_json(const MixedResult& result) {
  Json rows = Json::array();
  for (const MixedRow& row : rows_of(result)) rows.push_back(to_json(row));
  Json errors = Json::object();
  for (const MixedSubject& subject : result.subjects) {
    if (!subject.error.empty()) errors[subject.name] = subject.error;
  }
  size_t repeats = 0;
  for (const MixedSubject& subject : result.subjects)
    repeats = std::max(repeats, subject.repeats.size());
  return {{"schema", "weft.bench.mixed.v1"},
          {"machine", {{"cpu", result.cpu}, {"executor", result.executor}}},
          {"limits",
           {{"context", result.context},
            {"sequences", result.sequences},
            {"kv_positions", result.kv_positions},
            {"itl_target_ms", result.targets.itl * 1e3},
            {"ttft_target_ms", result.targets.ttft * 1e3}}},
          {"model", result.model},
          {"workload", result.workload},
          {"transport", result.transport},
          {"seed", result.seed},
          {"repeats", repeats},
          {"rows", std::move(rows)},
          {"errors", std::move(errors)}};
}

std::string format_seconds(std::optional<double> seconds) {
  if (!seconds) return "-";
  return fmt::format("{:.{}f} s", *seconds, *seconds < 10 ? 2 : 1);
}

std::string format_share(std::optional<double> share) {
  return share ? fmt::format("{:.1f} %", *share * 100) : "-";
}

}  // namespace weft
