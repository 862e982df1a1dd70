#include "engine/scheduler.h"

namespace weft {

Policy policy_of(Mode mode) {
  switch (mode) {
    case Mode::kSerial:
      return plan_serial;
    case Mode::kChunked:
      return plan_chunked;
    case Mode::kLayered:
      return plan_layered;
    case Mode::kFused:
      return plan_fused;
    case Mode::kSplit:
      return plan_split;
    case Mode::kAuto:
      return plan_auto;
  }
  return plan_fused;
}

}  // namespace weft
