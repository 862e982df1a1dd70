#pragma once
// What a caller asks of the engine, and what it hears back.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "device/sampling.h"

namespace weft {

using RequestId = uint64_t;

enum class FinishReason : uint8_t {
  kStop,       // an end token, or a stop string that the caller found
  kLength,     // max_tokens, or the context is full
  kCancelled,  // the caller left
  kTimeout,
  kError,
};
std::string_view finish_reason_name(
    FinishReason reason);  // "stop", "length", "cancelled", "timeout", "error"

// A time limit that a request can miss.
enum class Deadline : uint8_t {
  kFirstToken,  // from arrival to the first token
  kToken,       // from one token to the next
  kRequest,     // from arrival to the end
};
std::string_view deadline_name(Deadline deadline);  // "ttft_timeout", "token_timeout", ...

// 0: none.
struct Deadlines {
  Duration first_token{};
  Duration token{};
  Duration request{};
};

// 0: the engine's.
struct RequestLimits {
  Duration itl_target{};  // of the gaps between its tokens
  Deadlines deadlines;
};

struct Request {
  std::vector<TokenId> prompt;  // at least one token
  int max_tokens = 0;  // outputs at most; 0 only with prompt_logprobs (nothing is generated)
  SamplingParams sampling;
  std::optional<uint64_t> seed;  // absent: drawn once from the system
  uint32_t choice = 0;           // index among the n choices of one client request
  std::vector<TokenId> end_ids;  // a token that ends the request; empty: none does (ignore_eos)
  int prompt_logprobs =
      -1;  // -1: none; n: for each prompt token but the first its logprob and the n likeliest
  RequestLimits limits;
};

struct EngineEvent {
  enum class Kind : uint8_t {
    kPromptLogprob,  // one for each prompt token but the first, in order, before the first kToken
    kToken,          // one for each output token, the end token too
    kFinished,       // exactly one, the last
  };
  Kind kind = Kind::kToken;
  RequestId request = 0;
  TokenId token = -1;
  float logprob = 0;                          // as asked for
  std::vector<TokenLogprob> top;              // descending, as asked for
  FinishReason reason = FinishReason::kStop;  // kFinished
  std::string message;                        // kFinished by error: for the client, one line
  Deadline deadline = Deadline::kRequest;     // kFinished by timeout
  int prompt_tokens = 0;                      // kFinished
  int cached_tokens = 0;  // of the prompt, found in the prefix cache; after admission
  int output_tokens = 0;  // kFinished
};

// Receives one request's events, on the engine thread: it must return quickly and never block (post
// to a queue). The engine holds it until kFinished was delivered. An exception that leaves it ends
// this request with kError.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_event(EngineEvent event) = 0;
};

}  // namespace weft
