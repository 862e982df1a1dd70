#pragma once
// `weft simulate`: the engine and the Ascend kernels against the clock of a chip that is not there.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/mixed_workload.h"
#include "engine/mode.h"

namespace CLI {
class App;
}

namespace weft {

enum class SimulatePrint : uint8_t {
  kTable,        // each mode with so many requests in flight
  kSearch,       // the best mode, split and target for each number in flight
  kSensitivity,  // the constants that matter most, 20 % up and down
  kKernels,      // single kernels against the chip's limits
  kCheck,        // how well operators added up stand for whole quanta
  kConstants,    // what each constant is and where it comes from
  kWorkload,     // what `weft bench mixed` plays
  kTimeline,     // a picture of what runs when
};

struct SimulateOptions {
  SimulatePrint print = SimulatePrint::kTable;
  std::vector<std::string> devices = {"910b2"};   // names of presets
  std::vector<std::string> models = {"qwen-7b"};  // names of shapes, GGUF files or config.json
  bool int8 = false;                              // weights, in place of halves
  std::vector<std::string> changes;               // "hbm_bandwidth=1.6e12"
  std::vector<Mode> modes;                        // empty: all
  std::vector<Mode> searched = {Mode::kFused, Mode::kSplit};
  WorkloadOptions workload;
  int context = 4096;  // tokens of each prompt
  int output = 256;
  std::vector<int> in_flight;  // empty: by what is printed
  int rounds = 3;              // requests of a run, for each in flight
  int decode_cores = 0;
  double itl_target = 0;
  int pass_rows = 4096;
  int chunk_rows = 512;
  bool launch_layers = false;
  bool markdown = false;       // tables as Markdown
  std::filesystem::path json;  // "-": standard output, in place of the table
  std::filesystem::path svg;
  std::filesystem::path timeline;
  std::filesystem::path trace;           // of the last run: quanta
  std::filesystem::path operator_trace;  // of the last run's first second: operators
};

void add_simulate(CLI::App& app, SimulateOptions& options);

}  // namespace weft
