#pragma once
// What all kernels' tests share: how many orders of the twin they run in.

#include <cstdlib>

namespace weft_ascend::testing {

// WEFT_TWIN_SEEDS, or 50.
inline int Seeds() {
  const char* text = std::getenv("WEFT_TWIN_SEEDS");
  const int seeds = text == nullptr ? 0 : std::atoi(text);
  return seeds > 0 ? seeds : 50;
}

}  // namespace weft_ascend::testing
