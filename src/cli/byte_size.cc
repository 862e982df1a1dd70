#include "cli/byte_size.h"

#include <array>
#include <charconv>
#include <cmath>

namespace weft {

Result<uint64_t> parse_bytes(std::string_view text) {
  constexpr std::string_view kSuffixes = "KMGT";
  const Error error{ErrorKind::kInvalidArgument,
                    fmt::format("'{}' is no amount of memory; write it as 4G or 512M", text)};
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || !(number >= 0)) return error;
  std::string_view suffix = text.substr(static_cast<size_t>(end - text.data()));
  double unit = 1;
  if (!suffix.empty()) {
    const char letter = suffix[0] >= 'a' ? static_cast<char>(suffix[0] - 'a' + 'A') : suffix[0];
    const size_t power = kSuffixes.find(letter);
    if (power != std::string_view::npos) {
      unit = std::exp2(10.0 * static_cast<double>(power + 1));
      suffix.remove_prefix(1);
    }
    if (!suffix.empty() && suffix != "B" && suffix != "iB") return error;
  }
  const double bytes = number * unit;
  if (!(bytes < 0x1p63)) return error;
  return static_cast<uint64_t>(bytes);
}

std::string format_bytes(uint64_t bytes) {
  constexpr std::array<std::string_view, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, value < 100 ? 1 : 0, kUnits[unit]);
}

}  // namespace weft
