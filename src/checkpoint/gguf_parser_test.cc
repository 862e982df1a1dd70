// Every way in which a GGUF can lie, one line each: the error must name the file, the field and the
// value.

#include "checkpoint/gguf_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "checkpoint/byte_builder.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr uint32_t kU8 = 0, kU32 = 4, kBool = 7, kString = 8, kArray = 9;
constexpr uint32_t kF32 = 0, kQ4_0 = 2, kQ8_0 = 8, kQ6_K = 14;
constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();

struct Lie {
  const char* name;
  std::vector<std::byte> bytes;
  ErrorKind kind;
  std::vector<std::string> says;
};

void expect_refused(const std::vector<Lie>& lies) {
  for (const Lie& lie : lies) {
    const Result<GgufPart> parsed = parse_gguf(lie.bytes, "a.gguf");
    ASSERT_FALSE(parsed.ok()) << lie.name;
    const std::string& message = parsed.error().message;
    EXPECT_EQ(parsed.error().kind, lie.kind) << lie.name << ": " << message;
    EXPECT_THAT(message, StartsWith("a.gguf: ")) << lie.name;
    EXPECT_THAT(message, Not(HasSubstr("\n"))) << lie.name;
    for (const std::string& part : lie.says) EXPECT_THAT(message, HasSubstr(part)) << lie.name;
  }
}

constexpr ErrorKind kCorrupt = ErrorKind::kCorrupt;
constexpr ErrorKind kUnsupported = ErrorKind::kUnsupported;

TEST(GgufParser, RefusesABadHeader) {
  expect_refused({
      {"empty", {}, kCorrupt, {"byte 0", "magic number"}},
      {"another file",
       ByteBuilder().raw("PK\3\4").zeros(60).take(),
       kCorrupt,
       {"not a GGUF", "0x04034b50"}},
      {"no version", ByteBuilder().raw("GGUF").take(), kCorrupt, {"byte 4", "version"}},
      {"version 1",
       ByteBuilder().raw("GGUF").put<uint32_t>(1).zeros(16).take(),
       kUnsupported,
       {"version 1 "}},
      {"version 4",
       ByteBuilder().raw("GGUF").put<uint32_t>(4).zeros(16).take(),
       kUnsupported,
       {"version 4 "}},
      {"big-endian",
       ByteBuilder().raw("GGUF").put<uint32_t>(0x03000000).zeros(16).take(),
       kUnsupported,
       {"big-endian"}},
      {"no counts",
       ByteBuilder().raw("GGUF").put<uint32_t>(3).take(),
       kCorrupt,
       {"byte 8", "tensor count"}},
      {"one count",
       ByteBuilder().raw("GGUF").put<uint32_t>(3).put<uint64_t>(0).take(),
       kCorrupt,
       {"metadata count"}},
      {"metadata count",
       ByteBuilder().header(0, kHuge).zeros(64).take(),
       kCorrupt,
       {"metadata count 18446744073709551615", "88 bytes"}},
      {"tensor count",
       ByteBuilder().header(1u << 30, 0).zeros(64).take(),
       kCorrupt,
       {"tensor count 1073741824", "88 bytes"}},
  });
}

TEST(GgufParser, RefusesBadMetadata) {
  expect_refused({
      {"key length",
       ByteBuilder().header(0, 1).put(kHuge).zeros(32).take(),
       kCorrupt,
       {"metadata key 0", "length 18446744073709551615", "32 bytes"}},
      {"key ends early",
       ByteBuilder().header(0, 1).put<uint64_t>(6).raw("abcdef").take(),
       kCorrupt,
       {"'abcdef'", "truncated"}},
      {"empty key",
       ByteBuilder().header(0, 1).key("", kU8).zeros(8).take(),
       kCorrupt,
       {"metadata key 0 is empty"}},
      {"long key",
       ByteBuilder().header(0, 1).key(std::string(65536, 'k'), kU8).zeros(8).take(),
       kCorrupt,
       {"65536 bytes long"}},
      {"line break in a key",
       ByteBuilder().header(0, 1).key("a\nb", 77).zeros(8).take(),
       kCorrupt,
       {"'a\\nb'", "77"}},
      {"duplicate key",
       ByteBuilder().header(0, 2).key("a.b", kU8).zeros(1).key("a.b", kU8).zeros(1).take(),
       kCorrupt,
       {"'a.b' appears twice"}},
      {"value type",
       ByteBuilder().header(0, 1).key("a.b", 13).zeros(8).take(),
       kCorrupt,
       {"'a.b'", "value type 13"}},
      {"truncated number",
       ByteBuilder().header(0, 1).key("a.b", kU32).zeros(3).take(),
       kCorrupt,
       {"'a.b'", "truncated"}},
      {"boolean",
       ByteBuilder().header(0, 1).key("a.b", kBool).put<uint8_t>(2).take(),
       kCorrupt,
       {"'a.b'", "holds 2"}},
      {"string length",
       ByteBuilder().header(0, 1).key("a.b", kString).put<uint64_t>(9).zeros(8).take(),
       kCorrupt,
       {"'a.b'", "length 9", "8 bytes"}},
  });
}

TEST(GgufParser, RefusesBadArrays) {
  const auto array = [](uint32_t type, uint64_t count) {
    return ByteBuilder().header(0, 1).key("a.b", kArray).put(type).put(count);
  };
  expect_refused({
      {"nested", array(kArray, 1).zeros(32).take(), kUnsupported, {"'a.b'", "array of arrays"}},
      {"element type", array(99, 1).zeros(32).take(), kCorrupt, {"'a.b'", "value type 99"}},
      {"no count",
       ByteBuilder().header(0, 1).key("a.b", kArray).put(kU8).take(),
       kCorrupt,
       {"'a.b'", "truncated"}},
      {"numbers", array(kU32, 9).zeros(35).take(), kCorrupt, {"'a.b'", "9 elements", "35 bytes"}},
      {"count overflows",
       array(kU32, kHuge / 2).zeros(32).take(),
       kCorrupt,
       {"9223372036854775807 elements"}},
      {"booleans", array(kBool, 33).zeros(32).take(), kCorrupt, {"33 elements", "32 bytes"}},
      {"a boolean",
       array(kBool, 2).put<uint8_t>(1).put<uint8_t>(255).take(),
       kCorrupt,
       {"'a.b'", "holds 255"}},
      {"strings", array(kString, 5).zeros(39).take(), kCorrupt, {"5 strings", "39 bytes"}},
      {"a string's length",
       array(kString, 2).string("x").put<uint64_t>(1000).zeros(8).take(),
       kCorrupt,
       {"string 1 of", "'a.b'", "length 1000"}},
      {"strings end early",
       array(kString, 2).string("a name that is long enough").take(),
       kCorrupt,
       {"'a.b'", "truncated"}},
  });
}

// One-byte strings are four times larger in memory: only small files may do that.
TEST(GgufParser, MetadataMayNotOutgrowTheFile) {
  constexpr uint64_t kCount = 9u << 20;
  const auto bytes = ByteBuilder()
                         .header(0, 1)
                         .key("a.b", kArray)
                         .put(kString)
                         .put(kCount)
                         .zeros(kCount * 8)
                         .take();
  expect_refused(
      {{"strings", bytes, kCorrupt, {"'a.b' needs 301989888 bytes of memory", "75497"}}});
}

TEST(GgufParser, RefusesBadTensors) {
  const auto list = [](uint64_t count) { return ByteBuilder().header(count, 0); };
  expect_refused({
      {"name length",
       list(1).put<uint64_t>(1000).zeros(64).take(),
       kCorrupt,
       {"name of tensor 0", "length 1000", "64 bytes"}},
      {"empty name",
       list(1).tensor("", {4}, kF32, 0).zeros(64).take(),
       kCorrupt,
       {"name of tensor 0 is empty"}},
      {"rank 0",
       list(1).tensor("t", {}, kF32, 0).zeros(64).take(),
       kCorrupt,
       {"'t' has 0 dimensions"}},
      {"rank 5",
       list(1).tensor("t", {1, 1, 1, 1, 1}, kF32, 0).zeros(64).take(),
       kCorrupt,
       {"'t' has 5 dimensions"}},
      {"extent 0",
       list(1).tensor("t", {4, 0}, kF32, 0).zeros(64).take(),
       kCorrupt,
       {"dimension 1 of tensor 't' is 0"}},
      {"absurd extent",
       list(1).tensor("t", {kHuge}, kF32, 0).zeros(64).take(),
       kCorrupt,
       {"dimension 0 of tensor 't' is 18446744073709551615"}},
      {"extents overflow",
       list(1).tensor("t", {256, 1ull << 56, 256}, kF32, 0).zeros(64).take(),
       kCorrupt,
       {"dimension 1 of tensor 't' is 72057594037927936"}},
      {"known type",
       list(1).tensor("t", {4}, 16, 0).zeros(64).take(),
       kUnsupported,
       {"'t' has type 16 (IQ2_XXS)"}},
      {"no type",
       list(1).tensor("t", {4}, 1000, 0).zeros(64).take(),
       kUnsupported,
       {"'t' has type 1000 (unknown)"}},
      {"part of a block",
       list(1).tensor("t", {33, 2}, kQ8_0, 0).zeros(256).take(),
       kCorrupt,
       {"'t' has rows of 33", "Q8_0", "32"}},
      {"rows of half blocks",
       list(1).tensor("t", {128, 2}, kQ6_K, 0).zeros(512).take(),
       kCorrupt,
       {"'t' has rows of 128", "Q6_K", "256"}},
      {"list ends early",
       list(1).string("a name that is long enough").put<uint32_t>(1).put<uint64_t>(4).take(),
       kCorrupt,
       {"'a name that is long enough'", "truncated"}},
      {"duplicate",
       list(2).tensor("t", {8}, kF32, 0).tensor("t", {8}, kF32, 32).pad(32).zeros(64).take(),
       kCorrupt,
       {"'t' appears twice"}},
  });
}

TEST(GgufParser, RefusesBadOffsets) {
  const auto list = [](uint64_t count) { return ByteBuilder().header(count, 0); };
  expect_refused({
      {"misaligned",
       list(1).tensor("t", {8}, kF32, 4).pad(32).zeros(64).take(),
       kCorrupt,
       {"'t' begins at offset 4", "32"}},
      {"no data", list(1).tensor("t", {8}, kF32, 0).take(), kCorrupt, {"padding"}},
      {"truncated",
       list(1).tensor("t", {8}, kF32, 0).pad(32).zeros(31).take(),
       kCorrupt,
       {"'t' takes 32 bytes at offset 0", "31 bytes", "truncated"}},
      {"offset past the end",
       list(1).tensor("t", {8}, kF32, 64).pad(32).zeros(32).take(),
       kCorrupt,
       {"'t' takes 32 bytes at offset 64"}},
      {"offset overflows",
       list(1).tensor("t", {8}, kF32, kHuge - 31).pad(32).zeros(64).take(),
       kCorrupt,
       {"offset 18446744073709551584"}},
      {"overlap",
       list(2).tensor("a", {16}, kF32, 0).tensor("b", {8}, kF32, 32).pad(32).zeros(64).take(),
       kCorrupt,
       {"'a' and 'b' overlap"}},
      {"same place",
       list(2).tensor("a", {8}, kF32, 0).tensor("b", {8}, kF32, 0).pad(32).zeros(64).take(),
       kCorrupt,
       {"overlap"}},
  });
}

TEST(GgufParser, RefusesABadAlignment) {
  const auto aligned = [](uint32_t alignment) {
    return ByteBuilder().header(0, 1).key("general.alignment", kU32).put(alignment).take();
  };
  expect_refused({
      {"zero", aligned(0), kCorrupt, {"general.alignment is 0"}},
      {"four", aligned(4), kCorrupt, {"general.alignment is 4"}},
      {"no power of two", aligned(48), kCorrupt, {"general.alignment is 48"}},
      {"a string",
       ByteBuilder().header(0, 1).key("general.alignment", kString).string("32").take(),
       kCorrupt,
       {"'general.alignment' is 32"}},
  });
}

// Whatever byte a file ends at, it is refused: no cut leaves a file that seems whole.
TEST(GgufParser, RefusesEveryTruncation) {
  const auto whole = ByteBuilder()
                         .header(2, 3)
                         .key("a", kU32)
                         .put<uint32_t>(7)
                         .key("b", kString)
                         .string("text")
                         .key("c", kArray)
                         .put(kString)
                         .put<uint64_t>(2)
                         .string("x")
                         .string("yz")
                         .tensor("t", {8, 2}, kF32, 0)
                         .tensor("u", {32}, kQ4_0, 64)
                         .pad(32)
                         .zeros(64 + 18)
                         .take();
  ASSERT_TRUE(parse_gguf(whole, "a.gguf").ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parse_gguf(std::span(whole).first(size), "a.gguf").ok()) << size;
  }
}

TEST(GgufParser, ReadsEveryMetadataType) {
  ByteBuilder file;
  file.header(0, 13);
  file.key("u8", 0).put<uint8_t>(200).key("i8", 1).put<int8_t>(-2);
  file.key("u16", 2).put<uint16_t>(60000).key("i16", 3).put<int16_t>(-3);
  file.key("u32", 4).put<uint32_t>(4000000000).key("i32", 5).put<int32_t>(-4);
  file.key("f32", 6).put(0.5F).key("bool", 7).put<uint8_t>(1).key("string", 8).string("s");
  file.key("array", 9).put<uint32_t>(1).put<uint64_t>(2).put<int8_t>(-1).put<int8_t>(2);
  file.key("u64", 10).put(kHuge).key("i64", 11).put<int64_t>(-5).key("f64", 12).put(0.1);
  const Result<GgufPart> parsed = parse_gguf(file.take(), "a.gguf");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  std::vector<std::string> described;
  for (const auto& [key, value] : parsed->metadata.entries())
    described.push_back(key + "=" + describe(value));
  EXPECT_THAT(described, ElementsAre("u8=200", "i8=-2", "u16=60000", "i16=-3", "u32=4000000000",
                                     "i32=-4", "f32=0.5", "bool=true", "string=s", "array=[-1, 2]",
                                     "u64=18446744073709551615", "i64=-5", "f64=0.1"));
}

TEST(GgufParser, ReadsVersion2AndATensorsPlace) {
  ByteBuilder file;
  file.raw("GGUF").put<uint32_t>(2).put<uint64_t>(1).put<uint64_t>(1);
  file.key("general.alignment", kU32).put<uint32_t>(64);
  file.tensor("t", {32, 3, 2}, kQ8_0, 64).pad(64).zeros(64);
  file.put<uint8_t>(42).zeros(34 * 6 - 1);
  const auto bytes = file.take();
  const Result<GgufPart> parsed = parse_gguf(bytes, "a.gguf");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const TensorView& view = parsed->tensors.at(0).view;
  EXPECT_EQ(view.shape, Shape({2, 3, 32}));  // outermost first
  EXPECT_EQ(view.dtype, DType::kQ8_0);
  ASSERT_EQ(view.bytes.size(), 34u * 6);
  EXPECT_EQ(view.bytes[0], std::byte{42});
  EXPECT_EQ(view.row(0), view.bytes.data());
}

TEST(GgufParser, MapsTensorTypesByTheirNumber) {
  const std::vector<std::pair<uint32_t, DType>> types = {
      {0, DType::kF32},     {1, DType::kF16},     {2, DType::kQ4_0},  {3, DType::kQ4_1},
      {6, DType::kQ5_0},    {7, DType::kQ5_1},    {8, DType::kQ8_0},  {10, DType::kQ2_K},
      {11, DType::kQ3_K},   {12, DType::kQ4_K},   {13, DType::kQ5_K}, {14, DType::kQ6_K},
      {20, DType::kIQ4_NL}, {23, DType::kIQ4_XS}, {30, DType::kBF16}, {39, DType::kMXFP4}};
  ASSERT_EQ(types.size(), static_cast<size_t>(kDTypeCount));
  for (const auto& [number, dtype] : types) {
    const auto bytes =
        ByteBuilder().header(1, 0).tensor("t", {256}, number, 0).pad(32).zeros(1024).take();
    const Result<GgufPart> parsed = parse_gguf(bytes, "a.gguf");
    ASSERT_TRUE(parsed.ok()) << number << ": " << parsed.error().message;
    EXPECT_EQ(parsed->tensors[0].view.dtype, dtype) << number;
  }
}

}  // namespace
}  // namespace weft
