#include "instruction.h"

#include <fmt/format.h>

#include <cstring>

namespace weft::twin {
namespace {

constexpr const char* kPipeNames[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"};

struct EventPipes {
  pipe_t source, target;
  const char* name;
};
#define WEFT_TWIN_EVENT(source, target) {PIPE_##source, PIPE_##target, #source "_" #target}
// In the order of HardEvent.
constexpr EventPipes kEvents[] = {
    WEFT_TWIN_EVENT(MTE2, MTE1), WEFT_TWIN_EVENT(MTE1, MTE2), WEFT_TWIN_EVENT(MTE1, M),
    WEFT_TWIN_EVENT(M, MTE1),    WEFT_TWIN_EVENT(MTE2, V),    WEFT_TWIN_EVENT(V, MTE2),
    WEFT_TWIN_EVENT(MTE3, V),    WEFT_TWIN_EVENT(V, MTE3),    WEFT_TWIN_EVENT(M, V),
    WEFT_TWIN_EVENT(V, M),       WEFT_TWIN_EVENT(V, V),       WEFT_TWIN_EVENT(MTE3, MTE1),
    WEFT_TWIN_EVENT(MTE1, MTE3), WEFT_TWIN_EVENT(MTE1, V),    WEFT_TWIN_EVENT(V, MTE1),
    WEFT_TWIN_EVENT(MTE2, M),    WEFT_TWIN_EVENT(M, MTE2),    WEFT_TWIN_EVENT(M, FIX),
    WEFT_TWIN_EVENT(FIX, M),     WEFT_TWIN_EVENT(MTE3, MTE2), WEFT_TWIN_EVENT(MTE2, MTE3),
    WEFT_TWIN_EVENT(S, V),       WEFT_TWIN_EVENT(V, S),       WEFT_TWIN_EVENT(S, MTE2),
    WEFT_TWIN_EVENT(MTE2, S),    WEFT_TWIN_EVENT(S, MTE3),    WEFT_TWIN_EVENT(MTE3, S),
    WEFT_TWIN_EVENT(S, M),       WEFT_TWIN_EVENT(M, S),       WEFT_TWIN_EVENT(S, MTE1),
    WEFT_TWIN_EVENT(MTE1, S),    WEFT_TWIN_EVENT(S, FIX),     WEFT_TWIN_EVENT(FIX, S),
    WEFT_TWIN_EVENT(FIX, MTE2),  WEFT_TWIN_EVENT(MTE2, FIX),  WEFT_TWIN_EVENT(FIX, MTE3),
    WEFT_TWIN_EVENT(MTE3, FIX),  WEFT_TWIN_EVENT(FIX, MTE1),  WEFT_TWIN_EVENT(MTE1, FIX),
    WEFT_TWIN_EVENT(FIX, V),     WEFT_TWIN_EVENT(V, FIX),     WEFT_TWIN_EVENT(M, MTE3),
    WEFT_TWIN_EVENT(MTE3, M),
};
#undef WEFT_TWIN_EVENT
static_assert(sizeof(kEvents) / sizeof(kEvents[0]) == kHardEvents);

}  // namespace

const char* pipe_name(pipe_t pipe) { return pipe < kPipes ? kPipeNames[pipe] : "ALL"; }
const char* event_name(AscendC::HardEvent event) {
  return event < AscendC::HardEvent::MAX ? kEvents[static_cast<int>(event)].name : "none";
}
pipe_t event_source(AscendC::HardEvent event) { return kEvents[static_cast<int>(event)].source; }
pipe_t event_target(AscendC::HardEvent event) { return kEvents[static_cast<int>(event)].target; }

AscendC::HardEvent event_between(pipe_t source, pipe_t target) {
  for (int i = 0; i < kHardEvents; ++i) {
    if (kEvents[i].source == source && kEvents[i].target == target) {
      return static_cast<AscendC::HardEvent>(i);
    }
  }
  return AscendC::HardEvent::MAX;
}

const char* buffer_name(Buffer buffer) {
  constexpr const char* kNames[] = {"UB", "L1", "L0A", "L0B", "L0C"};
  return kNames[static_cast<int>(buffer)];
}

const char* short_path(const char* file) {
  const char* found = nullptr;
  for (const char* at = file; (at = std::strstr(at, "ascend/")) != nullptr; ++at) found = at;
  return found == nullptr ? file : found;
}

std::string place_of(const Where& where) {
  return fmt::format("{}:{}", short_path(where.file_name()), where.line());
}

}  // namespace weft::twin
