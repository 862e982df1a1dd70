#include "server/logprobs_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "text/incremental_decoder.h"

namespace weft {
namespace {

// JSON has no infinity; this is what clients of the API know as "impossible".
constexpr float kLeastLogprob = -9999.0F;
float finite(float logprob) { return std::max(logprob, kLeastLogprob); }

Json chat_token(TokenId token, float logprob, const Tokenizer& tokenizer) {
  const std::string_view bytes = tokenizer.token_bytes(token);
  Json out;
  out["token"] = repair_utf8(bytes);
  out["logprob"] = finite(logprob);
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  out["bytes"] = std::move(list);
  return out;
}

// Token texts are keys here, so those that are no whole characters must stay apart:
// "bytes:\xe2\x80".
std::string completion_token(TokenId token, const Tokenizer& tokenizer) {
  const std::string_view bytes = tokenizer.token_bytes(token);
  if (repair_utf8(bytes) == bytes) return std::string(bytes);
  std::string out = "bytes:";
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

}  // namespace

Json chat_logprobs(std::span<const TokenInfo> tokens, const Tokenizer& tokenizer) {
  Json content = Json::array();
  for (const TokenInfo& info : tokens) {
    Json entry = chat_token(info.token, info.logprob.value_or(0), tokenizer);
    Json top = Json::array();
    for (const TokenLogprob& t : info.top) top.push_back(chat_token(t.token, t.logprob, tokenizer));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  Json out;
  out["content"] = std::move(content);
  out["refusal"] = nullptr;
  return out;
}

Json completion_logprobs(std::span<const TokenInfo> tokens, const Tokenizer& tokenizer) {
  Json offsets = Json::array();
  Json logprobs = Json::array();
  Json texts = Json::array();
  Json tops = Json::array();
  for (const TokenInfo& info : tokens) {
    std::string text = completion_token(info.token, tokenizer);
    offsets.push_back(info.text_offset);
    logprobs.push_back(info.logprob ? Json(finite(*info.logprob)) : Json(nullptr));
    if (info.logprob) {
      Json top = Json::object();
      for (const TokenLogprob& t : info.top)
        top[completion_token(t.token, tokenizer)] = finite(t.logprob);
      top[text] = finite(*info.logprob);
      tops.push_back(std::move(top));
    } else {
      tops.push_back(nullptr);
    }
    texts.push_back(std::move(text));
  }
  Json out;
  out["text_offset"] = std::move(offsets);
  out["token_logprobs"] = std::move(logprobs);
  out["tokens"] = std::move(texts);
  out["top_logprobs"] = std::move(tops);
  return out;
}

}  // namespace weft
