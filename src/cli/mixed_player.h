#pragma once
// Something that answers requests, as `weft bench mixed` sees it: our engine, our server, another
// server.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/types.h"

namespace weft {

struct PlayerRequest {
  uint64_t id = 0;  // the caller's, never used again
  std::vector<TokenId> prompt;
  int output = 0;  // tokens; an end token does not end it
};

struct PlayerEvent {
  enum class Kind : uint8_t {
    kToken,     // one more has arrived
    kFinished,  // the last of a request, also of one that was cancelled
  };
  uint64_t id = 0;
  Kind kind = Kind::kToken;
  TimePoint at{};     // by the receiving side's clock
  std::string error;  // kFinished: why it failed; empty if it did not
};

// One thread uses it.
class Player {
 public:
  virtual ~Player() = default;
  virtual TimePoint now() const = 0;
  // Returns at once. What goes wrong later is in the request's kFinished.
  virtual Status send(PlayerRequest request) = 0;
  // Nobody waits for the rest. Ids that have ended are ignored.
  virtual void cancel(uint64_t id) = 0;
  // The next event in order of arrival; nothing at the deadline.
  virtual std::optional<PlayerEvent> next(TimePoint deadline) = 0;
};

}  // namespace weft
