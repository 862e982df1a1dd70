#pragma once
// The command line of `weft` as values: every flag of every command is declared in command_line.cc,
// each command takes its options as a plain struct.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/load_model.h"
#include "device/sampling.h"
#include "server/server.h"

namespace weft {

// What scripts can rely on.
enum ExitCode : int {
  kExitOk = 0,
  kExitFailure = 1,  // something failed while it ran
  kExitUsage = 2,    // the command line, or a value on it, is wrong
  kExitModel =
      3,  // the model cannot be used: not there, damaged, or of a kind that is not implemented
  kExitMemory = 4,         // it does not fit
  kExitInterrupted = 130,  // by Ctrl-C
};
ExitCode exit_code(ErrorKind kind);

struct GenerationOptions {
  SamplingParams sampling;
  std::optional<uint64_t> seed;
  int max_tokens = 0;  // 0: until the model ends or the context is full
  std::vector<std::string> stop;
  std::string system;
  bool ignore_eos = false;
};

struct RunOptions {
  LoadOptions load;
  GenerationOptions generation;
  std::string prompt;
  bool raw = false;  // the prompt as it is, without the chat template
};

struct ChatOptions {
  LoadOptions load;
  GenerationOptions generation;
};

struct ServeOptions {
  LoadOptions load;
  ServerOptions server;
  std::string metrics_prefix = "weft:";
  std::string log_level = "info";
  double drain_seconds = 30;
};

struct ScoreOptions {
  LoadOptions load;
  std::filesystem::path ids;
  std::filesystem::path output;  // empty: standard output
};

struct DummyOptions {
  DummySpec spec;
  std::filesystem::path output;
};

struct InspectOptions {
  std::filesystem::path model;
  bool json = false;
};

using Command =
    std::variant<RunOptions, ChatOptions, ServeOptions, ScoreOptions, DummyOptions, InspectOptions>;

// What was asked for, or how to end at once: `text` is help or the version where exit_code is
// kExitOk, else an error.
struct CommandLine {
  std::optional<Command> command;
  int exit_code = kExitOk;
  std::string text;
};

// `arguments` without the program's name.
CommandLine parse_command_line(std::vector<std::string> arguments);

}  // namespace weft
