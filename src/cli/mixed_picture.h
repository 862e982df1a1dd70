#pragma once
// The results of `weft bench mixed` as one page with pictures and no outside parts.

#include <string>

#include "cli/mixed_report.h"

namespace weft {

// Gaps over time around the longest prompt, one picture for each subject with the same axes, and
// the figures of all phases as bars. Follows the reader's light or dark theme.
std::string mixed_page(const MixedResult& result);

// Its pictures alone, one below the other, as an SVG file.
std::string mixed_svg(const MixedResult& result);

// "a < b" as text in HTML.
std::string html_text(std::string_view text);

}  // namespace weft
