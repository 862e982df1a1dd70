#include "cli/text_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TextFile : public testing::Test {
 protected:
  TextFile() { fs::create_directory(folder_); }
  ~TextFile() override { fs::remove_all(folder_); }
  const fs::path folder_ = fs::path(testing::TempDir()) / fmt::format("text-{}", getpid());
};

TEST_F(TextFile, ReadsWhatWasWritten) {
  for (const std::string& text : {std::string("two\nlines\r\n"), std::string()}) {
    ASSERT_TRUE(write_text(folder_ / "it", text).ok());
    const auto read = read_text(folder_ / "it");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(*read, text);
  }
}

TEST_F(TextFile, AnErrorNamesThePath) {
  const fs::path nowhere = folder_ / "none" / "it";
  for (const Status& status : {write_text(nowhere, "x"), check_writable(nowhere),
                               write_text(folder_, "x"), check_writable(folder_)}) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::kIo);
    EXPECT_THAT(status.error().message, HasSubstr("cannot write " + folder_.string()));
  }
  for (const fs::path& path : {nowhere, folder_}) {
    const auto read = read_text(path);
    ASSERT_FALSE(read.ok());
    EXPECT_THAT(read.error().message, HasSubstr("cannot read " + path.string()));
  }
}

TEST_F(TextFile, ACheckLeavesThingsAsTheyAre) {
  EXPECT_TRUE(check_writable(folder_ / "new").ok());
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  ASSERT_TRUE(write_text(folder_ / "old", "kept").ok());
  EXPECT_TRUE(check_writable(folder_ / "old").ok());
  EXPECT_EQ(*read_text(folder_ / "old"), "kept");
  EXPECT_TRUE(check_writable({}).ok());
}

}  // namespace
}  // namespace weft
