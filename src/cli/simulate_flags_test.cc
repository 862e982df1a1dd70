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
  const SimulateOptions options =
      options_of({"--workload", "long", "--prompts", "1000,3000", "--then", "8x1000", "--streams",
                  "2", "--in-flight", "3", "--quick"});
  EXPECT_EQ(options.print, SimulatePrint::kWorkload);
  EXPECT_EQ(options.workload.prompts, (std::vector{1000, 3000}));
  EXPECT_EQ(options.workload.streams, 2);
  EXPECT_EQ(options.in_flight, std::vector{3});
  EXPECT_FALSE(parse({"--workload", "fast"}).command);
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
