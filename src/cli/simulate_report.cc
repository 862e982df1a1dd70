#include "cli/simulate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "cli/text_table.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

std::string change(double now, double before) {
  if (!(before > 0)) return "-";
  return fmt::format("{:+.0f} %", 100 * (now / before - 1));
}

bool same(const SimulationResult& a, const SimulationResult& b) {
  return a.chip == b.chip && a.model == b.model;
}

// Of the same chip and model, in mode serial, with so many in flight.
const SimulationResult* serial_of(std::span<const SimulateRow> rows, const SimulationResult& of,
                                  int in_flight) {
  for (const SimulateRow& row : rows) {
    const SimulationResult& result = row.result;
    if (row.note.empty() && same(result, of) && result.in_flight == in_flight &&
        result.settings.mode == Mode::kSerial)
      return &result;
  }
  return nullptr;
}

double ttft(const SimulationResult& result) { return result.figures.ttft_mean.value_or(0); }

template <class T>
void add_new(std::vector<T>& list, const T& value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

std::string cell(const SimulateRow& row) {
  if (!row.note.empty()) return "-";
  return fmt::format("{:.0f} / {:.2f} / {:.0f}", row.result.figures.output_rate, ttft(row.result),
                     100 * row.result.figures.engine->busy);
}

std::string row_text(std::span<const SimulateRow> rows, const SimulationResult& r) {
  const MixedFigures& f = r.figures;
  const SimulationResult* alone = serial_of(rows, r, 1);
  const SimulationResult* serial = serial_of(rows, r, r.in_flight);
  return fmt::format(
      "{:>3}  {:<13} {:>8.0f} {:>8.1f} {:>8} {:>8} {:>8} {:>8.1f} {:>8.0f} {:>6.1f} {:>7.1f} "
      "{:>5.1f} {:>5.0f} {:>5.0f} {:>5.0f} {:>5.0f} {:>5.0f}\n",
      r.in_flight, setup_text(r.settings, r.cores), 1e3 * ttft(r), f.output_rate,
      alone ? change(f.output_rate, alone->figures.output_rate) : "-",
      serial ? change(f.output_rate, serial->figures.output_rate) : "-",
      serial ? change(ttft(r), ttft(*serial)) : "-", 1e3 * f.tpot_p50.value_or(0), 1e3 * f.all.max,
      100 * f.engine->busy, 100 * f.engine->barrier, 100 * f.engine->idle, 100 * r.hbm(),
      100 * r.compute(), 100 * r.pipe(PIPE_M), 100 * r.pipe(PIPE_V), 100 * r.pipe(PIPE_MTE2));
}

}  // namespace

std::string setup_text(const SimulationSettings& settings, int cores) {
  std::string text(mode_name(settings.mode));
  if (settings.decode_cores > 0)
    text += fmt::format(" {}+{}", cores - settings.decode_cores, settings.decode_cores);
  return text;
}

std::string notes_text(std::span<const std::string> notes) {
  std::vector<std::string> different;
  for (const std::string& note : notes) add_new(different, note);
  std::string text;
  for (const std::string& note : different) text += fmt::format("\n-: {}\n", note);
  return text;
}

std::string simulate_line(std::span<const SimulateRow> rows) {
  const SimulateRow& row = rows.back();
  const SimulationResult& r = row.result;
  std::string text;
  if (rows.size() == 1 || !same(rows[rows.size() - 2].result, r)) {
    text = fmt::format(
        "\n{}, {}\n"
        "                         TTFT           tok/s vs   tok/s     TTFT    token  largest   "
        "of cores x time, %     of limits, %   pipes busy, %\n"
        " in  mode                  ms    tok/s  1 alone vs serial vs serial  gap ms   gap ms   "
        "busy barrier  idle   hbm  flop  cube   vec  mte2\n",
        r.chip, r.model);
  }
  if (row.note.empty()) return text + row_text(rows, r);
  return text +
         fmt::format("{:>3}  {:<13} {}\n", r.in_flight, setup_text(r.settings, r.cores), row.note);
}

std::string simulate_markdown(std::span<const SimulateRow> rows) {
  std::string text;
  std::vector<std::string> models;
  std::vector<Mode> modes;
  for (const SimulateRow& row : rows) {
    add_new(models, row.result.model);
    add_new(modes, row.result.settings.mode);
  }
  for (const std::string& model : models) {
    std::vector<std::string> header = {"chip", "at once"};
    for (const Mode mode : modes) header.emplace_back(mode_name(mode));
    TextTable table(std::move(header));
    std::string chip;
    std::vector<std::string> notes;
    for (size_t i = 0; i + modes.size() <= rows.size(); i += modes.size()) {
      const SimulationResult& first = rows[i].result;
      if (first.model != model) continue;
      std::vector<std::string> cells = {first.chip == chip ? "" : first.chip,
                                        std::to_string(first.in_flight)};
      chip = first.chip;
      for (const SimulateRow& row : rows.subspan(i, modes.size())) {
        cells.push_back(cell(row));
        if (!row.note.empty()) notes.push_back(row.note);
      }
      table.add(std::move(cells));
    }
    text += fmt::format("\n{}\n\n{}{}", model, table.markdown(), notes_text(notes));
  }
  return text;
}

Json simulate_json(std::span<const SimulateRow> rows) {
  Json list = Json::array();
  for (const SimulateRow& row : rows) {
    const SimulationResult& r = row.result;
    Json entry = {{"chip", r.chip},
                  {"model", r.model},
                  {"mode", mode_name(r.settings.mode)},
                  {"in_flight", r.in_flight},
                  {"decode_cores", r.settings.decode_cores},
                  {"itl_target_ms", r.settings.itl_target},
                  {"pass_rows", r.settings.pass_rows}};
    if (!row.note.empty()) {
      entry["error"] = row.note;
      list.push_back(std::move(entry));
      continue;
    }
    const MixedFigures& f = r.figures;
    Json pipes;
    for (int i = 0; i < twin::kPipes; ++i)
      pipes[twin::pipe_name(static_cast<pipe_t>(i))] = r.pipe(static_cast<pipe_t>(i));
    entry["ttft_seconds"] = {
        {"mean", ttft(r)}, {"p50", f.ttft_p50.value_or(0)}, {"p99", f.ttft_p99.value_or(0)}};
    entry["output_tokens_per_second"] = f.output_rate;
    entry["tpot_seconds"] = {{"p50", f.tpot_p50.value_or(0)}, {"p99", f.tpot_p99.value_or(0)}};
    entry["largest_gap_seconds"] = f.all.max;
    entry["cores"] = {{"busy", f.engine->busy},
                      {"barrier", f.engine->barrier},
                      {"idle", f.engine->idle},
                      {"roofline", f.engine->roofline.value_or(0)}};
    entry["stall_seconds"] = f.engine->stall_seconds;
    entry["quanta"] = f.engine->quanta;
    entry["preemptions"] = f.engine->preemptions;
    entry["pipes_busy"] = std::move(pipes);
    entry["wall_seconds"] = r.wall;
    entry["hbm"] = {{"bytes", r.operators.hbm_bytes}, {"share", r.hbm()}};
    entry["flops"] = {
        {"needed", r.flops}, {"run", 2 * r.operators.multiply_adds}, {"share", r.compute()}};
    list.push_back(std::move(entry));
  }
  return {{"schema", "weft.simulate.v1"}, {"rows", std::move(list)}};
}

Status write_operator_trace(const std::filesystem::path& path, const SimulationResult& result) {
  std::ofstream file(path, std::ios::binary);
  file << "[\n";
  const char* separator = "";
  const TimePoint begin = result.steps.empty() ? TimePoint{} : result.steps.front().begin;
  for (const timing::StepSpan& step : result.steps) {
    if (step.begin - begin > std::chrono::seconds(1)) break;
    file
        << separator
        << fmt::format(
               R"({{"name":"{}","ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"layer":{}}}}})",
               step.name, static_cast<int>(step.group), seconds(step.begin - begin) * 1e6,
               seconds(step.end - step.begin) * 1e6, step.layer);
    separator = ",\n";
  }
  file << "\n]\n";
  if (!file.flush()) return Error{ErrorKind::kIo, fmt::format("cannot write {}", path.string())};
  return {};
}

}  // namespace weft
