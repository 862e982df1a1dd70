#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace weft {
namespace {

using testing::HasSubstr;

template <class Options>
Options parsed(std::vector<std::string> arguments) {
  CommandLine line = parse_command_line(std::move(arguments));
  EXPECT_TRUE(line.command.has_value()) << line.text;
  if (!line.command || !std::holds_alternative<Options>(*line.command)) {
    ADD_FAILURE() << "another command";
    return {};
  }
  return std::get<Options>(*std::move(line.command));
}

std::string usage_error(std::vector<std::string> arguments) {
  const CommandLine line = parse_command_line(std::move(arguments));
  EXPECT_FALSE(line.command.has_value());
  EXPECT_EQ(line.exit_code, kExitUsage);
  EXPECT_EQ(line.text.find('\n'), std::string::npos) << line.text;
  return line.text;
}

TEST(CommandLine, RunTakesModelPromptAndSampling) {
  const auto run = parsed<RunOptions>({"run",
                                       "m.gguf",
                                       "-p",
                                       "hello",
                                       "-n",
                                       "7",
                                       "--temperature",
                                       "0",
                                       "--top-k",
                                       "40",
                                       "--seed",
                                       "18446744073709551615",
                                       "--stop",
                                       "a",
                                       "--stop",
                                       "b",
                                       "--raw",
                                       "--kv-memory",
                                       "1G",
                                       "--system",
                                       "be brief"});
  EXPECT_EQ(run.load.model, "m.gguf");
  EXPECT_EQ(run.prompt, "hello");
  EXPECT_EQ(run.generation.max_tokens, 7);
  EXPECT_EQ(run.generation.sampling.temperature, 0);
  EXPECT_EQ(run.generation.sampling.top_k, 40);
  EXPECT_EQ(run.generation.seed, ~uint64_t{0});
  EXPECT_THAT(run.generation.stop, testing::ElementsAre("a", "b"));
  EXPECT_TRUE(run.raw);
  EXPECT_EQ(run.load.kv_memory, 1ULL << 30U);
  EXPECT_EQ(run.generation.system, "be brief");
}

TEST(CommandLine, DummyWeightsStandForAModel) {
  const auto score =
      parsed<ScoreOptions>({"score", "--dummy-weights", "qwen2.5-0.5b:q4_0", "--ids", "ids.json"});
  ASSERT_TRUE(score.load.dummy.has_value());
  EXPECT_EQ(score.load.dummy->shape.name, "qwen2.5-0.5b");
  EXPECT_THAT(
      usage_error({"score", "m.gguf", "--dummy-weights", "qwen2.5-0.5b:q4_0", "--ids", "x"}),
      HasSubstr("only one"));
  EXPECT_THAT(usage_error({"run", "-p", "x"}), HasSubstr("MODEL is missing"));
}

TEST(CommandLine, ErrorsNameFlagAndValue) {
  EXPECT_THAT(usage_error({"run", "m", "-p", "x", "--threads", "0"}), HasSubstr("--threads"));
  EXPECT_THAT(usage_error({"run", "m", "-p", "x", "--kv-memory", "lots"}), HasSubstr("'lots'"));
  EXPECT_THAT(usage_error({"run", "m", "-p", "x", "--kv-type", "q3"}), HasSubstr("q3"));
  EXPECT_THAT(usage_error({"run", "m", "-p", "x", "--top-p", "0"}), HasSubstr("--top-p"));
  EXPECT_THAT(usage_error({"run", "m", "-p", "x", "--stop", ""}), HasSubstr("--stop"));
  EXPECT_THAT(usage_error({"run", "m"}), HasSubstr("--prompt"));
  EXPECT_THAT(usage_error({"serve", "m", "--port", "70000"}), HasSubstr("--port"));
  EXPECT_THAT(usage_error({"dummy", "gpt-5", "-o", "x"}), HasSubstr("'gpt-5'"));
  EXPECT_THAT(usage_error({"fly"}), HasSubstr("fly"));
  usage_error({});
}

TEST(CommandLine, BenchKernelsTakesListsOfNames) {
  const auto bench = parsed<BenchKernelsOptions>(
      {"bench", "kernels", "--shapes", "smollm2-135m,qwen2.5-7b", "--types", "q8_0,BF16", "--rows",
       "1,16", "--only", "matmul", "--memory", "64M"});
  ASSERT_EQ(bench.shapes.size(), 2);
  EXPECT_EQ(bench.shapes[1].name, "qwen2.5-7b");
  EXPECT_THAT(bench.types, testing::ElementsAre(DType::kQ8_0, DType::kBF16));
  EXPECT_THAT(bench.rows, testing::ElementsAre(1, 16));
  EXPECT_EQ(bench.memory, 64U << 20U);
  EXPECT_THAT(usage_error({"bench", "kernels", "--types", "Q9"}), HasSubstr("'Q9'"));
  EXPECT_THAT(usage_error({"bench", "kernels", "--shapes", "tiny"}), HasSubstr("'tiny'"));
  EXPECT_THAT(usage_error({"bench", "kernels", "--only", "all"}), HasSubstr("all"));
}

TEST(CommandLine, HelpAndVersionAreNoErrors) {
  for (const auto& arguments :
       {std::vector<std::string>{"--help"}, {"--version"}, {"serve", "--help"}}) {
    const CommandLine line = parse_command_line(arguments);
    EXPECT_FALSE(line.command.has_value());
    EXPECT_EQ(line.exit_code, kExitOk);
    EXPECT_FALSE(line.text.empty());
  }
  EXPECT_THAT(parse_command_line({"--version"}).text, HasSubstr("weft " WEFT_VERSION));
  EXPECT_THAT(parse_command_line({"serve", "--help"}).text, HasSubstr("--kv-memory"));
}

class ConfigFile : public testing::Test {
 protected:
  std::string write(const std::string& text) {
    const std::string path = testing::TempDir() + "weft_config_" +
                             testing::UnitTest::GetInstance()->current_test_info()->name() +
                             ".toml";
    std::ofstream(path) << text;
    return path;
  }
};

TEST_F(ConfigFile, GivesFlagsAndTheCommandLineHasTheLastWord) {
  const std::string path =
      write("model = \"a.gguf\"\nport = 9000\nkv-memory = \"2G\"\npin = true\nhost = \"::1\"\n");
  const auto serve = parsed<ServeOptions>({"serve", "--config", path, "--port", "9001"});
  EXPECT_EQ(serve.load.model, "a.gguf");
  EXPECT_EQ(serve.server.port, 9001);
  EXPECT_EQ(serve.load.kv_memory, 2ULL << 30U);
  EXPECT_TRUE(serve.load.pin);
  EXPECT_EQ(serve.server.host, "::1");
  EXPECT_EQ(parsed<ServeOptions>({"serve", "b.gguf", "--config=" + path}).load.model, "b.gguf");
}

TEST_F(ConfigFile, ErrorsNameTheFileAndTheKey) {
  EXPECT_THAT(usage_error({"serve", "--config", write("colour = 1\n")}),
              HasSubstr("no flag --colour"));
  EXPECT_THAT(usage_error({"serve", "--config", write("port = [1]\n")}), HasSubstr("line 1: port"));
  EXPECT_THAT(usage_error({"serve", "--config", write("port = \n")}), HasSubstr("line 1"));
  EXPECT_THAT(usage_error({"serve", "--config", "/nowhere/x.toml"}), HasSubstr("/nowhere/x.toml"));
}

TEST(CommandLine, TheCardsKernelsHaveTheBuildsName) {
  const auto run = parsed<RunOptions>({"run", "m.gguf", "-p", "x"});
  EXPECT_EQ(run.load.ascend.kernels, "weft_kernels_npu.o");
}

TEST(ExitCode, TellsKindsApart) {
  EXPECT_EQ(exit_code(ErrorKind::kInvalidArgument), 2);
  EXPECT_EQ(exit_code(ErrorKind::kCorrupt), 3);
  EXPECT_EQ(exit_code(ErrorKind::kExhausted), 4);
  EXPECT_EQ(exit_code(ErrorKind::kIo), 1);
}

TEST(CommandLine, BenchMixedTakesModesAndAWorkload) {
  const auto all = parsed<BenchMixedOptions>({"bench", "mixed", "m.gguf"});
  EXPECT_FALSE(all.modes);
  EXPECT_EQ(all.workload.kind, WorkloadKind::kLong);
  EXPECT_FALSE(all.workload.then || all.workload.streams || all.in_process);

  const auto some = parsed<BenchMixedOptions>(
      {"bench", "mixed", "m.gguf", "--modes", "fused,split", "--prompts", "100,200", "--then",
       "3x50", "--against", "http://a:1", "--against", "http://b:2", "--itl-target-ms", "72"});
  EXPECT_EQ(some.modes, (std::vector{Mode::kFused, Mode::kSplit}));
  EXPECT_EQ(some.workload.prompts, (std::vector{100, 200}));
  EXPECT_EQ(some.workload.then->count, 3);
  EXPECT_EQ(some.against, (std::vector<std::string>{"http://a:1", "http://b:2"}));
  EXPECT_EQ(some.scheduling.itl_target, 72);

  const auto none = parsed<BenchMixedOptions>(
      {"bench", "mixed", "m.gguf", "--modes", "none", "--then", "none", "--workload", "long"});
  EXPECT_TRUE(none.modes && none.modes->empty());
  EXPECT_EQ(none.workload.then->count, 0);
  const auto closed = parsed<BenchMixedOptions>(
      {"bench", "mixed", "m.gguf", "--workload", "closed", "--in-flight", "3"});
  EXPECT_EQ(closed.workload.kind, WorkloadKind::kClosed);
  EXPECT_EQ(closed.workload.in_flight, 3);

  EXPECT_THAT(usage_error({"bench", "mixed", "m.gguf", "--modes", "fast"}), HasSubstr("'fast'"));
  EXPECT_THAT(usage_error({"bench", "mixed", "m.gguf", "--workload", "x"}), HasSubstr("'x'"));
  EXPECT_THAT(usage_error({"bench", "mixed", "m.gguf", "--then", "8"}), HasSubstr("'8'"));
}

}  // namespace
}  // namespace weft
