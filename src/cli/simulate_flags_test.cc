#include <gtest/gtest.h>

#include "cli/command_line.h"

namespace weft {
namespace {

CommandLine parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "simulate");
  return parse_command_line(arguments);
}

SimulateOptions options_of(std::vector<std::string> arguments) {
  const CommandLine line = parse(std::move(arguments));
  EXPECT_TRUE(line.command) << line.text;
  return line.command ? std::get<SimulateOptions>(*line.command) : SimulateOptions{};
}

TEST(SimulateFlags, OfTheTable) {
  const SimulateOptions options =
      options_of({"--device", "910B1,Article", "--mode", "serial,split", "--in-flight", "2",
                  "--set", "hbm_bandwidth=1e12", "--context", "100", "--weights", "int8"});
  EXPECT_EQ(options.print, SimulatePrint::kTable);
  EXPECT_EQ(options.devices, (std::vector<std::string>{"910b1", "article"}));
  EXPECT_EQ(options.modes, (std::vector{Mode::kSerial, Mode::kSplit}));
  EXPECT_EQ(options.changes, std::vector<std::string>{"hbm_bandwidth=1e12"});
  EXPECT_EQ(options.context, 100);
  EXPECT_TRUE(options.int8);
  EXPECT_FALSE(parse({"--mode", "fast"}).command);
  EXPECT_FALSE(parse({"--weights", "float"}).command);
}

TEST(SimulateFlags, SearchNamesItsModesOrNone) {
  const std::vector<Mode> usual = SimulateOptions{}.searched;
  for (const auto& [arguments, modes] :
       {std::pair(std::vector<std::string>{"--search"}, usual),
        std::pair(std::vector<std::string>{"--search", "--in-flight", "8"}, usual),
        std::pair(std::vector<std::string>{"--search", "split"}, std::vector{Mode::kSplit}),
        std::pair(std::vector<std::string>{"--search", "auto,fused", "--json", "x"},
                  std::vector{Mode::kAuto, Mode::kFused})}) {
    const SimulateOptions options = options_of(arguments);
    EXPECT_EQ(options.print, SimulatePrint::kSearch);
    EXPECT_EQ(options.searched, modes);
  }
  const CommandLine wrong = parse({"--search", "split,best"});
  EXPECT_FALSE(wrong.command);
  for (const char* named : {"--search", "'best'", "split, auto"})
    EXPECT_NE(wrong.text.find(named), std::string::npos) << wrong.text;
}

TEST(SimulateFlags, AWorkloadIsThatOfTheBench) {
  const SimulateOptions options = options_of({"--workload", "long", "--prompts", "1000,3000",
                                              "--then", "8x1000", "--streams", "2", "--quick"});
  EXPECT_EQ(options.print, SimulatePrint::kWorkload);
  EXPECT_EQ(options.workload.prompts, (std::vector{1000, 3000}));
  EXPECT_EQ(options.workload.streams, 2);
  EXPECT_EQ(options_of({"--workload", "closed", "--in-flight", "3"}).in_flight, std::vector{3});
  EXPECT_FALSE(parse({"--workload", "fast"}).command);
}

// Of simulate and of bench mixed.
TEST(SimulateFlags, AFlagOfAnotherWorkloadIsNamed) {
  const std::pair<const char*, std::vector<std::string>> given[] = {
      {"long", {"--rate", "3"}},
      {"long", {"--trace-in", "/nope"}},
      {"long", {"--in-flight", "3"}},
      {"short-after-long", {"--prompts", "3"}},
      {"short-after-long", {"--then", "none"}},
      {"closed", {"--rate", "3"}},
      {"closed", {"--streams", "3"}},
      {"poisson", {"--in-flight", "3"}},
      {"burst", {"--prompts", "3"}},
      {"trace", {"--outputs", "3"}},
  };
  for (const auto& [workload, flag] : given) {
    for (const bool bench : {false, true}) {
      std::vector<std::string> arguments = {"--workload", workload, flag[0], flag[1]};
      if (bench) arguments.insert(arguments.begin(), {"bench", "mixed", "m.gguf"});
      const CommandLine line = bench ? parse_command_line(arguments) : parse(arguments);
      EXPECT_FALSE(line.command) << workload << flag[0];
      for (const std::string& part : {flag[0], "--workload " + std::string(workload)})
        EXPECT_NE(line.text.find(part), std::string::npos) << line.text;
    }
  }
  EXPECT_TRUE(parse({"--workload", "burst", "--rate", "3", "--in-flight", "4"}).command);
  EXPECT_TRUE(parse({"--workload", "trace", "--trace-in", "x", "--requests", "4"}).command);
  EXPECT_FALSE(parse_command_line({"bench", "mixed", "m.gguf", "--trace-in", "x"}).command);
  EXPECT_TRUE(parse_command_line({"bench", "mixed", "m.gguf", "--streams", "3"}).command);
}

TEST(SimulateFlags, AnEmptyNameOfAFileIsNone) {
  for (const char* flag : {"--json", "--svg", "--trace", "--operator-trace", "--timeline"}) {
    const CommandLine line = parse({flag, ""});
    EXPECT_FALSE(line.command) << flag;
    EXPECT_NE(line.text.find(flag), std::string::npos) << line.text;
  }
  for (const char* flag : {"--json", "--svg", "--html", "--trace"})
    EXPECT_FALSE(parse_command_line({"bench", "mixed", "m.gguf", flag, ""}).command) << flag;
}

TEST(SimulateFlags, TheBenchSaysItsOwnTarget) {
  const CommandLine help = parse_command_line({"bench", "mixed", "--help"});
  EXPECT_NE(help.text.find("60; of large"), std::string::npos) << help.text;
  EXPECT_EQ(help.text.find("default: 50"), std::string::npos);
}

TEST(SimulateFlags, AFlagThatNothingTakesIsNamed) {
  const std::vector<std::string> given[] = {
      {"--mode", "split", "--search"},
      {"--trace", "x", "--sensitivity"},
      {"--in-flight", "2", "--sensitivity"},
      {"--json", "x", "--kernels"},
      {"--svg", "x", "--kernels"},
      {"--model", "qwen-7b", "--constants"},
      {"--operator-trace", "x", "--kernels"},
      {"--prompts", "100", "--search"},
      {"--search", "--kernels"},
  };
  for (const std::vector<std::string>& arguments : given) {
    const CommandLine line = parse(arguments);
    EXPECT_FALSE(line.command) << arguments.front();
    EXPECT_NE(line.text.find(arguments.front()), std::string::npos) << line.text;
    EXPECT_NE(line.text.find(arguments.back()), std::string::npos) << line.text;
  }
  EXPECT_FALSE(parse({"--prompts", "100"}).command);
  EXPECT_TRUE(parse({"--search", "--in-flight", "8"}).command);
  EXPECT_TRUE(parse({"--kernels", "--set", "cores=8"}).command);
}

}  // namespace
}  // namespace weft
