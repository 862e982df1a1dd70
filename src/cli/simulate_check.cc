#include "cli/simulate_check.h"

#include <fmt/format.h>

#include <string>

#include "time/full_run.h"
#include "time/quantum_steps.h"

namespace weft {
namespace {

using timing::FullQuantum;
using timing::OperatorTimes;

constexpr int kLayers = 3;
constexpr int kContext = 4096;

class Check {
 public:
  Check(const timing::ChipModel& chip, timing::ModelShape shape)
      : cores_(static_cast<int>(chip.cores)),
        shape_(std::move(shape)),
        bench_(chip),
        times_(chip, shape_, cores_),
        fixed_(timing::measure_fixed_costs(times_)),
        table_({"", "model us", "simulated us", "difference"}) {}

  void whole(const FullQuantum& quantum) {
    const timing::Timing full =
        bench_.Replay(timing::record_quantum(bench_, shape_, cores_, quantum));
    bench_.Clear();
    double sum = 0;
    for (const timing::Step& step :
         timing::steps_of(times_, timing::rows_of(quantum), {0, kLayers, kLayers}, fixed_))
      sum += step.time.seconds;
    add(quantum.rows > 0 ? fmt::format("{} layers, {} rows of a prompt", kLayers, quantum.rows)
                         : fmt::format("{} layers, a step of {} streams", kLayers, quantum.streams),
        sum, full.seconds);
  }
  void multiply(int rows) {
    add(fmt::format("gate and up, {} rows", rows),
        times_.Multiply(timing::Matrix::kGateUp, rows).seconds,
        times_.SimulateMultiply(timing::Matrix::kGateUp, rows).seconds);
  }
  void prefill(int first, int rows) {
    add(fmt::format("attention of a prompt, {} rows after {}", rows, first),
        times_.Prefill(first, rows).seconds, times_.SimulatePrefill(first, rows).seconds);
  }
  void decode(int streams, int context) {
    add(fmt::format("attention of {} streams, {} keys", streams, context),
        times_.Decode(streams, context).seconds, times_.SimulateDecode(streams, context).seconds);
  }
  TextTable table() && { return std::move(table_); }

 private:
  void add(const std::string& name, double model, double simulated) {
    table_.add({name, fmt::format("{:.1f}", model * 1e6), fmt::format("{:.1f}", simulated * 1e6),
                fmt::format("{:+.1f} %", 100 * (model / simulated - 1))});
  }

  const int cores_;
  const timing::ModelShape shape_;
  timing::OperatorBench bench_;
  OperatorTimes times_;
  const timing::FixedCosts fixed_;
  TextTable table_;
};

}  // namespace

TextTable check_table(const timing::ChipModel& chip, const timing::ModelShape& shape) {
  timing::ModelShape layers = shape;
  layers.layers = kLayers;
  Check check(chip, std::move(layers));
  for (const int streams : {1, 2, 4, 8, 16})
    check.whole({.first = 0, .rows = 0, .streams = streams, .context = kContext});
  for (const int rows : {256, 512, 1024})
    check.whole({.first = 0, .rows = rows, .streams = 0, .context = 0});
  for (const int rows : {577, 900, 1500}) check.multiply(rows);
  for (const auto& [first, rows] :
       {std::pair(0, 200), std::pair(300, 128), std::pair(700, 200), std::pair(3000, 96)})
    check.prefill(first, rows);
  for (const auto& [streams, context] :
       {std::pair(4, 2200), std::pair(8, 4200), std::pair(16, 800)})
    check.decode(streams, context);
  return std::move(check).table();
}

}  // namespace weft
