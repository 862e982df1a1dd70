#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weft {

StopMatcher::Pattern::Pattern(std::string stop) : text(std::move(stop)), border(text.size(), 0) {
  for (size_t i = 1; i < text.size(); ++i) {
    size_t length = border[i - 1];
    while (length > 0 && text[length] != text[i]) length = border[length - 1];
    border[i] = text[length] == text[i] ? length + 1 : 0;
  }
}

void StopMatcher::Pattern::advance(char c) {
  while (seen > 0 && text[seen] != c) seen = border[seen - 1];
  if (text[seen] == c) ++seen;
}

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop)
    : include_stop_(include_stop) {
  for (std::string& stop : stops) {
    WEFT_CHECK(!stop.empty(), "an empty stop string");
    patterns_.emplace_back(std::move(stop));
  }
}

const StopMatcher::Pattern* StopMatcher::completed() const {
  const Pattern* longest = nullptr;
  for (const Pattern& pattern : patterns_) {
    if (!pattern.complete()) continue;
    if (longest == nullptr || pattern.text.size() > longest->text.size()) longest = &pattern;
  }
  return longest;
}

std::string StopMatcher::push(std::string_view piece) {
  if (stopped_) return {};
  for (size_t i = 0; i < piece.size(); ++i) {
    for (Pattern& pattern : patterns_) pattern.advance(piece[i]);
    if (const Pattern* match = completed()) {
      stopped_ = true;
      matched_ = match->text;
      std::string shown = std::exchange(held_, {});
      shown += piece.substr(0, i + 1);
      if (!include_stop_) shown.resize(shown.size() - matched_.size());
      return shown;
    }
  }
  held_ += piece;
  size_t kept = 0;
  for (const Pattern& pattern : patterns_) kept = std::max(kept, pattern.seen);
  std::string shown = held_.substr(0, held_.size() - kept);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

}  // namespace weft
