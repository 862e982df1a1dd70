#pragma once
// How prompts and running streams share the device (docs/architecture.md).

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft {

enum class Mode : uint8_t { kSerial, kChunked, kLayered, kFused, kSplit, kAuto };
inline constexpr std::string_view kModeNames[] = {"serial", "chunked", "layered",
                                                  "fused",  "split",   "auto"};
inline std::string_view mode_name(Mode mode) { return kModeNames[static_cast<size_t>(mode)]; }
inline std::optional<Mode> find_mode(std::string_view name) {
  for (size_t i = 0; i < std::size(kModeNames); ++i) {
    if (kModeNames[i] == name) return static_cast<Mode>(i);
  }
  return std::nullopt;
}
// In these a stream's gaps are held to the target.
inline bool keeps_target(Mode mode) { return mode >= Mode::kFused; }
// In these prompts and streams have cores of their own.
inline bool has_groups(Mode mode) { return mode == Mode::kSplit || mode == Mode::kAuto; }

}  // namespace weft
