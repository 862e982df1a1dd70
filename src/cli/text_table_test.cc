#include "cli/text_table.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TextTable table() {
  TextTable table({"kernel", "", "us"}, 2);
  table.add({"a", "small", "1.5"});
  table.add({"larger", "", "123.0"});
  return table;
}

TEST(TextTable, ColumnsAreAligned) {
  EXPECT_EQ(table().text(),
            "kernel            us\n"
            "a       small    1.5\n"
            "larger         123.0\n");
}

TEST(TextTable, AsMarkdown) {
  EXPECT_EQ(table().markdown(),
            "| kernel |  | us |\n"
            "|---|---|---|\n"
            "| a | small | 1.5 |\n"
            "| larger |  | 123.0 |\n");
}

}  // namespace
}  // namespace weft
