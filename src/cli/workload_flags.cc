#include "cli/workload_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

namespace weft {
namespace {

// Flags that not every workload takes, with those that do.
struct Taken {
  const char* name;
  std::vector<WorkloadKind> by;
};
const Taken kTaken[] = {
    {"--prompts", {WorkloadKind::kLong}},
    {"--then", {WorkloadKind::kLong}},
    {"--streams", {WorkloadKind::kLong, WorkloadKind::kShortAfterLong}},
    {"--outputs",
     {WorkloadKind::kLong, WorkloadKind::kShortAfterLong, WorkloadKind::kClosed,
      WorkloadKind::kPoisson, WorkloadKind::kBurst}},
    {"--requests",
     {WorkloadKind::kClosed, WorkloadKind::kPoisson, WorkloadKind::kBurst, WorkloadKind::kTrace}},
    {"--rate", {WorkloadKind::kPoisson, WorkloadKind::kBurst}},
    {"--in-flight", {WorkloadKind::kClosed, WorkloadKind::kBurst}},
    {"--trace-in", {WorkloadKind::kTrace}},
};

}  // namespace

void check_workload_flags(const CLI::App& app, WorkloadKind kind) {
  for (const Taken& flag : kTaken) {
    if (app.count(flag.name) == 0) continue;
    if (std::find(flag.by.begin(), flag.by.end(), kind) == flag.by.end()) {
      throw CLI::ValidationError(flag.name,
                                 fmt::format("has no meaning with --workload {}; leave it out",
                                             kWorkloadNames[static_cast<size_t>(kind)]));
    }
  }
}

void add_workload_flags(CLI::App& app, WorkloadOptions& options) {
  app.add_option_function<std::string>(
         "--workload",
         [&options](const std::string& name) {
           const auto kind = find_workload(name);
           if (!kind.ok()) throw CLI::ValidationError("--workload", kind.error().message);
           options.kind = *kind;
         },
         "long (default), closed, poisson, burst, short-after-long or trace")
      ->type_name("NAME");
  app.add_option("--prompts", options.prompts,
                 "long: prompts one after another (default: 1000,3000,7000; of large models "
                 "1000,2000)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  app.add_option_function<std::string>(
         "--then",
         [&options](const std::string& text) {
           auto group = parse_prompt_group(text);
           if (!group.ok()) throw CLI::ValidationError("--then", group.error().message);
           options.then = *group;
         },
         "long: prompts at once after these, or none (default: 8x1000; of large models 8x500)")
      ->type_name("COUNTxTOKENS");
  app.add_option("--streams", options.streams,
                 "long, short-after-long: chat streams that run all the while (default: 4)")
      ->check(CLI::Range(0, 1024));
  app.add_option("--outputs", options.outputs,
                 "All but trace: tokens that each prompt is answered with (default: 64, or 128 "
                 "where prompts "
                 "come by themselves)")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--requests", options.requests,
                 "closed, poisson, burst: how many in all (default: 64); trace: the first of them")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--rate", options.rate,
                 "poisson, burst: requests per second (default: 1; of large models 0.12)")
      ->check(CLI::Range(1e-6, 1e6));
  app.add_option("--in-flight", options.in_flight,
                 "closed: requests at once; burst: that come together")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--trace-in", options.trace,
                 "trace: lines of arrival seconds, prompt tokens, output tokens")
      ->type_name("FILE");
  app.add_option("--seed", options.seed, "The same seed plays the same requests")
      ->capture_default_str();
  app.add_flag("--quick", options.quick, "Fewer and shorter: a look, not a measurement");
}

}  // namespace weft
