#include "cli/simulation.h"

#include <gtest/gtest.h>

#include "cli/command_line.h"
#include "cli/simulate_report.h"

namespace weft {
namespace {

timing::ChipModel chip() {
  timing::ChipModel model = *timing::find_chip_model("910b2");
  model.cores = 4;
  model.hbm_bandwidth = 300e9;
  model.l2_bytes = 8 << 20;
  return model;
}

timing::ModelShape shape() {
  return {.name = "small",
          .layers = 4,
          .hidden = 512,
          .ffn = 1536,
          .heads = 8,
          .kv_heads = 2,
          .head_dim = 64,
          .vocab = 8192,
          .qkv_bias = false,
          .qk_norm = false};
}

MixedPhase closed(int in_flight) {
  MixedPhase phase;
  phase.in_flight = in_flight;
  phase.requests.assign(static_cast<size_t>(3 * in_flight), {{}, 512, 32});
  return phase;
}

SimulationSettings in(Mode mode) {
  SimulationSettings settings;
  settings.mode = mode;
  return settings;
}

SimulateRow row(Simulation& simulation, int in_flight, Mode mode) {
  SimulateRow row;
  Result<SimulationResult> result = simulation.run(closed(in_flight), in(mode));
  if (result.ok()) {
    row.result = std::move(result).value();
  } else {
    row.note = result.error().message;
  }
  return row;
}

TEST(Simulation, EveryModeServesAllAndTheSameEveryTime) {
  for (const Mode mode :
       {Mode::kSerial, Mode::kChunked, Mode::kLayered, Mode::kFused, Mode::kSplit, Mode::kAuto}) {
    Simulation first(chip(), shape());
    Simulation second(chip(), shape());
    const SimulateRow a = row(first, 4, mode);
    ASSERT_TRUE(a.note.empty()) << a.note;
    EXPECT_EQ(a.result.figures.requests, 12);
    EXPECT_EQ(a.result.figures.failed, 0);
    row(second, 1, Mode::kSerial);  // what ran before does not matter
    const SimulateRow b = row(second, 4, mode);
    EXPECT_EQ(simulate_json(std::span(&a, 1)), simulate_json(std::span(&b, 1)));
    const EngineFigures& engine = *a.result.figures.engine;
    EXPECT_NEAR(engine.busy + engine.barrier + engine.idle, 1, 1e-3) << mode_name(mode);
    EXPECT_LE(engine.roofline, 1);
    EXPECT_LE(a.result.hbm(), 1);
    EXPECT_LE(a.result.compute(), 1);
  }
}

TEST(Simulation, StreamsTogetherAreFasterThanOneAfterTheOther) {
  Simulation simulation(chip(), shape());
  const SimulateRow one = row(simulation, 1, Mode::kSerial);
  const SimulateRow four = row(simulation, 4, Mode::kFused);
  EXPECT_GT(four.result.figures.output_rate, 1.5 * one.result.figures.output_rate);
  EXPECT_GT(*four.result.figures.ttft_mean, *one.result.figures.ttft_mean);  // it counts waiting
}

TEST(Simulation, ALaunchForEachLayerCosts) {
  Simulation simulation(chip(), shape());
  SimulationSettings settings = in(Mode::kSerial);
  const auto epoch = simulation.run(closed(1), settings);
  settings.launches = timing::Launches::kLayer;
  const auto layer = simulation.run(closed(1), settings);
  ASSERT_TRUE(epoch.ok() && layer.ok());
  const double more = *layer->figures.tpot_p50 - *epoch->figures.tpot_p50;
  EXPECT_NEAR(more, shape().layers * chip().launch, 0.3 * shape().layers * chip().launch);
}

TEST(Simulation, ArrivalsAreServedInTheirTime) {
  Simulation simulation(chip(), shape());
  MixedPhase phase;
  phase.requests = {{std::chrono::milliseconds(0), 256, 8}, {std::chrono::seconds(1), 256, 8}};
  const auto result = simulation.run(phase, in(Mode::kFused));
  ASSERT_TRUE(result.ok());
  const auto& requests = result->record.requests;
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[1].sent - requests[0].sent, std::chrono::seconds(1));
  EXPECT_NEAR(seconds(requests[0].to_first_token()), seconds(requests[1].to_first_token()), 1e-4);
}

TEST(Simulation, AModelThatDoesNotFitSaysSo) {
  timing::ChipModel small = chip();
  small.hbm_bytes = 30e6;
  Simulation simulation(small, shape());
  EXPECT_NE(row(simulation, 1, Mode::kSerial).note.find("memory"), std::string::npos);
}

TEST(Simulation, FlagsOfTheCommand) {
  const CommandLine line =
      parse_command_line({"simulate", "--device", "910b1,910b4", "--mode", "serial,split",
                          "--in-flight", "2", "--set", "hbm_bandwidth=1e12", "--context", "100"});
  ASSERT_TRUE(line.command) << line.text;
  const auto& options = std::get<SimulateOptions>(*line.command);
  EXPECT_EQ(options.devices, (std::vector<std::string>{"910b1", "910b4"}));
  EXPECT_EQ(options.modes, (std::vector{Mode::kSerial, Mode::kSplit}));
  EXPECT_EQ(options.changes, std::vector<std::string>{"hbm_bandwidth=1e12"});
  EXPECT_EQ(options.context, 100);
  EXPECT_FALSE(parse_command_line({"simulate", "--mode", "fast"}).command);
}

}  // namespace
}  // namespace weft
