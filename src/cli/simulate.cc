#include "cli/simulate.h"

#include <fmt/format.h>

#include <iostream>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/mixed_picture.h"
#include "cli/simulate_mixed.h"
#include "cli/simulate_report.h"
#include "cli/simulate_runs.h"
#include "cli/simulate_search.h"
#include "cli/simulate_tables.h"
#include "cli/simulate_timeline.h"
#include "cli/text_file.h"

namespace weft {
namespace {

using timing::ChipModel;
using timing::ModelShape;
using Json = nlohmann::ordered_json;

// Before all is simulated, not after.
Status check_outputs(const SimulateOptions& options) {
  if (options.json != "-") WEFT_RETURN_IF_ERROR(check_writable(options.json));
  for (const std::filesystem::path* path :
       {&options.svg, &options.timeline, &options.trace, &options.operator_trace})
    WEFT_RETURN_IF_ERROR(check_writable(*path));
  return {};
}

// As a file, where one is asked for; to standard output for "-".
Status write_json(const std::filesystem::path& path, const Json& json) {
  if (path.empty()) return {};
  const std::string text = json.dump(2) + '\n';
  if (path != "-") return write_text(path, text);
  std::cout << text;
  return {};
}

// Lines appear as they are known, but for those of Markdown's tables, and none where standard
// output has the JSON.
class Lines {
 public:
  explicit Lines(const SimulateOptions& options)
      : text_(options.json != "-" && !options.markdown),
        markdown_(options.json != "-" && options.markdown) {}
  void text(SimulateProgress& progress, const std::string& line) const {
    if (!text_) return;
    progress.clear();
    std::cout << line << std::flush;
  }
  bool markdown() const { return markdown_; }

 private:
  bool text_, markdown_;
};

uint64_t closed_work(const SimulateOptions& options, int in_flight) {
  const MixedPhase phase = closed_loop(options, in_flight);
  return work_of(std::span(&phase, 1));
}

Result<int> table_command(const SimulateSubjects& subjects, const SimulateOptions& options) {
  const std::vector<Mode> modes = modes_of(options);
  const std::vector<int> numbers = in_flight_of(options, {1, 2, 4, 8, 16});
  uint64_t work = 0;
  for (const int in_flight : numbers) work += closed_work(options, in_flight);
  SimulateProgress progress(work * modes.size() * subjects.size());
  const Lines lines(options);
  const size_t all = subjects.size() * numbers.size() * modes.size();
  std::vector<SimulateRow> rows;
  for (const ChipModel& chip : subjects.chips) {
    for (const ModelShape& shape : subjects.shapes) {
      Simulation simulation(chip, shape);
      for (const int in_flight : numbers) {
        for (const Mode mode : modes) {
          SimulationExtras extras;
          if (rows.size() + 1 == all) {
            extras.keep_steps = !options.operator_trace.empty();
            extras.trace = options.trace;
          }
          rows.push_back(play(simulation, options, in_flight, settings_of(options, mode), progress,
                              std::move(extras)));
          lines.text(progress, simulate_line(rows));
        }
      }
    }
  }
  progress.clear();
  if (lines.markdown()) std::cout << simulate_markdown(rows);
  WEFT_RETURN_IF_ERROR(write_json(options.json, simulate_json(rows)));
  if (!options.svg.empty()) WEFT_RETURN_IF_ERROR(write_text(options.svg, simulate_svg(rows)));
  WEFT_RETURN_IF_ERROR(progress.outcome());
  if (!rows.back().note.empty() && !(options.trace.empty() && options.operator_trace.empty())) {
    return Error{rows.back().kind, fmt::format("no trace of the last run: {}", rows.back().note)};
  }
  if (!options.operator_trace.empty())
    WEFT_RETURN_IF_ERROR(write_operator_trace(options.operator_trace, rows.back().result));
  return kExitOk;
}

Result<int> search_command(const SimulateSubjects& subjects, const SimulateOptions& options) {
  const std::vector<int> numbers = in_flight_of(options, {8});
  uint64_t work = 0;
  for (const ChipModel& chip : subjects.chips) {
    const size_t tried = search_grid(options, static_cast<int>(chip.cores)).size();
    for (const int in_flight : numbers)
      work += closed_work(options, 1) + (1 + tried) * closed_work(options, in_flight);
  }
  SimulateProgress progress(work * subjects.shapes.size());
  const Lines lines(options);
  std::vector<SimulateSearch> searches;
  for (const ChipModel& chip : subjects.chips) {
    for (const ModelShape& shape : subjects.shapes) {
      Simulation simulation(chip, shape);
      for (const int in_flight : numbers) {
        searches.push_back(search(simulation, options, in_flight, progress));
        lines.text(progress, search_text(searches.back()));
      }
    }
  }
  progress.clear();
  if (lines.markdown()) std::cout << search_markdown(searches);
  WEFT_RETURN_IF_ERROR(write_json(options.json, search_json(searches)));
  WEFT_RETURN_IF_ERROR(progress.outcome());
  return kExitOk;
}

Result<int> sensitivity_command(const SimulateSubjects& subjects, const SimulateOptions& options) {
  SimulateProgress progress(sensitivity_work(options) * subjects.size());
  for (const ChipModel& chip : subjects.chips) {
    for (const ModelShape& shape : subjects.shapes) {
      WEFT_ASSIGN(const std::string text, sensitivity_text(chip, shape, options, progress));
      progress.clear();
      std::cout << text << std::flush;
    }
  }
  WEFT_RETURN_IF_ERROR(progress.outcome());
  return kExitOk;
}

// What is drawn or played for one chip and model alone.
Status need_one(const SimulateSubjects& subjects, const char* flag) {
  if (subjects.size() == 1) return {};
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("{} shows one chip and one model; --device and --model name {}", flag,
                           subjects.size())};
}

Result<int> workload_command(const SimulateSubjects& subjects, const SimulateOptions& options) {
  if (!options.svg.empty()) WEFT_RETURN_IF_ERROR(need_one(subjects, "--svg with --workload"));
  WEFT_ASSIGN(const std::vector<MixedPhase> phases, simulated_workload(options));
  SimulateProgress progress(work_of(phases) * workload_modes(options).size() * subjects.size());
  const Lines lines(options);
  Json reports = Json::array();
  bool failed = false;
  for (const ChipModel& chip : subjects.chips) {
    for (const ModelShape& shape : subjects.shapes) {
      Simulation simulation(chip, shape);
      const MixedResult result = play_workload(simulation, phases, options, progress);
      lines.text(progress, '\n' + mixed_table(result));
      reports.push_back(mixed_json(result));
      for (const MixedSubject& subject : result.subjects) failed = failed || !subject.error.empty();
      if (!options.svg.empty()) WEFT_RETURN_IF_ERROR(write_text(options.svg, mixed_svg(result)));
    }
  }
  progress.clear();
  WEFT_RETURN_IF_ERROR(
      write_json(options.json, {{"schema", "weft.simulate.mixed.v1"}, {"reports", reports}}));
  WEFT_RETURN_IF_ERROR(progress.outcome());
  return failed ? kExitFailure : kExitOk;
}

Result<int> timeline_command(const SimulateSubjects& subjects, const SimulateOptions& options) {
  WEFT_RETURN_IF_ERROR(need_one(subjects, "--timeline"));
  WEFT_RETURN_IF_ERROR(need_one_number(options, "--timeline"));
  const std::vector<Mode> modes = options.modes.empty()
                                      ? std::vector{Mode::kSerial, Mode::kFused, Mode::kSplit}
                                      : options.modes;
  const std::vector<int> streams = in_flight_of(options, {4});
  const MixedPhase phase = timeline_phase(streams.front(), options.context, options.output);
  SimulateProgress progress(work_of(std::span(&phase, 1)) * modes.size());
  Simulation simulation(subjects.chips.front(), subjects.shapes.front());
  std::vector<SimulateRow> rows;
  for (const Mode mode : modes) {
    SimulationExtras extras;
    extras.keep_steps = true;
    rows.push_back(play(simulation, std::span(&phase, 1), settings_of(options, mode), progress,
                        std::move(extras)));
    if (!rows.back().note.empty()) {
      return Error{rows.back().kind, fmt::format("mode {}: {}", mode_name(mode), rows.back().note)};
    }
  }
  WEFT_RETURN_IF_ERROR(write_text(options.timeline, simulate_timeline(rows)));
  return kExitOk;
}

}  // namespace

Result<int> simulate_command(const SimulateOptions& options) {
  WEFT_RETURN_IF_ERROR(init_log("warn"));
  WEFT_RETURN_IF_ERROR(check_outputs(options));
  WEFT_ASSIGN(const SimulateSubjects subjects, find_subjects(options));
  switch (options.print) {
    case SimulatePrint::kTable:
      return table_command(subjects, options);
    case SimulatePrint::kSearch:
      return search_command(subjects, options);
    case SimulatePrint::kSensitivity:
      return sensitivity_command(subjects, options);
    case SimulatePrint::kKernels:
      for (const ChipModel& chip : subjects.chips)
        std::cout << kernels_text(chip, options.markdown) << std::flush;
      return kExitOk;
    case SimulatePrint::kCheck:
      for (const ChipModel& chip : subjects.chips) {
        for (const ModelShape& shape : subjects.shapes)
          std::cout << check_text(chip, shape, options.markdown) << std::flush;
      }
      return kExitOk;
    case SimulatePrint::kConstants:
      for (const ChipModel& chip : subjects.chips)
        std::cout << constants_text(chip, options.markdown);
      return kExitOk;
    case SimulatePrint::kWorkload:
      return workload_command(subjects, options);
    case SimulatePrint::kTimeline:
      return timeline_command(subjects, options);
  }
  WEFT_CHECK(false, "print {}", static_cast<int>(options.print));
}

}  // namespace weft
