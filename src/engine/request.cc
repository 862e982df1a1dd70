#include "engine/request.h"

namespace weft {

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kTimeout:
      return "timeout";
    case FinishReason::kError:
      return "error";
  }
  return "unknown";
}

std::string_view deadline_name(Deadline deadline) {
  switch (deadline) {
    case Deadline::kFirstToken:
      return "ttft_timeout";
    case Deadline::kToken:
      return "token_timeout";
    case Deadline::kRequest:
      return "request_timeout";
  }
  return "timeout";
}

}  // namespace weft
