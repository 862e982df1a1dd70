#pragma once
// What all kernels' tests share: how many orders of the twin they run in, and the team of a launch
// whose blocks all do one thing.

#include <cstdint>
#include <cstdlib>

#include "kernel_operator.h"
#include "team.h"

namespace weft_ascend::testing {

// WEFT_TWIN_SEEDS, or 50.
inline int Seeds() {
  const char* text = std::getenv("WEFT_TWIN_SEEDS");
  const int seeds = text == nullptr ? 0 : std::atoi(text);
  return seeds > 0 ? seeds : 50;
}

__aicore__ inline Team WholeLaunch() {
  auto block = static_cast<int32_t>(AscendC::GetBlockIdx());
  if ASCEND_IS_AIV {
    block /= kVectorCores;  // its index counts vector cores
  }
  return {block, static_cast<int32_t>(AscendC::GetBlockNum())};
}

}  // namespace weft_ascend::testing
