#include "cli/commands.h"

#include <cstdio>
#include <exception>

namespace weft {
namespace {

Result<int> dispatch(const RunOptions& options) { return run_command(options); }
Result<int> dispatch(const ChatOptions& options) { return chat_command(options); }
Result<int> dispatch(const ServeOptions& options) { return serve_command(options); }
Result<int> dispatch(const ScoreOptions& options) { return score_command(options); }
Result<int> dispatch(const DummyOptions& options) { return dummy_command(options); }
Result<int> dispatch(const InspectOptions& options) { return inspect_command(options); }
Result<int> dispatch(const BenchModelOptions& options) { return bench_model_command(options); }
Result<int> dispatch(const BenchKernelsOptions& options) { return bench_kernels_command(options); }
Result<int> dispatch(const BenchMixedOptions& options) { return bench_mixed_command(options); }
Result<int> dispatch([[maybe_unused]] const SimulateOptions& options) {
#ifdef WEFT_CANN
  return Error{ErrorKind::kUnsupported, "this build is for the card: it has no simulation"};
#else
  return simulate_command(options);
#endif
}

int report(const std::string& message, int code) {
  fmt::print(stderr, "weft: {}\n", message);
  return code;
}

}  // namespace

int weft_main(std::vector<std::string> arguments) {
  const CommandLine line = parse_command_line(std::move(arguments));
  if (!line.command) {
    if (line.exit_code != kExitOk) return report(line.text, line.exit_code);
    fmt::print("{}", line.text);
    return kExitOk;
  }
  Result<int> result = kExitFailure;
  try {
    result = std::visit([](const auto& options) { return dispatch(options); }, *line.command);
  } catch (const std::exception& exception) {  // of a library: no memory, a closed output
    return report(exception.what(), kExitFailure);
  }
  if (!result.ok()) return report(result.error().message, exit_code(result.error().kind));
  if (std::fflush(stdout) != 0) return report("cannot write to standard output", kExitFailure);
  return *result;
}

}  // namespace weft
