#pragma once
// The flags of `weft bench model`, `bench kernels` and `bench mixed`.

#include <CLI/App.hpp>

#include "cli/command_line.h"

namespace weft {

void add_bench_model(CLI::App& bench, BenchModelOptions& options);
void add_bench_kernels(CLI::App& bench, BenchKernelsOptions& options);
void add_bench_mixed(CLI::App& bench, BenchMixedOptions& options);

}  // namespace weft
