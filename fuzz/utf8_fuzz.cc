// Bytes as a stream of pieces: repaired text is valid and stable, halves of characters are held
// back rightly, and stop strings are found wherever the pieces are cut.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "text/incremental_decoder.h"
#include "text/stop_matcher.h"

namespace {

// The same cut twice: what is complete now, and the rest later.
void check_repair(std::string_view text, size_t cut) {
  const std::string whole = weft::repair_utf8(text);
  WEFT_CHECK(weft::repair_utf8(whole) == whole, "repaired text is not valid");
  WEFT_CHECK(weft::incomplete_suffix(whole) == 0, "repaired text ends inside a character");
  const std::string_view front = text.substr(0, cut);
  const size_t complete = front.size() - weft::incomplete_suffix(front);
  WEFT_CHECK(complete + 3 >= front.size(), "more than three bytes are held back");
  const std::string joined =
      weft::repair_utf8(text.substr(0, complete)) + weft::repair_utf8(text.substr(complete));
  WEFT_CHECK(joined == whole, "the cut shows");
}

void check_stops(std::string_view text, std::string_view stop, size_t cut) {
  weft::StopMatcher whole({std::string(stop)});
  const std::string expected = whole.push(text) + whole.finish();
  weft::StopMatcher pieces({std::string(stop)});
  const std::string joined =
      pieces.push(text.substr(0, cut)) + pieces.push(text.substr(cut)) + pieces.finish();
  WEFT_CHECK(joined == expected && pieces.stopped() == whole.stopped(), "the cut shows");
  const size_t found = text.find(stop);
  WEFT_CHECK(whole.stopped() == (found != std::string_view::npos), "a stop string was missed");
  WEFT_CHECK(expected == text.substr(0, found), "the text before the stop string differs");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string_view text = bytes.substr(2);
  const size_t cut = text.empty() ? 0 : data[0] % (text.size() + 1);
  check_repair(text, cut);
  const size_t stop_size = 1 + data[1] % 8;
  if (text.size() >= stop_size)
    check_stops(text.substr(stop_size), text.substr(0, stop_size),
                cut % (text.size() - stop_size + 1));
  return 0;
}
