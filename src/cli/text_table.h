#pragma once
// TextTable: cells in columns, for a terminal or as Markdown.

#include <cstddef>
#include <string>
#include <vector>

namespace weft {

class TextTable {
 public:
  // The first `left` columns begin at their left, the others end at their right.
  explicit TextTable(std::vector<std::string> header, size_t left = 1);

  // As many cells as the header has.
  void add(std::vector<std::string> cells);

  std::string text() const;
  std::string markdown() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the header first
  size_t left_;
};

}  // namespace weft
