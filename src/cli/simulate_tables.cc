#include "cli/simulate_tables.h"

#include <fmt/format.h>

#include "cli/simulate_check.h"
#include "cli/text_table.h"
#include "time/kernel_bars.h"

namespace weft {
namespace {

using timing::ChipModel;

struct Variant {
  const char* name;
  std::vector<std::string> changes;
};
const Variant kVariants[] = {
    {"as it is", {}},
    {"bandwidth of HBM -20 %", {"hbm_bandwidth*0.8"}},
    {"bandwidth of HBM +20 %", {"hbm_bandwidth*1.2"}},
    {"latency of flags -20 %", {"flag_latency*0.8", "scalar_miss*0.8", "cross_latency*0.8"}},
    {"latency of flags +20 %", {"flag_latency*1.2", "scalar_miss*1.2", "cross_latency*1.2"}},
    {"efficiency of the cube -20 %", {"cube_efficiency*0.8"}},
    {"efficiency of the cube +20 %", {"cube_efficiency*1.2"}},
};

struct Load {
  const char* name;
  Mode mode;
  int in_flight;
};
constexpr Load kLoads[] = {{"one at a time", Mode::kSerial, 1},
                           {"fused, 8", Mode::kFused, 8},
                           {"split, 8", Mode::kSplit, 8}};

// Under the name of what it is about.
std::string titled(const std::string& title, const TextTable& table, bool markdown) {
  return fmt::format("\n{}\n{}", title, markdown ? '\n' + table.markdown() : table.text());
}

}  // namespace

std::string constants_text(const ChipModel& chip, bool markdown) {
  TextTable table({"constant", "value", "unit", "source"}, 4);
  for (const timing::Constant& constant : timing::constants()) {
    table.add({std::string(constant.name), fmt::format("{:.6g}", chip.*constant.value),
               std::string(constant.unit), std::string(source_of(chip, constant))});
  }
  return titled(chip.name, table, markdown);
}

std::string check_text(const ChipModel& chip, const timing::ModelShape& shape, bool markdown) {
  return titled(fmt::format("{}, {}", chip.name, shape.name), check_table(chip, shape), markdown);
}

std::string kernels_text(const ChipModel& chip, bool markdown) {
  TextTable table({"", "us", "bound us", "x bound", "reported us", "x reported", "cube %", "mte1 %",
                   "mte2 %", "fixpipe %", "vector %"});
  const auto share = [](double share) {
    return share > 0 ? fmt::format("{:.0f}", 100 * share) : std::string();
  };
  for (const timing::KernelBar& bar : timing::kernel_bars(chip)) {
    const bool reported = bar.reported > 0;
    table.add({bar.name, fmt::format("{:.1f}", bar.seconds * 1e6),
               bar.bound > 0 ? fmt::format("{:.1f}", bar.bound * 1e6) : "",
               bar.bound > 0 ? fmt::format("{:.2f}", bar.seconds / bar.bound) : "",
               reported ? fmt::format("{:.1f}", bar.reported * 1e6) : "",
               reported ? fmt::format("{:.2f}", bar.seconds / bar.reported) : "", share(bar.cube),
               share(bar.mte1), share(bar.mte2), share(bar.fixpipe), share(bar.vector)});
  }
  return titled(chip.name + ": single kernels", table, markdown);
}

Result<std::string> sensitivity_text(const ChipModel& chip, const timing::ModelShape& shape,
                                     const SimulateOptions& options, SimulateProgress& progress) {
  std::vector<std::string> header = {"tokens a second / ms to the first token"};
  for (const Load& load : kLoads) header.emplace_back(load.name);
  TextTable table(std::move(header));
  std::vector<std::string> notes;
  for (const Variant& variant : kVariants) {
    ChipModel changed = chip;
    for (const std::string& name : variant.changes) WEFT_RETURN_IF_ERROR(change(changed, name));
    Simulation simulation(changed, shape);
    std::vector<std::string> cells = {variant.name};
    for (const Load& load : kLoads) {
      const SimulateRow row =
          play(simulation, options, load.in_flight, settings_of(options, load.mode), progress);
      const MixedFigures& figures = row.result.figures;
      cells.push_back(row.note.empty() ? fmt::format("{:.1f} / {:.0f}", figures.output_rate,
                                                     1e3 * figures.ttft_mean.value_or(0))
                                       : "-");
      if (!row.note.empty()) notes.push_back(row.note);
    }
    table.add(std::move(cells));
  }
  return titled(fmt::format("{}, {}", chip.name, shape.name), table, options.markdown) +
         notes_text(notes);
}

uint64_t sensitivity_work(const SimulateOptions& options) {
  uint64_t work = 0;
  for (const Load& load : kLoads) {
    const MixedPhase phase = closed_loop(options, load.in_flight);
    work += work_of(std::span(&phase, 1));
  }
  return work * std::size(kVariants);
}

}  // namespace weft
