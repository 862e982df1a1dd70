#pragma once
// What all tests on the twin share: in how many orders of its pipes they run.

#include <cstdlib>
#include <string>

namespace weft_ascend::testing {

// What the environment says.
inline std::string Setting(const char* name, const std::string& otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : text;
}

// WEFT_TWIN_SEEDS, or 50.
inline int Seeds() {
  const int seeds = std::atoi(Setting("WEFT_TWIN_SEEDS", "50").c_str());
  return seeds > 0 ? seeds : 50;
}

}  // namespace weft_ascend::testing
