#pragma once
// Finds stop strings in a stream of text pieces.

#include <string>
#include <string_view>
#include <vector>

namespace weft {

// One per stream; not thread-safe. Time per piece is linear in its length, whatever the stop
// strings.
class StopMatcher {
 public:
  // `stops`: none empty. `include_stop`: the stop string itself is emitted too.
  explicit StopMatcher(std::vector<std::string> stops, bool include_stop = false);

  // The text that may be shown after this piece: everything but the longest suffix that could still
  // grow into a stop string. The match that ends first counts, of several that end together the
  // longest, so that the way a text is cut into pieces makes no difference. After a match stopped()
  // is true and further pieces give nothing.
  std::string push(std::string_view piece);
  // The end of the stream: what was held back.
  std::string finish();
  bool stopped() const { return stopped_; }
  // The stop string that matched; empty before.
  const std::string& matched() const { return matched_; }

 private:
  // A stop string as a Knuth-Morris-Pratt automaton.
  struct Pattern {
    explicit Pattern(std::string stop);
    void advance(char c);
    bool complete() const { return seen == text.size(); }

    std::string text;
    std::vector<size_t>
        border;       // [size]: longest proper prefix of text[0..i] that is its suffix too
    size_t seen = 0;  // length of the longest prefix that the stream ends with
  };
  // After a character: the longest stop string that it completes, or null.
  const Pattern* completed() const;

  std::vector<Pattern> patterns_;
  bool include_stop_;
  bool stopped_ = false;
  std::string matched_;
  std::string held_;
};

}  // namespace weft
