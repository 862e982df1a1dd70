#pragma once
// Finds stop strings in a stream of text pieces.

#include <string>
#include <string_view>
#include <vector>

namespace weft {

// One per stream; not thread-safe.
class StopMatcher {
 public:
  // `stops`: none empty. `include_stop`: the stop string itself is emitted too.
  explicit StopMatcher(std::vector<std::string> stops, bool include_stop = false);

  // The text that may be shown after this piece: everything but the longest suffix that could still grow into a stop
  // string. After a stop matched (the earliest match counts), stopped() is true and further pieces give nothing.
  std::string push(std::string_view piece);
  // The end of the stream: what was held back.
  std::string finish();
  bool stopped() const { return stopped_; }
  // The stop string that matched; empty before.
  const std::string& matched() const { return matched_; }

 private:
  std::vector<std::string> stops_;
  bool include_stop_;
  bool stopped_ = false;
  std::string matched_;
  std::string held_;
};

}  // namespace weft
