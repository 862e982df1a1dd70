#include "cli/simulate_search.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/text_table.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kTargets[] = {50, 100, 200, 500, 2000};  // milliseconds
constexpr int kPasses[] = {1024, 4096};

double rate(const SimulateRow& row) { return row.result.figures.output_rate; }
double ttft(const SimulateRow& row) { return row.result.figures.ttft_mean.value_or(0); }
double busy(const SimulateRow& row) { return row.result.figures.engine->busy; }

// The best of those that `counts`, the first of equals.
template <class Better, class Counts>
const SimulateRow* best(const std::vector<SimulateRow>& rows, Better better, Counts counts) {
  const SimulateRow* best = nullptr;
  for (const SimulateRow& row : rows) {
    if (!row.note.empty() || !counts(row)) continue;
    if (best == nullptr || better(row, *best)) best = &row;
  }
  return best;
}
bool more_tokens(const SimulateRow& a, const SimulateRow& b) { return rate(a) > rate(b); }
bool all(const SimulateRow& /*row*/) { return true; }

std::string change(double now, double before) {
  return before > 0 ? fmt::format("{:+.0f} %", 100 * (now / before - 1)) : "-";
}

struct Pick {
  std::string name;
  const SimulateRow* row;
};
std::vector<Pick> picks_of(const SimulateSearch& search) {
  return {{"serial", &search.serial},
          {"most tokens", search.most_tokens()},
          {"soonest first token", search.soonest_first_token()},
          {fmt::format("most tokens, first {:.0f} % sooner", 100 * kSooner),
           search.most_tokens_sooner()},
          {"busiest", search.busiest()}};
}

// "split 16+16: 267 (+7 %), 0.72 s (-18 %), 90 %"
std::string cell(const SimulateSearch& search, const SimulateRow* row) {
  if (row == nullptr) return "none";
  const std::string busy_text = fmt::format("{:.0f} %", 100 * busy(*row));
  if (row == &search.serial)
    return fmt::format("{:.0f}, {:.2f} s, {}", rate(*row), ttft(*row), busy_text);
  const SimulationSettings& settings = row->result.settings;
  return fmt::format("{}, {:.0f} ms: {:.0f} ({}), {:.2f} s ({}), {}",
                     setup_text(settings, row->result.cores), settings.itl_target, rate(*row),
                     change(rate(*row), rate(search.serial)), ttft(*row),
                     change(ttft(*row), ttft(search.serial)), busy_text);
}

}  // namespace

const SimulateRow* SimulateSearch::most_tokens() const { return best(tried, more_tokens, all); }

const SimulateRow* SimulateSearch::soonest_first_token() const {
  return best(
      tried, [](const SimulateRow& a, const SimulateRow& b) { return ttft(a) < ttft(b); }, all);
}

const SimulateRow* SimulateSearch::most_tokens_sooner() const {
  return best(tried, more_tokens,
              [this](const SimulateRow& row) { return ttft(row) <= (1 - kSooner) * ttft(serial); });
}

const SimulateRow* SimulateSearch::busiest() const {
  return best(
      tried, [](const SimulateRow& a, const SimulateRow& b) { return busy(a) > busy(b); }, all);
}

std::vector<SimulationSettings> search_grid(const SimulateOptions& options, int cores) {
  std::vector<SimulationSettings> grid;
  const int step = std::max(1, cores / 8);
  for (const Mode mode : options.searched) {
    for (const double target : kTargets) {
      SimulationSettings settings = settings_of(options, mode);
      settings.itl_target = target;
      if (has_groups(mode) && cores > 1) {
        for (int decode = step; decode < cores && decode <= 3 * cores / 4; decode += step) {
          settings.decode_cores = decode;
          grid.push_back(settings);
        }
      } else {
        for (const int pass : kPasses) {
          settings.pass_rows = pass;
          grid.push_back(settings);
        }
      }
    }
  }
  return grid;
}

SimulateSearch search(Simulation& simulation, const SimulateOptions& options, int in_flight,
                      SimulateProgress& progress) {
  SimulateSearch search;
  const SimulationSettings serial = settings_of(options, Mode::kSerial);
  search.alone = play(simulation, options, 1, serial, progress);
  search.serial = play(simulation, options, in_flight, serial, progress);
  search.note = search.serial.note;
  if (!search.note.empty()) return search;
  for (const SimulationSettings& settings :
       search_grid(options, static_cast<int>(simulation.chip().cores)))
    search.tried.push_back(play(simulation, options, in_flight, settings, progress));
  return search;
}

std::string search_text(const SimulateSearch& search) {
  const SimulationResult& serial = search.serial.result;
  std::string text =
      fmt::format("\n{}, {}, {} in flight\n", serial.chip, serial.model, serial.in_flight);
  if (!search.note.empty()) return text + search.note + '\n';
  TextTable table({"", "mode", "gap target ms", "pass rows", "tok/s", "vs 1 alone", "vs serial",
                   "TTFT ms", "vs serial", "busy %"},
                  2);
  for (const Pick& pick : picks_of(search)) {
    if (pick.row == nullptr) {
      table.add({pick.name, "none", "", "", "", "", "", "", "", ""});
      continue;
    }
    const SimulateRow& row = *pick.row;
    const SimulationSettings& settings = row.result.settings;
    const bool is_serial = &row == &search.serial;
    table.add({pick.name, setup_text(settings, row.result.cores),
               is_serial ? "" : fmt::format("{:.0f}", settings.itl_target),
               std::to_string(settings.pass_rows), fmt::format("{:.1f}", rate(row)),
               change(rate(row), search.alone.note.empty() ? rate(search.alone) : 0),
               is_serial ? "" : change(rate(row), rate(search.serial)),
               fmt::format("{:.0f}", 1e3 * ttft(row)),
               is_serial ? "" : change(ttft(row), ttft(search.serial)),
               fmt::format("{:.1f}", 100 * busy(row))});
  }
  return text + table.text();
}

std::string search_markdown(std::span<const SimulateSearch> searches) {
  std::vector<std::string> header = {"chip", "model", "in flight"};
  for (const Pick& pick : picks_of({})) header.push_back(pick.name);
  TextTable table(std::move(header));
  for (const SimulateSearch& search : searches) {
    const SimulationResult& serial = search.serial.result;
    std::vector<std::string> cells = {serial.chip, serial.model, std::to_string(serial.in_flight)};
    for (const Pick& pick : picks_of(search))
      cells.push_back(search.note.empty() ? cell(search, pick.row) : "does not fit");
    table.add(std::move(cells));
  }
  return table.markdown();
}

Json search_json(std::span<const SimulateSearch> searches) {
  const auto one = [](const SimulateRow& row) {
    return simulate_json(std::span(&row, 1)).at("rows").at(0);
  };
  const auto best = [&](const SimulateRow* row) { return row == nullptr ? Json() : one(*row); };
  Json list = Json::array();
  for (const SimulateSearch& search : searches) {
    list.push_back({{"chip", search.serial.result.chip},
                    {"model", search.serial.result.model},
                    {"in_flight", search.serial.result.in_flight},
                    {"alone", one(search.alone)},
                    {"serial", one(search.serial)},
                    {"most_tokens", best(search.most_tokens())},
                    {"soonest_first_token", best(search.soonest_first_token())},
                    {"most_tokens_sooner", best(search.most_tokens_sooner())},
                    {"busiest", best(search.busiest())},
                    {"tried", simulate_json(search.tried).at("rows")}});
  }
  return {{"schema", "weft.simulate.search.v1"}, {"searches", std::move(list)}};
}

}  // namespace weft
