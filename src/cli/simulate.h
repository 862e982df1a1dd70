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

struct SimulateOptions {
  std::vector<std::string> devices = {"910b2"};   // names of presets
  std::vector<std::string> models = {"qwen-7b"};  // names of shapes, GGUF files or config.json
  std::vector<std::string> changes;               // "hbm_bandwidth=1.6e12"
  std::vector<Mode> modes;                        // empty: all
  int context = 4096;                             // tokens of each prompt
  int output = 256;
  std::vector<int> in_flight = {1, 2, 4, 8, 16};
  int rounds = 3;  // requests of a run, for each in flight
  int decode_cores = 0;
  double itl_target = 0;
  int pass_rows = 4096;
  int chunk_rows = 512;
  bool launch_layers = false;
  bool search = false;         // the best split and target for each number in flight
  bool sensitivity = false;    // the constants that matter most, 20 % up and down
  bool kernels = false;        // single kernels against the chip's limits
  bool constants = false;      // what each constant is and where it comes from
  std::filesystem::path json;  // "-": standard output, in place of the table
  std::filesystem::path svg;
  std::filesystem::path trace;           // of the last run: quanta
  std::filesystem::path operator_trace;  // of the last run's first second: operators
};

void add_simulate(CLI::App& app, SimulateOptions& options);

}  // namespace weft
