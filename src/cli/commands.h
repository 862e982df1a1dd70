#pragma once
// The commands of `weft`. Each prints its result to standard output and everything else to standard
// error, and returns the process's exit code; an error becomes one line.

#include <string>
#include <vector>

#include "cli/command_line.h"

namespace weft {

Result<int> run_command(const RunOptions& options);
Result<int> chat_command(const ChatOptions& options);
Result<int> serve_command(const ServeOptions& options);
Result<int> score_command(const ScoreOptions& options);
Result<int> dummy_command(const DummyOptions& options);
Result<int> inspect_command(const InspectOptions& options);
Result<int> bench_model_command(const BenchModelOptions& options);
Result<int> bench_kernels_command(const BenchKernelsOptions& options);
Result<int> bench_mixed_command(const BenchMixedOptions& options);
Result<int> simulate_command(const SimulateOptions& options);

// The whole program: parses, runs the command, prints an error.
int weft_main(std::vector<std::string> arguments);

}  // namespace weft
