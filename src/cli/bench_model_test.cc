#include "cli/bench_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/small_model_test.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(BenchModel, ReadsLlamaBench) {
  const auto rates = parse_peer_output(R"(loading...
[{"n_prompt": 512, "n_gen": 0, "avg_ts": 319.5}, {"n_prompt": 0, "n_gen": 64, "avg_ts": 116.0},
 {"n_prompt": 512, "n_gen": 64, "avg_ts": 200.0}])");
  ASSERT_TRUE(rates.ok()) << rates.error().message;
  EXPECT_THAT(*rates, ElementsAre(Pair("decode x1", 116.0), Pair("prefill 512", 319.5)));
}

TEST(BenchModel, ReadsNamedFigures) {
  const auto rates =
      parse_peer_output(R"({"prefill 512": 1800, "decode x4": 355.5, "device": "cpu"})");
  ASSERT_TRUE(rates.ok()) << rates.error().message;
  EXPECT_THAT(*rates, ElementsAre(Pair("decode x4", 355.5), Pair("prefill 512", 1800.0)));
}

TEST(BenchModel, WhatHasNoFiguresIsAnError) {
  for (const char* text :
       {"", "command not found", "[]", "{}", "[1, 2]", "{\"decode x1\": 0}", "[[[[[[[]]]]]]]"}) {
    const auto rates = parse_peer_output(text);
    ASSERT_FALSE(rates.ok()) << text;
    EXPECT_THAT(rates.error().message, HasSubstr("--peer"));
  }
}

TEST(BenchModel, MeasuresAndLeavesTheExecutorAsItWas) {
  LoadOptions load = small_model();
  load.max_sequences = 2;
  const auto model = load_model(load);
  ASSERT_TRUE(model.ok()) << model.error().message;
  for (int i = 0; i < 2; ++i) {  // slots are closed again
    EXPECT_GT(measure_prefill(*model->executor, 70), 0);
    EXPECT_GT(measure_decode(*model->executor, 2, 3), 0);
  }
}

}  // namespace
}  // namespace weft
