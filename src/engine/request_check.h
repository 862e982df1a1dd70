#pragma once
// The edge where a request is held against what is loaded; behind it every value is usable.

#include "base/result.h"
#include "engine/request.h"

namespace weft {

// An error names the value, for the client. `context`: the longest sequence, prompt and output
// together.
Status check_request(const Request& request, int vocab, int context);

}  // namespace weft
