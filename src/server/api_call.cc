#include "server/api_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "server/json_fields.h"

namespace weft {
namespace {

constexpr int64_t kMostMilliseconds = 1'000'000'000;
constexpr int kMostTokens = std::numeric_limits<int>::max();
constexpr double kLeastTemperature = 1e-5;  // below it the division by it overflows: greedy
constexpr double kLeastTopP = 1e-9;         // top_p 0 asks for the likeliest token, as this does

// A whole body: what its field readers share.
class CallParser {
 public:
  CallParser(const Json& body, const ApiLimits& limits, Endpoint endpoint)
      : fields_(body, "", error_), limits_(limits) {
    call_.endpoint = endpoint;
  }

  ApiResult<ApiCall> parse() {
    parse_model();
    if (call_.endpoint == Endpoint::kChat) {
      parse_chat();
    } else {
      parse_completions();
    }
    parse_sampling();
    parse_logit_bias();
    parse_stop();
    parse_stream();
    parse_times();
    parse_without_effect();
    fields_.refuse_unknown();
    if (error_) return std::move(*error_);
    return std::move(call_);
  }

 private:
  void parse_model() {
    const std::string model = fields_.string("model").value_or(limits_.model_name);
    if (!error_ && model != limits_.model_name) error_ = model_not_found(model);
  }

  void parse_chat() {
    call_.messages_json = dump(parse_messages(fields_, error_));
    call_.add_generation_prompt = fields_.boolean("add_generation_prompt", true);
    parse_template_kwargs();
    const std::optional<int64_t> old_name = fields_.integer("max_tokens", 1, kMostTokens);
    const std::optional<int64_t> new_name =
        fields_.integer("max_completion_tokens", 1, kMostTokens);
    if (old_name && new_name && *old_name != *new_name) {
      fields_.fail("max_tokens",
                   "'max_tokens' and 'max_completion_tokens' differ; send one of them",
                   "invalid_value");
    }
    if (new_name || old_name) call_.max_tokens = static_cast<int>(new_name ? *new_name : *old_name);

    const bool logprobs = fields_.boolean("logprobs", false);
    const std::optional<int64_t> top = fields_.integer("top_logprobs", 0, kMaxTopLogprobs);
    if (top.value_or(0) > 0 && !logprobs) {
      fields_.fail("top_logprobs", "'top_logprobs' needs 'logprobs' to be true", "invalid_value");
    }
    if (logprobs) call_.sampling.top_logprobs = static_cast<int>(top.value_or(0));
    parse_tools();
    parse_modalities();
    fields_.refuse({"audio", "web_search_options", "prediction", "moderation", "reasoning_effort",
                    "verbosity", "chat_template", "continue_final_message", "documents"});
  }

  void parse_template_kwargs() {
    const Json* kwargs = fields_.find("chat_template_kwargs");
    if (kwargs == nullptr) return;
    if (!kwargs->is_object())
      return fields_.fail_type("chat_template_kwargs", *kwargs, "an object");
    for (const char* name : {"messages", "add_generation_prompt", "tools"}) {
      if (!kwargs->contains(name)) continue;
      const std::string param = fmt::format("chat_template_kwargs.{}", name);
      fields_.fail(
          param, fmt::format("Invalid '{}': the request sets this template variable itself", param),
          "invalid_value");
    }
    call_.template_kwargs_json = dump(*kwargs);
  }

  // Calls cannot be read out of the answer, so tools may not be offered to the model.
  void parse_tools() {
    const std::string choice = tool_choice();
    if (choice != "none") {
      fields_.refuse({"tools", "functions"}, true);
      if (!choice.empty() && choice != "auto") {
        fields_.fail("tool_choice",
                     "Unsupported 'tool_choice': tools are not supported by this server",
                     "unsupported_value");
      }
    }
    fields_.accept({"tools", "functions"});
    const Json* legacy = fields_.find("function_call");
    if (legacy != nullptr && *legacy != "none" && *legacy != "auto") {
      fields_.fail("function_call",
                   "Unsupported 'function_call': tools are not supported by this server",
                   "unsupported_value");
    }
  }

  std::string tool_choice() {
    const Json* choice = fields_.find("tool_choice");
    if (choice == nullptr) return "";
    return choice->is_string() ? choice->get<std::string>() : "a certain tool";
  }

  void parse_modalities() {
    const Json* modalities = fields_.find("modalities");
    if (modalities == nullptr || *modalities == Json::array({"text"})) return;
    fields_.fail("modalities", "Unsupported 'modalities': this server answers with [\"text\"] only",
                 "unsupported_value");
  }

  void parse_completions() {
    parse_prompts();
    call_.echo = fields_.boolean("echo", false);
    if (const auto n = fields_.integer("max_tokens", 0, kMostTokens))
      call_.max_tokens = static_cast<int>(*n);
    if (call_.max_tokens == 0 && !call_.echo) {
      fields_.fail("max_tokens", "Invalid 'max_tokens': 0 asks for nothing unless 'echo' is true",
                   "invalid_value");
    }
    const Json* logprobs = fields_.find("logprobs");
    if (logprobs != nullptr && *logprobs != false) {
      call_.sampling.top_logprobs =
          static_cast<int>(fields_.integer("logprobs", 0, 0, kMaxTopLogprobs));
    }
    const std::optional<int64_t> best_of = fields_.integer("best_of", 1, kMaxSequencesPerCall);
    if (best_of && *best_of != fields_.integer("n", 1, 1, limits_.max_choices)) {
      fields_.fail("best_of",
                   "Unsupported 'best_of': only the value of 'n' is supported by this server",
                   "unsupported_value");
    }
    fields_.refuse({"suffix"});
  }

  void parse_prompts() {
    const Json* prompt = fields_.find("prompt");
    if (prompt == nullptr) {
      return fields_.fail("prompt", "Missing required parameter: 'prompt'",
                          "missing_required_parameter");
    }
    if (prompt->is_string() ||
        (prompt->is_array() && !prompt->empty() && prompt->front().is_number())) {
      call_.prompts.push_back(parse_prompt(*prompt, "prompt"));
      return;
    }
    if (!prompt->is_array()) {
      return fields_.fail_type("prompt", *prompt,
                               "a string, an array of strings, of token ids, or of arrays of them");
    }
    if (prompt->empty()) {
      return fields_.fail("prompt", "Invalid 'prompt': empty array; send at least one prompt",
                          "invalid_value");
    }
    if (prompt->size() > kMaxSequencesPerCall) {
      return fields_.fail(
          "prompt",
          fmt::format("Invalid 'prompt': {} prompts, but at most {} fit into one request",
                      prompt->size(), kMaxSequencesPerCall),
          "invalid_value");
    }
    for (size_t i = 0; i < prompt->size() && !error_; ++i) {
      call_.prompts.push_back(parse_prompt((*prompt)[i], fmt::format("prompt[{}]", i)));
    }
  }

  PromptInput parse_prompt(const Json& prompt, const std::string& name) {
    if (prompt.is_string()) return prompt.get<std::string>();
    if (prompt.is_array()) return token_ids(prompt, name);
    fields_.fail_type(name, prompt, "a string or an array of token ids");
    return {};
  }

  std::vector<TokenId> token_ids(const Json& array, const std::string& name) {
    std::vector<TokenId> ids;
    ids.reserve(array.size());
    for (size_t i = 0; i < array.size() && !error_; ++i)
      ids.push_back(token_id(array[i], fmt::format("{}[{}]", name, i)));
    return ids;
  }

  TokenId token_id(const Json& value, const std::string& name) {
    if (!value.is_number_integer()) {
      fields_.fail_type(name, value, "a token id");
      return 0;
    }
    const bool in_range = value >= 0 && value < limits_.vocab_size;
    if (!in_range) {
      fields_.fail(name,
                   fmt::format("Invalid '{}': {} is no token id; the vocabulary has {}", name,
                               dump(value), limits_.vocab_size),
                   "invalid_value");
      return 0;
    }
    return value.get<TokenId>();
  }

  void parse_sampling() {
    call_.n = static_cast<int>(fields_.integer("n", 1, 1, limits_.max_choices));
    if (call_.prompts.size() * static_cast<size_t>(call_.n) > kMaxSequencesPerCall) {
      fields_.fail(
          "n",
          fmt::format(
              "Invalid 'n': {} choices of {} prompts are more than {} answers in one request",
              call_.n, call_.prompts.size(), kMaxSequencesPerCall),
          "invalid_value");
    }
    SamplingParams& s = call_.sampling;
    const double temperature = fields_.number("temperature", 1, 0, 2);
    s.temperature = temperature < kLeastTemperature ? 0.0F : static_cast<float>(temperature);
    s.top_p = static_cast<float>(std::max(fields_.number("top_p", 1, 0, 1), kLeastTopP));
    s.min_p = static_cast<float>(fields_.number("min_p", 0, 0, 1));
    s.top_k = static_cast<int>(std::max<int64_t>(fields_.integer("top_k", 0, -1, kMostTokens), 0));
    s.presence_penalty = static_cast<float>(fields_.number("presence_penalty", 0, -2, 2));
    s.frequency_penalty = static_cast<float>(fields_.number("frequency_penalty", 0, -2, 2));
    s.repetition_penalty = static_cast<float>(fields_.number("repetition_penalty", 1, 0.01, 10));
    s.min_tokens = static_cast<int>(fields_.integer("min_tokens", 0, 0, kMostTokens));
    if (call_.max_tokens && s.min_tokens > *call_.max_tokens) {
      fields_.fail(
          "min_tokens",
          fmt::format("Invalid 'min_tokens': {} is more than the {} tokens asked for at most",
                      s.min_tokens, *call_.max_tokens),
          "invalid_value");
    }
    if (const auto seed = fields_.integer("seed", INT64_MIN, INT64_MAX))
      call_.seed = static_cast<uint64_t>(*seed);
  }

  void parse_logit_bias() {
    const Json* bias = fields_.find("logit_bias");
    if (bias == nullptr) return;
    if (!bias->is_object())
      return fields_.fail_type("logit_bias", *bias, "an object from token ids to numbers");
    JsonFields entries(*bias, "logit_bias", error_);
    for (const auto& [key, value] : bias->items()) {
      TokenId id = -1;
      const auto [end, status] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (status != std::errc() || end != key.data() + key.size() || id < 0 ||
          id >= limits_.vocab_size) {
        return entries.fail(
            key,
            fmt::format("Invalid 'logit_bias': '{}' is no token id; the vocabulary has {}",
                        excerpt(key), limits_.vocab_size),
            "invalid_value");
      }
      call_.sampling.logit_bias.emplace_back(id,
                                             static_cast<float>(entries.number(key, 0, -100, 100)));
    }
  }

  void parse_stop() {
    if (const Json* stop = fields_.find("stop")) {
      const std::string expected = "a string or an array of strings";
      const Json list = stop->is_string() ? Json::array({*stop}) : *stop;
      if (!list.is_array()) return fields_.fail_type("stop", list, expected);
      for (const Json& entry : list) {
        if (!entry.is_string()) return fields_.fail_type("stop", entry, expected);
        call_.stop.push_back(entry.get<std::string>());
      }
      if (std::ranges::count(call_.stop, std::string()) > 0) {
        return fields_.fail("stop", "Invalid 'stop': a stop string is empty", "invalid_value");
      }
      if (call_.stop.size() > kMaxStopStrings) {
        return fields_.fail(
            "stop",
            fmt::format("Invalid 'stop': {} stop strings, but at most {} are supported",
                        call_.stop.size(), kMaxStopStrings),
            "invalid_value");
      }
    }
    call_.include_stop = fields_.boolean("include_stop_str_in_output", false);
    call_.ignore_eos = fields_.boolean("ignore_eos", false);
    call_.skip_special_tokens = fields_.boolean("skip_special_tokens", true);
    if (const Json* ids = fields_.find("stop_token_ids")) {
      if (!ids->is_array())
        return fields_.fail_type("stop_token_ids", *ids, "an array of token ids");
      call_.stop_token_ids = token_ids(*ids, "stop_token_ids");
    }
  }

  void parse_stream() {
    call_.stream = fields_.boolean("stream", false);
    call_.return_token_ids = fields_.boolean("return_token_ids", false);
    const Json* options = fields_.find("stream_options");
    if (options == nullptr) return;
    if (!options->is_object()) return fields_.fail_type("stream_options", *options, "an object");
    if (!call_.stream) {
      return fields_.fail("stream_options", "'stream_options' needs 'stream' to be true",
                          "invalid_value");
    }
    JsonFields fields(*options, "stream_options", error_);
    call_.include_usage = fields.boolean("include_usage", false);
    call_.continuous_usage = fields.boolean("continuous_usage_stats", false);
    if (fields.boolean("include_obfuscation", false)) {
      fields.fail("include_obfuscation",
                  "Unsupported parameter: 'stream_options.include_obfuscation' is not supported",
                  "unsupported_parameter");
    }
    fields.refuse_unknown();
  }

  // In milliseconds; what is absent is as the server was started with.
  void parse_times() {
    const auto time = [&](std::string_view name) {
      return std::chrono::milliseconds(fields_.integer(name, 0, 1, kMostMilliseconds));
    };
    call_.limits.itl_target = time("itl_target_ms");
    call_.limits.deadlines = {.first_token = time("ttft_timeout_ms"),
                              .token = time("token_timeout_ms"),
                              .request = time("request_timeout_ms")};
  }

  void parse_without_effect() {
    const Json* format = fields_.find("response_format");
    if (format != nullptr && *format != Json{{"type", "text"}}) {
      fields_.fail("response_format",
                   "Unsupported 'response_format': only {\"type\": \"text\"} is supported",
                   "unsupported_value");
    }
    fields_.accept({"user", "metadata", "store", "service_tier", "safety_identifier",
                    "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
                    "parallel_tool_calls"});
    if (fields_.boolean("use_beam_search", false)) {
      fields_.fail("use_beam_search",
                   "Unsupported parameter: 'use_beam_search' is not supported by this server",
                   "unsupported_parameter");
    }
  }

  std::optional<ApiError> error_;
  JsonFields fields_;
  const ApiLimits& limits_;
  ApiCall call_;
};

}  // namespace

ApiResult<ApiCall> parse_call(Endpoint endpoint, std::string_view body, const ApiLimits& limits) {
  ApiResult<Json> json = parse_json(body);
  if (auto* error = std::get_if<ApiError>(&json)) return std::move(*error);
  const Json& value = std::get<Json>(json);
  if (!value.is_object()) {
    return ApiError{
        .message = fmt::format("The request body must be a JSON object, but is {}", kind_of(value)),
        .code = "invalid_type"};
  }
  return CallParser(value, limits, endpoint).parse();
}

}  // namespace weft
