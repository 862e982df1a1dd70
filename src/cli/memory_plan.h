#pragma once
// How large the KV pool is and how long a sequence may become.

#include <cstdint>

#include "base/result.h"

namespace weft {

struct MemoryRequest {
  uint64_t available = 0;     // bytes free before the weights are packed
  uint64_t weight_bytes = 0;  // that the packed weights will take
  uint64_t block_bytes = 0;   // of one KV block over all layers
  uint64_t kv_memory = 0;     // bytes of the pool; 0: half of what is free after the weights
  int trained_context = 0;
  int context = 0;        // longest sequence; 0: as long as trained, as far as the pool allows
  int max_sequences = 1;  // that run at once: the default pool is no larger than they can fill
};

struct MemoryPlan {
  int context = 0;
  int blocks = 0;
};

// Errors name the flag to change and a value that would work.
Result<MemoryPlan> plan_memory(const MemoryRequest& request);

}  // namespace weft
