#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "cli/commands.h"
#include "cli/generator.h"
#include "cli/signal_watcher.h"

namespace weft {
namespace {

class Conversation {
 public:
  Conversation(Generator& generator, const GenerationOptions& options)
      : generator_(generator), options_(options), terminal_(isatty(STDIN_FILENO) != 0) {
    reset();
  }

  // Until /quit or the end of the input.
  Status run() {
    std::string line;
    while (read(line)) {
      if (line == "/quit" || line == "/exit") break;
      if (line == "/reset") {
        reset();
        fmt::print(stderr, "(forgotten)\n");
      } else if (line.starts_with('/')) {
        fmt::print(stderr,
                   "/reset forgets the conversation, /quit leaves, Ctrl-C stops an answer\n");
      } else if (!line.empty()) {
        answer(line);
      }
    }
    if (terminal_) fmt::print(stderr, "\n");
    return {};
  }

 private:
  bool read(std::string& line) {
    if (terminal_) {
      fmt::print(stderr, "> ");
      std::fflush(stderr);
    }
    return static_cast<bool>(std::getline(std::cin, line));
  }

  void reset() {
    messages_.clear();
    if (!options_.system.empty()) messages_.push_back({"system", options_.system});
  }

  // A question that cannot be answered is taken back, so that the conversation can go on.
  void answer(const std::string& question) {
    messages_.push_back({"user", question});
    const Result<GenerationResult> result = generate();
    if (!result.ok()) {
      fmt::print(stderr, "error: {} (/reset forgets the conversation)\n", result.error().message);
      messages_.pop_back();
      return;
    }
    std::fputs("\n", stdout);
    std::fflush(stdout);
    fmt::print(stderr, "({})\n", describe(*result));
    messages_.push_back({"assistant", result->text});
  }

  Result<GenerationResult> generate() {
    WEFT_ASSIGN(std::vector<TokenId> prompt, generator_.chat_prompt(messages_));
    return generator_.generate(std::move(prompt), options_, [](std::string_view piece) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      std::fflush(stdout);
    });
  }

  Generator& generator_;
  const GenerationOptions& options_;
  bool terminal_;
  std::vector<ChatMessage> messages_;
};

}  // namespace

Result<int> chat_command(const ChatOptions& options) {
  AnswerStopper stopper;
  const SignalWatcher watcher({SIGINT}, [&](int) { stopper.on_signal(); });
  LoadOptions load = options.load;
  load.max_sequences = 1;
  WEFT_ASSIGN(const LoadedModel model, load_model(load));
  if (!model.chat_template) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("{} has no chat template, so it cannot chat; `weft run --raw` continues a text",
                    model.name)};
  }
  Generator generator(model);
  fmt::print(stderr, "{}, {}\n", model.name, model.executor->description());
  fmt::print(stderr, "/reset forgets the conversation, /quit leaves, Ctrl-C stops an answer\n");
  stopper.watch(&generator);
  const Status status = Conversation(generator, options.generation).run();
  stopper.watch(nullptr);
  if (!status.ok()) return status.error();
  return kExitOk;
}

}  // namespace weft
