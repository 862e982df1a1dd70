#include "cli/simulation.h"

#include <gtest/gtest.h>

#include "cli/simulated_shape.h"
#include "cli/small_simulation_test.h"

namespace weft {
namespace {

MixedPhase closed(int in_flight) {
  MixedPhase phase;
  phase.in_flight = in_flight;
  phase.requests.assign(static_cast<size_t>(3 * in_flight), {{}, 512, 32});
  return phase;
}

SimulateRow row(Simulation& simulation, int in_flight, Mode mode) {
  return row_of(simulation, closed(in_flight), in_mode(mode));
}

TEST(Simulation, EveryModeServesAllAndTheSameEveryTime) {
  for (const std::string_view name : kModeNames) {
    const Mode mode = *find_mode(name);
    Simulation first(small_chip(), small_shape());
    Simulation second(small_chip(), small_shape());
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
  Simulation simulation(small_chip(), small_shape());
  const SimulateRow one = row(simulation, 1, Mode::kSerial);
  const SimulateRow four = row(simulation, 4, Mode::kFused);
  EXPECT_GT(four.result.figures.output_rate, 1.5 * one.result.figures.output_rate);
  EXPECT_GT(*four.result.figures.ttft_mean, *one.result.figures.ttft_mean);  // it counts waiting
}

TEST(Simulation, ALaunchForEachLayerCosts) {
  Simulation simulation(small_chip(), small_shape());
  SimulationSettings settings = in_mode(Mode::kSerial);
  const SimulateRow epoch = row_of(simulation, closed(1), settings);
  settings.launches = timing::Launches::kLayer;
  const SimulateRow layer = row_of(simulation, closed(1), settings);
  ASSERT_TRUE(epoch.note.empty() && layer.note.empty());
  const double more = *layer.result.figures.tpot_p50 - *epoch.result.figures.tpot_p50;
  EXPECT_NEAR(more, small_shape().layers * small_chip().launch,
              0.3 * small_shape().layers * small_chip().launch);
}

TEST(Simulation, ArrivalsAreServedInTheirTime) {
  Simulation simulation(small_chip(), small_shape());
  MixedPhase phase;
  phase.requests = {{std::chrono::milliseconds(0), 256, 8}, {std::chrono::seconds(1), 256, 8}};
  const SimulateRow row = row_of(simulation, phase, in_mode(Mode::kFused));
  ASSERT_TRUE(row.note.empty()) << row.note;
  const auto& requests = row.result.records.front().requests;
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[1].sent - requests[0].sent, std::chrono::seconds(1));
  EXPECT_NEAR(seconds(requests[0].to_first_token()), seconds(requests[1].to_first_token()), 1e-4);
}

TEST(Simulation, AModelThatDoesNotFitSaysSo) {
  timing::ChipModel small = small_chip();
  small.hbm_bytes = 30e6;
  Simulation simulation(small, small_shape());
  EXPECT_NE(row(simulation, 1, Mode::kSerial).note.find("memory"), std::string::npos);
}

TEST(Simulation, DecodeCoresLeaveSomeForPrompts) {
  Simulation simulation(small_chip(), small_shape());
  SimulationSettings settings = in_mode(Mode::kSplit);
  settings.decode_cores = 4;
  const SimulateRow row = row_of(simulation, closed(1), settings);
  EXPECT_NE(row.note.find("4 decode cores"), std::string::npos);
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
