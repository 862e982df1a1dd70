#include <cstdio>
#include <iostream>
#include <iterator>

#include "cli/commands.h"
#include "cli/generator.h"
#include "cli/signal_watcher.h"

namespace weft {
namespace {

// "-": standard input.
std::string read_prompt(const RunOptions& options) {
  if (options.prompt != "-") return options.prompt;
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

Result<std::vector<TokenId>> make_prompt(const RunOptions& options, const Generator& generator) {
  if (options.raw && !options.generation.system.empty()) {
    return Error{ErrorKind::kInvalidArgument,
                 "--system needs the chat template, which --raw leaves out: give one of them"};
  }
  const std::string text = read_prompt(options);
  if (options.raw) return generator.raw_prompt(text);
  std::vector<ChatMessage> messages;
  if (!options.generation.system.empty()) messages.push_back({"system", options.generation.system});
  messages.push_back({"user", text});
  return generator.chat_prompt(messages);
}

}  // namespace

Result<int> run_command(const RunOptions& options) {
  AnswerStopper stopper;
  const SignalWatcher watcher({SIGINT, SIGTERM}, [&](int) { stopper.on_signal(); });
  LoadOptions load = options.load;
  load.max_sequences = 1;
  WEFT_ASSIGN(const LoadedModel model, load_model(load));
  Generator generator(model);
  WEFT_ASSIGN(std::vector<TokenId> prompt, make_prompt(options, generator));

  stopper.watch(&generator);
  const Result<GenerationResult> result =
      generator.generate(std::move(prompt), options.generation, [](std::string_view piece) {
        std::fwrite(piece.data(), 1, piece.size(), stdout);
        std::fflush(stdout);
      });
  stopper.watch(nullptr);
  if (!result.ok()) return result.error();
  std::fputs("\n", stdout);
  std::fflush(stdout);
  fmt::print(stderr, "{}\n", describe(*result));
  return result->reason == FinishReason::kCancelled ? kExitInterrupted : kExitOk;
}

}  // namespace weft
