#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/kernel_bench.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDecodeStreams[] = {1, 8};

std::vector<DummyShape> default_shapes() {
  std::vector<DummyShape> shapes;
  for (const DummyShape& shape : dummy_shapes()) {
    if (shape.name != "qwen-7b") shapes.push_back(shape);  // its matrices are like qwen2.5-7b's
  }
  return shapes;
}

bool wants(const BenchKernelsOptions& options, std::string_view kernel) {
  return std::find(options.kernels.begin(), options.kernels.end(), kernel) != options.kernels.end();
}

// What is measured, one after the other; how many measurements there are is known before.
class Program {
 public:
  Program(const BenchKernelsOptions& options, std::vector<DummyShape> shapes, KvType kv)
      : options_(options), shapes_(std::move(shapes)), kv_(kv) {}

  using Measurement = std::function<std::vector<KernelFigure>(KernelBench&)>;
  std::vector<Measurement> measurements() const {
    std::vector<Measurement> all;
    for (const DummyShape& shape : shapes_) {
      if (wants(options_, "matmul")) add_matrices(shape, all);
      if (wants(options_, "attention")) add_attention(shape, all);
      if (wants(options_, "sampling")) {
        all.emplace_back([shape](KernelBench& bench) {
          return std::vector<KernelFigure>{bench.sampling(shape)};
        });
      }
    }
    return all;
  }

 private:
  void add_matrices(const DummyShape& shape, std::vector<Measurement>& all) const {
    for (const DType type : options_.types) {
      for (const LayerMatrix& matrix : layer_matrices(shape)) {
        if (matrix.inputs % dtype_info(type).block_elems != 0) continue;  // no such file exists
        all.emplace_back([this, shape, matrix, type](KernelBench& bench) {
          return bench.matmul(std::string(shape.name), matrix, type, options_.rows);
        });
      }
    }
  }
  void add_attention(const DummyShape& shape, std::vector<Measurement>& all) const {
    for (const int context : options_.contexts) {
      all.emplace_back([this, shape, context](KernelBench& bench) {
        std::vector<KernelFigure> figures = {bench.prefill_attention(shape, kv_, context)};
        for (const int streams : kDecodeStreams) {
          figures.push_back(bench.decode_attention(shape, kv_, context, streams));
        }
        return figures;
      });
    }
  }

  const BenchKernelsOptions& options_;
  const std::vector<DummyShape> shapes_;
  const KvType kv_;
};

Json limits_json(const MachineLimits& limits) {
  return {{"read_bytes_per_second", limits.read_bytes},
          {"int8_ops_per_second", limits.int8_ops},
          {"bf16_ops_per_second", limits.bf16_ops},
          {"f32_ops_per_second", limits.f32_ops}};
}

Json figure_json(const KernelFigure& figure, const MachineLimits& limits) {
  Json row = {{"kernel", figure.kernel},
              {"type", figure.type},
              {"shape", figure.shape},
              {"rows", figure.rows},
              {"seconds", figure.seconds}};
  if (figure.operations == 0) return row;
  const Bound bound = bound_of(figure, limits);
  row["ops_per_second"] = figure.operations / figure.seconds;
  row["bytes_per_second"] = figure.bytes / figure.seconds;
  row["share"] = bound.seconds / figure.seconds;
  row["bound"] = bound.memory ? "memory" : "compute";
  return row;
}

void print_limits(const std::string& who, const Json& limits) {
  const auto giga = [&](const char* name) { return limits[name].get<double>() / 1e9; };
  const double bf16 = giga("bf16_ops_per_second");
  std::cout << fmt::format(
      "{:<12}{:>8.1f} GB/s read{:>10.0f} GOP/s int8{:>8.0f} GFLOP/s FP32   {}\n", who,
      giga("read_bytes_per_second"), giga("int8_ops_per_second"), giga("f32_ops_per_second"),
      bf16 > 0 ? fmt::format("{:.0f} GFLOP/s bf16", bf16) : "no bf16 dot products");
}

void print_figures(const Json& rows) {
  std::string heading;
  for (const Json& row : rows) {
    const std::string title =
        fmt::format("{} {}, {}", row["kernel"].get<std::string>(), row["type"].get<std::string>(),
                    row["shape"].get<std::string>());
    if (title != heading) {
      heading = title;
      std::cout << fmt::format("\n{}\n{:>8}{:>12}{:>10}{:>10}{:>8}  bound by\n", heading, "rows",
                               "time us", "GOP/s", "GB/s", "share");
    }
    std::cout << fmt::format("{:>8}{:>12.1f}", row["rows"].get<int>(),
                             row["seconds"].get<double>() * 1e6);
    if (row.contains("share")) {
      std::cout << fmt::format("{:>10.1f}{:>10.2f}{:>7.0f}%  {}",
                               row["ops_per_second"].get<double>() / 1e9,
                               row["bytes_per_second"].get<double>() / 1e9,
                               row["share"].get<double>() * 100, row["bound"].get<std::string>());
    }
    std::cout << '\n';
  }
}

void print_result(const Json& result) {
  const Json& machine = result["machine"];
  std::cout << fmt::format("{}, {}, kernels {}, {} threads, median of {} rounds\n\n", WEFT_VERSION,
                           machine["cpu"].get<std::string>(), machine["kernels"].get<std::string>(),
                           machine["threads"].get<int>(), result["rounds"].get<int>());
  print_limits("one thread", machine["limits_of_one_thread"]);
  print_limits("all threads", machine["limits"]);
  print_figures(result["rows"]);
}

}  // namespace

Result<int> bench_kernels_command(const BenchKernelsOptions& options) {
  WEFT_ASSIGN(const KernelTable* kernels, find_kernels(options.isa));
  WEFT_ASSIGN(const KvType kv_type, find_kv_type(options.kv_type, *kernels));
  const CpuTopology cpu = read_cpu_topology();
  const Program program(options, options.shapes.empty() ? default_shapes() : options.shapes,
                        kv_type);
  const std::vector<Program::Measurement> measurements = program.measurements();

  KernelBench::Options bench_options;
  bench_options.kernels = kernels;
  bench_options.threads = options.threads > 0 ? options.threads : cpu.default_threads();
  bench_options.rounds = options.rounds;
  bench_options.memory = options.memory;
  if (bench_options.memory > available_memory() / 2) {
    return Error{ErrorKind::kExhausted,
                 fmt::format("--memory {}: more than half of the {} bytes that are free",
                             options.memory, available_memory())};
  }
  ProgressBar bar("measuring", measurements.size(), ProgressUnit::kItems);
  uint64_t done = 0;
  WEFT_ASSIGN(const std::unique_ptr<KernelBench> bench,
              KernelBench::create(bench_options, [&] { bar.update(done); }));
  std::vector<KernelFigure> figures;
  for (const Program::Measurement& measure : measurements) {
    for (KernelFigure& figure : measure(*bench)) figures.push_back(std::move(figure));
    bar.update(++done);
  }
  bar.clear();

  Json rows = Json::array();
  for (const KernelFigure& figure : figures) rows.push_back(figure_json(figure, bench->limits()));
  const Json result = {{"schema", "weft.bench.kernels.v1"},
                       {"machine",
                        {{"cpu", cpu.model},
                         {"kernels", kernels->name},
                         {"threads", bench_options.threads},
                         {"limits", limits_json(bench->limits())},
                         {"limits_of_one_thread", limits_json(bench->limits_of_one_thread())}}},
                       {"rounds", options.rounds},
                       {"rows", std::move(rows)}};
  if (options.json) {
    std::cout << result.dump(2) << '\n';
  } else {
    print_result(result);
  }
  return kExitOk;
}

}  // namespace weft
