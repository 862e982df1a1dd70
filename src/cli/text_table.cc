#include "cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weft {

TextTable::TextTable(std::vector<std::string> header, size_t left) : left_(left) {
  rows_.push_back(std::move(header));
}

void TextTable::add(std::vector<std::string> cells) {
  WEFT_CHECK(cells.size() == rows_.front().size(), "{} cells in a table of {} columns",
             cells.size(), rows_.front().size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  std::vector<size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += i < left_ ? fmt::format("{:<{}}", row[i], widths[i])
                        : fmt::format("{:>{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string TextTable::markdown() const {
  std::string text;
  for (size_t i = 0; i < rows_.size(); ++i) {
    text += fmt::format("| {} |\n", fmt::join(rows_[i], " | "));
    if (i > 0) continue;
    for (size_t column = 0; column < rows_[i].size(); ++column) text += "|---";
    text += "|\n";
  }
  return text;
}

}  // namespace weft
