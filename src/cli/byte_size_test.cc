#include "cli/byte_size.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(ByteSize, ParsesPowersOf1024) {
  EXPECT_EQ(*parse_bytes("4096"), 4096U);
  EXPECT_EQ(*parse_bytes("2K"), 2048U);
  EXPECT_EQ(*parse_bytes("512m"), 512U << 20U);
  EXPECT_EQ(*parse_bytes("1.5G"), 3U << 29U);
  EXPECT_EQ(*parse_bytes("4GiB"), 4ULL << 30U);
  EXPECT_EQ(*parse_bytes("1TB"), 1ULL << 40U);
  EXPECT_EQ(*parse_bytes("7B"), 7U);
}

TEST(ByteSize, RefusesWhatIsNoAmount) {
  for (const char* text : {"", "G", "-1", "4X", "4GG", "4 G", "nan", "inf", "1e300", "99999999T"}) {
    const auto result = parse_bytes(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_NE(result.error().message.find(fmt::format("'{}'", text)), std::string::npos);
  }
}

TEST(ByteSize, FormatsForPeople) {
  EXPECT_EQ(format_bytes(0), "0 bytes");
  EXPECT_EQ(format_bytes(1023), "1023 bytes");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(300ULL << 20U), "300 MiB");
  EXPECT_EQ(format_bytes(5ULL << 40U), "5.0 TiB");
}

}  // namespace
}  // namespace weft
