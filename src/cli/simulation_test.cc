#include "cli/simulation.h"

#include <gtest/gtest.h>

#include "cli/command_line.h"
#include "cli/simulate_report.h"
#include "cli/simulated_shape.h"

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
  for (const std::string_view name : kModeNames) {
    const Mode mode = *find_mode(name);
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
    EXPECT_GT(engine.roofline.value(), 0);
    EXPECT_LE(engine.roofline.value(), 1);
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

TEST(Simulation, AFlagThatNothingTakesIsNamed) {
  const std::vector<std::string> given[] = {
      {"--json", "x", "--search"},
      {"--mode", "split", "--search"},
      {"--trace", "x", "--sensitivity"},
      {"--in-flight", "2", "--sensitivity"},
      {"--svg", "x", "--kernels"},
      {"--model", "qwen-7b", "--constants"},
      {"--operator-trace", "x", "--kernels"},
  };
  for (std::vector<std::string> arguments : given) {
    const std::string flag = arguments.front();
    const std::string print = arguments.back();
    arguments.insert(arguments.begin(), "simulate");
    const CommandLine line = parse_command_line(arguments);
    EXPECT_FALSE(line.command) << flag;
    EXPECT_NE(line.text.find(flag), std::string::npos) << line.text;
    EXPECT_NE(line.text.find(print), std::string::npos) << line.text;
  }
  EXPECT_TRUE(parse_command_line({"simulate", "--search", "--in-flight", "8"}).command);
  EXPECT_TRUE(parse_command_line({"simulate", "--kernels", "--set", "cores=8"}).command);
}

TEST(Simulation, DecodeCoresLeaveSomeForPrompts) {
  Simulation simulation(chip(), shape());
  SimulationSettings settings = in(Mode::kSplit);
  settings.decode_cores = 4;
  const auto result = simulation.run(closed(1), settings);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("4 decode cores"), std::string::npos);
}

std::string config(const std::string& type, const std::string& more = "") {
  return R"({"model_type": )" + type +
         R"(, "num_hidden_layers": 2, "hidden_size": 512, "intermediate_size": 1536,
           "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 8192)" +
         more + "}";
}

TEST(SimulatedShape, AConfigSaysWhatIsSimulated) {
  const auto shape = model_shape_of_json("it", config(R"("qwen2")", R"(, "num_experts": null)"));
  ASSERT_TRUE(shape.ok()) << shape.error().message;
  EXPECT_EQ(shape->layers, 2);
  EXPECT_EQ(shape->head_dim, 64);
  EXPECT_TRUE(shape->qkv_bias);
  EXPECT_FALSE(shape->qk_norm);
}

TEST(SimulatedShape, WhatIsNotSimulatedIsNamed) {
  const std::pair<std::string, const char*> wrong[] = {
      {config("3"), "3"},
      {config(R"("gemma2")"), "gemma2"},
      {config(R"("qwen3moe")"), "qwen3moe"},
      {R"({"hidden_size": 512})", "model_type"},
      {config(R"("llama")", R"(, "num_local_experts": 8)"), "experts"},
      {config(R"("llama")", R"(, "head_dim": "64")"), "head_dim"},
      {config(R"("llama")", R"(, "head_dim": 68719476736)"), "68719476736"},
      {config(R"("llama")", R"(, "head_dim": -16)"), "-16"},
      {config(R"("llama")", R"(, "head_dim": 24)"), "head size 24"},
      {config(R"("llama")", R"(, "num_key_value_heads": 3)"), "3 heads of keys"},
      {config(R"("llama")", R"(, "hidden_size": 65536)"), "hidden size 65536"},
      {config(R"("llama")", R"(, "intermediate_size": 65536)"), "feed-forward size 65536"},
      {config(R"("llama")", R"(, "num_attention_heads": 256, "head_dim": 256)"), "65536"},
      {R"({"model_type": "llama"})", "num_hidden_layers"},
      {"[]", "JSON"},
      {"{", "JSON"},
  };
  for (const auto& [text, named] : wrong) {
    const auto shape = model_shape_of_json("it", text);
    ASSERT_FALSE(shape.ok()) << text;
    EXPECT_NE(shape.error().message.find(named), std::string::npos) << shape.error().message;
  }
}

}  // namespace
}  // namespace weft
