#include "cli/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>

#include "base/log.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/simulate_report.h"
#include "cli/simulated_shape.h"
#include "time/kernel_bars.h"

namespace weft {
namespace {

using timing::ChipModel;
using timing::ModelShape;

constexpr double kSooner = 0.1;  // what first tokens have to gain in a search

Result<std::vector<ChipModel>> find_chips(const SimulateOptions& options) {
  std::vector<std::string> names = options.devices;
  if (names == std::vector<std::string>{"all"})
    names.assign(std::begin(timing::kPresets), std::end(timing::kPresets));
  std::vector<ChipModel> chips;
  for (const std::string& name : names) {
    WEFT_ASSIGN(ChipModel chip, timing::find_chip_model(name));
    for (const std::string& text : options.changes) WEFT_RETURN_IF_ERROR(change(chip, text));
    if (options.decode_cores >= chip.cores) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("--decode-cores {}: {} has {} cores, and prompts need at least one",
                               options.decode_cores, name, chip.cores)};
    }
    chips.push_back(chip);
  }
  return chips;
}

MixedPhase closed_loop(const SimulateOptions& options, int in_flight) {
  MixedPhase phase;
  phase.name = "closed";
  phase.in_flight = in_flight;
  const int requests = std::max(2, options.rounds * in_flight);
  phase.requests.assign(static_cast<size_t>(requests), {{}, options.context, options.output});
  return phase;
}

SimulationSettings settings_of(const SimulateOptions& options, Mode mode) {
  SimulationSettings settings;
  settings.mode = mode;
  settings.decode_cores = options.decode_cores;
  settings.itl_target = options.itl_target;
  settings.pass_rows = options.pass_rows;
  settings.chunk_rows = options.chunk_rows;
  settings.launches = options.launch_layers ? timing::Launches::kLayer : timing::Launches::kEpoch;
  return settings;
}

SimulateRow play(Simulation& simulation, const SimulateOptions& options, int in_flight,
                 const SimulationSettings& settings,
                 const std::function<void(uint64_t)>& on_work = {}, bool last = false) {
  SimulateRow row;
  row.result.chip = simulation.chip().name;
  row.result.model = simulation.shape().name;
  row.result.in_flight = in_flight;
  row.result.settings = settings;
  Result<SimulationResult> result = simulation.run(closed_loop(options, in_flight), settings,
                                                   on_work, last && !options.operator_trace.empty(),
                                                   last ? options.trace : std::filesystem::path());
  if (result.ok()) {
    row.result = std::move(result).value();
  } else {
    row.note = result.error().message;
  }
  return row;
}

// For each number in flight: the most tokens a second of all, the soonest first tokens, and the
// most tokens among those whose first tokens come kSooner sooner than in mode serial.
std::string search_text(Simulation& simulation, const SimulateOptions& options) {
  std::string text = fmt::format("\n{}, {}: search over modes, splits, gap targets and passes\n",
                                 simulation.chip().name, simulation.shape().name);
  const auto cores = static_cast<int>(simulation.chip().cores);
  for (const int in_flight : options.in_flight) {
    const SimulateRow serial =
        play(simulation, options, in_flight, settings_of(options, Mode::kSerial));
    if (!serial.note.empty()) return text + serial.note + '\n';
    std::vector<SimulateRow> rows;
    for (const double target : {50.0, 100.0, 200.0, 500.0, 2000.0}) {
      for (const int pass : {1024, 4096}) {
        SimulationSettings settings = settings_of(options, Mode::kFused);
        settings.itl_target = target;
        settings.pass_rows = pass;
        rows.push_back(play(simulation, options, in_flight, settings));
      }
      for (int decode = cores / 8; decode <= 3 * cores / 4; decode += std::max(1, cores / 8)) {
        SimulationSettings settings = settings_of(options, Mode::kSplit);
        settings.itl_target = target;
        settings.decode_cores = std::max(1, decode);
        rows.push_back(play(simulation, options, in_flight, settings));
      }
    }
    const auto rate = [](const SimulateRow& row) { return row.result.figures.output_rate; };
    const auto ttft = [](const SimulateRow& row) {
      return row.result.figures.ttft_mean.value_or(0);
    };
    const auto show = [&](const std::string& name, const SimulateRow* row) {
      if (row == nullptr) {
        text += fmt::format("{:>3} in flight, {}: none\n", in_flight, name);
        return;
      }
      const SimulationSettings& s = row->result.settings;
      text += fmt::format(
          "{:>3} in flight, {}: {}{} target {:.0f} ms, passes of {}: {:.1f} tok/s ({:+.0f} % of "
          "serial), TTFT {:.0f} ms ({:+.0f} %), busy {:.1f} %\n",
          in_flight, name, mode_name(s.mode),
          s.decode_cores > 0 ? fmt::format(" {}+{}", cores - s.decode_cores, s.decode_cores) : "",
          s.itl_target, s.pass_rows, rate(*row), 100 * (rate(*row) / rate(serial) - 1),
          1e3 * ttft(*row), 100 * (ttft(*row) / ttft(serial) - 1),
          100 * row->result.figures.engine->busy);
    };
    const SimulateRow* most = nullptr;
    const SimulateRow* soonest = nullptr;
    const SimulateRow* both = nullptr;
    for (const SimulateRow& row : rows) {
      if (!row.note.empty()) continue;
      if (most == nullptr || rate(row) > rate(*most)) most = &row;
      if (soonest == nullptr || ttft(row) < ttft(*soonest)) soonest = &row;
      if (ttft(row) <= (1 - kSooner) * ttft(serial) && (both == nullptr || rate(row) > rate(*both)))
        both = &row;
    }
    text += fmt::format("{:>3} in flight, serial: {:.1f} tok/s, TTFT {:.0f} ms, busy {:.1f} %\n",
                        in_flight, rate(serial), 1e3 * ttft(serial),
                        100 * serial.result.figures.engine->busy);
    show("most tokens", most);
    show("soonest first token", soonest);
    show(fmt::format("most tokens with first tokens {:.0f} % sooner", 100 * kSooner), both);
  }
  return text;
}

Result<std::string> sensitivity_text(const ChipModel& chip, const ModelShape& shape,
                                     const SimulateOptions& options) {
  struct Variant {
    const char* name;
    std::vector<std::string> changes;
  };
  const Variant variants[] = {
      {"as it is", {}},
      {"bandwidth of HBM -20 %", {"hbm_bandwidth*0.8"}},
      {"bandwidth of HBM +20 %", {"hbm_bandwidth*1.2"}},
      {"latency of flags -20 %", {"flag_latency*0.8", "scalar_miss*0.8", "cross_latency*0.8"}},
      {"latency of flags +20 %", {"flag_latency*1.2", "scalar_miss*1.2", "cross_latency*1.2"}},
      {"efficiency of the cube -20 %", {"cube_efficiency*0.8"}},
      {"efficiency of the cube +20 %", {"cube_efficiency*1.2"}},
  };
  std::string text =
      fmt::format("\n{}, {}\n{:<30} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", chip.name,
                  shape.name, "", "1 alone", "TTFT ms", "fused 8", "TTFT ms", "split 8", "TTFT ms");
  for (const Variant& variant : variants) {
    ChipModel changed = chip;
    for (const std::string& name : variant.changes) WEFT_RETURN_IF_ERROR(change(changed, name));
    Simulation simulation(changed, shape);
    text += fmt::format("{:<30}", variant.name);
    for (const auto& [mode, in_flight] :
         {std::pair(Mode::kSerial, 1), std::pair(Mode::kFused, 8), std::pair(Mode::kSplit, 8)}) {
      const SimulateRow row = play(simulation, options, in_flight, settings_of(options, mode));
      if (!row.note.empty()) {
        text += fmt::format(" {:>10} {:>10}", "-", "-");
        continue;
      }
      text += fmt::format(" {:>10.1f} {:>10.0f}", row.result.figures.output_rate,
                          1e3 * row.result.figures.ttft_mean.value_or(0));
    }
    text += '\n';
  }
  return text;
}

std::string kernels_text(const ChipModel& chip) {
  std::string text = fmt::format("\n{}: single kernels\n{:<40} {:>10} {:>10} {:>8} {:>10} {:>8}\n",
                                 chip.name, "", "us", "bound us", "x bound", "reported", "x that");
  for (const timing::KernelBar& bar : timing::kernel_bars(chip)) {
    text += fmt::format("{:<40} {:>10.1f} {:>10.1f} {:>8.2f}", bar.name, bar.seconds * 1e6,
                        bar.bound * 1e6, bar.seconds / bar.bound);
    if (bar.reported > 0)
      text += fmt::format(" {:>10.1f} {:>8.2f}", bar.reported * 1e6, bar.seconds / bar.reported);
    text += '\n';
  }
  return text;
}

std::string constants_text(const ChipModel& chip) {
  std::string text = fmt::format("\n{}\n", chip.name);
  for (const timing::Constant& constant : timing::constants()) {
    text += fmt::format("{:<18} {:>12.6g} {:<12} {}\n", constant.name, chip.*constant.value,
                        constant.unit, source_of(chip, constant));
  }
  return text;
}

Status write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  if (!(file << text) || !file.flush())
    return Error{ErrorKind::kIo, fmt::format("cannot write {}", path.string())};
  return {};
}

// Everything but the table.
Result<std::string> other_text(const std::vector<ChipModel>& chips,
                               const std::vector<ModelShape>& shapes,
                               const SimulateOptions& options) {
  std::string text;
  for (const ChipModel& chip : chips) {
    if (options.constants) text += constants_text(chip);
    if (options.kernels) text += kernels_text(chip);
    for (const ModelShape& shape : shapes) {
      if (options.search) {
        Simulation simulation(chip, shape);
        text += search_text(simulation, options);
      }
      if (!options.sensitivity) continue;
      WEFT_ASSIGN(const std::string part, sensitivity_text(chip, shape, options));
      text += part;
    }
  }
  return text;
}

std::vector<SimulateRow> run_all(const std::vector<ChipModel>& chips,
                                 const std::vector<ModelShape>& shapes,
                                 const SimulateOptions& options) {
  std::vector<Mode> modes = options.modes;
  if (modes.empty()) {
    for (const std::string_view name : kModeNames) modes.push_back(*find_mode(name));
  }
  uint64_t total = 0;
  for (const int in_flight : options.in_flight)
    total += work_of(std::vector{closed_loop(options, in_flight)});
  total *= chips.size() * shapes.size() * modes.size();
  ProgressBar bar("simulating", total, ProgressUnit::kItems);
  uint64_t done = 0;
  const auto on_work = [&](uint64_t tokens) { bar.update(done += tokens); };
  std::vector<SimulateRow> rows;
  for (const ChipModel& chip : chips) {
    for (const ModelShape& shape : shapes) {
      Simulation simulation(chip, shape);
      for (const int in_flight : options.in_flight) {
        for (const Mode mode : modes) {
          const bool last = &chip == &chips.back() && &shape == &shapes.back() &&
                            in_flight == options.in_flight.back() && mode == modes.back();
          rows.push_back(
              play(simulation, options, in_flight, settings_of(options, mode), on_work, last));
        }
      }
    }
  }
  bar.clear();
  return rows;
}

}  // namespace

Result<int> simulate_command(const SimulateOptions& options) {
  WEFT_RETURN_IF_ERROR(init_log("warn"));
  WEFT_ASSIGN(const std::vector<ChipModel> chips, find_chips(options));
  std::vector<ModelShape> shapes;
  for (const std::string& name : options.models) {
    WEFT_ASSIGN(shapes.emplace_back(), find_model_shape(name));
  }
  if (options.search || options.sensitivity || options.kernels || options.constants) {
    WEFT_ASSIGN(const std::string text, other_text(chips, shapes, options));
    std::cout << text;
    return kExitOk;
  }
  const std::vector<SimulateRow> rows = run_all(chips, shapes, options);
  if (!rows.back().note.empty() && !(options.trace.empty() && options.operator_trace.empty())) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("no trace of the last run: {}", rows.back().note)};
  }
  if (options.json == "-") {
    std::cout << simulate_json(rows).dump(2) << '\n';
  } else {
    std::cout << simulate_table(rows);
    if (!options.json.empty())
      WEFT_RETURN_IF_ERROR(write_text(options.json, simulate_json(rows).dump(2) + '\n'));
  }
  if (!options.svg.empty()) WEFT_RETURN_IF_ERROR(write_text(options.svg, simulate_svg(rows)));
  if (!options.operator_trace.empty())
    WEFT_RETURN_IF_ERROR(write_operator_trace(options.operator_trace, rows.back().result));
  return kExitOk;
}

}  // namespace weft
