#pragma once
// Flags that several commands share. Each call adds a group of them to a command; `options` has to
// outlive the parsing, and what it holds before are the defaults.

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "cli/command_line.h"

namespace weft {

// A flag whose value `parse` turns into `target`; its error is the user's.
template <class T, class Parse>
CLI::Option* add_parsed(CLI::App& app, const std::string& name, T& target, Parse parse,
                        const std::string& help) {
  return app.add_option_function<std::string>(
      name,
      [&target, parse, name](const std::string& text) {
        auto value = parse(text);
        if (!value.ok()) throw CLI::ValidationError(name, value.error().message);
        target = std::move(value).value();
      },
      help);
}

// Of flags that name a file: an empty name is none.
inline CLI::Validator named_file() {
  return {[](const std::string& name) { return name.empty() ? "names no file" : std::string(); },
          "", "named file"};
}

// The model, the device and their memory.
void add_model_flags(CLI::App& app, LoadOptions& load);
// Modes, targets and deadlines.
void add_scheduling_flags(CLI::App& app, SchedulingOptions& options);
// How tokens are drawn, and when an answer ends.
void add_generation_flags(CLI::App& app, GenerationOptions& options);

// Each name once; an error names the first that is none.
Result<std::vector<Mode>> parse_modes(const std::vector<std::string>& names);

}  // namespace weft
