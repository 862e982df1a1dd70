#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/byte_builder.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Result<Safetensors> parse(const std::string& header, size_t data_bytes) {
  return Safetensors::parse(ByteBuilder().string(header).zeros(data_bytes).take(), "a.safetensors");
}

TEST(Safetensors, OpensTheReferenceFiles) {
  const Result<Safetensors> blocks = Safetensors::open(WEFT_TEST_DATA "/quant_blocks.safetensors");
  ASSERT_TRUE(blocks.ok()) << blocks.error().message;
  EXPECT_EQ(blocks->entries().size(), 30u);
  EXPECT_EQ(blocks->floats("Q4_K.values")->size(), 4096u);
  EXPECT_EQ(blocks->bytes("Q4_K.raw")->size(), 2304u);

  const Result<Safetensors> passage = Safetensors::open(WEFT_TEST_DATA "/smollm2.safetensors");
  ASSERT_TRUE(passage.ok()) << passage.error().message;
  EXPECT_EQ(passage->entries().at("passage.top_ids").shape, Shape({1536, 8}));
  const auto ids = passage->ints("passage.top_ids");
  ASSERT_TRUE(ids.ok()) << ids.error().message;
  for (const int32_t id : *ids) {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, 49152);
  }
  // The best logit of a row is its first.
  const auto logits = passage->floats("passage.top_logits");
  for (size_t i = 0; i < logits->size(); i += 8) EXPECT_GE((*logits)[i], (*logits)[i + 7]);
}

TEST(Safetensors, ReadsValuesShapesAndTypes) {
  ByteBuilder file;
  file.string(
      R"({"__metadata__":{"format":"pt"},"x":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("none":{"dtype":"I32","shape":[0,4],"data_offsets":[8,8]},"s":{"dtype":"U8","shape":[],"data_offsets":[8,9]}}  )");
  file.put(1.5F).put(-2.0F).put<uint8_t>(7);
  const Result<Safetensors> parsed = Safetensors::parse(file.take(), "a.safetensors");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_THAT(*parsed->floats("x"), ElementsAre(1.5F, -2.0F));
  EXPECT_EQ(parsed->entries().at("x").shape, Shape({2, 1}));
  EXPECT_THAT(*parsed->ints("none"), ElementsAre());
  EXPECT_THAT(*parsed->bytes("s"), ElementsAre(7));
  EXPECT_EQ(parsed->entries().at("s").shape.rank(), 0);
}

TEST(Safetensors, GettersNameWhatIsWrong) {
  const auto parsed = parse(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                            R"("x":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
                            5);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->floats("y").error().message, "a.safetensors: there is no tensor 'y'");
  EXPECT_EQ(parsed->floats("y").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(parsed->floats("b").error().message, "a.safetensors: tensor 'b' is U8, not F32");
  EXPECT_THAT(parsed->floats("x").error().message,
              HasSubstr("'x' does not begin at a multiple of 4 bytes"));
}

TEST(Safetensors, RefusesLies) {
  struct Lie {
    const char* header;
    size_t data_bytes;
    const char* says;
  };
  const Lie lies[] = {
      {"", 0, "not a JSON object"},
      {"[]", 0, "not a JSON object"},
      {R"({"x":)", 0, "not a JSON object"},
      {R"({"x":1})", 0, "'x' must have exactly dtype, shape and data_offsets"},
      {R"({"x":{"dtype":"F32","shape":[1]}})", 4, "'x' must have exactly"},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1}})", 4,
       "'x' must have exactly"},
      {R"({"x":{"dtype":1,"shape":[1],"data_offsets":[0,4]}})", 4, "dtype is not a string"},
      {R"({"x":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,4]}})", 4, "type 'F8_E4M3'"},
      {R"({"x":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4, "shape is not an array"},
      {R"({"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
       "shape is not an array of unsigned"},
      {R"({"x":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4,
       "shape is not an array of unsigned"},
      {R"({"x":{"dtype":"F32","shape":[1,1,1,1,1],"data_offsets":[0,4]}})", 4, "5 dimensions"},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "data_offsets [0]"},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "data_offsets [4, 0]"},
      {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4,
       "[0, 8] are not within the 4 bytes"},
      {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 8,
       "needs 8 bytes, but data_offsets span 4"},
      {R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4,
       "larger than the 4 bytes"},
      {R"({"x":{"dtype":"F32","shape":[18446744073709551615,0],"data_offsets":[0,0]}})", 0,
       "larger than"},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "'x' appears twice"},
      {R"({"x":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})", 4,
       "'shape' appears twice"},
      {R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       8, "'y' begins at 4, which overlaps"},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
       12, "'y' begins at 8, which leaves a gap"},
      {R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 9,
       "end at 4, but there are 9 bytes"},
  };
  for (const Lie& lie : lies) {
    const Result<Safetensors> parsed = parse(lie.header, lie.data_bytes);
    ASSERT_FALSE(parsed.ok()) << lie.header;
    EXPECT_THAT(parsed.error().message, StartsWith("a.safetensors: ")) << lie.header;
    EXPECT_THAT(parsed.error().message, HasSubstr(lie.says)) << lie.header;
    EXPECT_THAT(parsed.error().message, Not(HasSubstr("\n"))) << lie.header;
  }
}

TEST(Safetensors, RefusesBadHeaderLengths) {
  const auto error = [](std::vector<std::byte> bytes) {
    const Result<Safetensors> parsed = Safetensors::parse(std::move(bytes), "a");
    return parsed.ok() ? "" : parsed.error().message;
  };
  EXPECT_THAT(error({}), HasSubstr("0 bytes are too few"));
  EXPECT_THAT(error(ByteBuilder().put<uint64_t>(3).raw("{}").take()),
              HasSubstr("length is 3, but only 2 bytes"));
  EXPECT_THAT(error(ByteBuilder().put(~uint64_t{0}).zeros(64).take()),
              HasSubstr("length is 18446744073709551615"));
}

TEST(Safetensors, DeepNestingIsRefusedBeforeItRecurses) {
  const Result<Safetensors> parsed = parse(std::string(1'000'000, '['), 0);
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.error().message, HasSubstr("nested 1000000 deep"));
  // Brackets in a name do not count.
  const auto named =
      parse(R"({"[[[[[[\"{{{{":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1);
  EXPECT_TRUE(named.ok()) << named.error().message;
}

TEST(Safetensors, OpenNamesTheFile) {
  const Result<Safetensors> absent = Safetensors::open("/nowhere/a.safetensors");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(absent.error().message, "/nowhere/a.safetensors: there is no such file");
  EXPECT_THAT(Safetensors::open(WEFT_TEST_DATA).error().message, HasSubstr("cannot open the file"));
}

}  // namespace
}  // namespace weft
