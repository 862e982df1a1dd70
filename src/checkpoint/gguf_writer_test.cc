#include "checkpoint/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>

#include "checkpoint/checkpoint.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

GgufWriter::Fill fill_with(int value) {
  return [value](std::span<std::byte> out) {
    std::fill(out.begin(), out.end(), static_cast<std::byte>(value));
  };
}

GgufWriter sample() {
  GgufWriter writer;
  writer.add("general.architecture", std::string("llama"));
  writer.add("int", int64_t{-1});
  writer.add("wide", std::numeric_limits<int64_t>::min());
  writer.add("unsigned", uint64_t{1} << 31);
  writer.add("wide unsigned", std::numeric_limits<uint64_t>::max());
  writer.add("float", 0.25);
  writer.add("bool", true);
  writer.add("strings", MetaArray(std::vector<std::string>{"", "zwei", std::string("\0x", 2)}));
  writer.add("ints", MetaArray(std::vector<int64_t>{1, -2}));
  writer.add("wide ints", MetaArray(std::vector<int64_t>{1, int64_t{1} << 40}));
  writer.add("unsigneds", MetaArray(std::vector<uint64_t>{1, uint64_t{1} << 33}));
  writer.add("floats", MetaArray(std::vector<double>{0.5, -1}));
  writer.add("bools", MetaArray(std::vector<bool>{true, false, true}));
  writer.add("empty", MetaArray(std::vector<int64_t>{}));
  writer.add_tensor("scale", DType::kF32, {3}, fill_with(1));
  writer.add_tensor("experts", DType::kQ4_0, {2, 3, 64}, fill_with(2));
  writer.add_tensor("last", DType::kBF16, {5}, fill_with(3));
  return writer;
}

TEST(GgufWriter, WhatIsWrittenIsRead) {
  const GgufWriter writer = sample();
  const std::vector<std::byte> bytes = writer.to_bytes();
  const Result<Checkpoint> parsed = Checkpoint::parse(bytes, "memory");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const Metadata& metadata = parsed->metadata();
  EXPECT_EQ(metadata.entries().size(), 14u);
  EXPECT_EQ(*metadata.get_string("general.architecture"), "llama");
  EXPECT_EQ(*metadata.get_int("int"), -1);
  EXPECT_EQ(*metadata.get_int("wide"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(*metadata.get_int("unsigned"), int64_t{1} << 31);
  EXPECT_EQ(std::get<uint64_t>(*metadata.find("wide unsigned")),
            std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(*metadata.get_float("float"), 0.25);
  EXPECT_EQ(*metadata.get_bool("bool"), true);
  EXPECT_THAT(**metadata.get_strings("strings"), ElementsAre("", "zwei", std::string("\0x", 2)));
  EXPECT_THAT(**metadata.get_ints("ints"), ElementsAre(1, -2));
  EXPECT_THAT(**metadata.get_ints("wide ints"), ElementsAre(1, int64_t{1} << 40));
  EXPECT_THAT(**metadata.get_ints("unsigneds"), ElementsAre(1, int64_t{1} << 33));
  EXPECT_THAT(**metadata.get_floats("floats"), ElementsAre(0.5, -1.0));
  EXPECT_EQ(std::get<MetaArray>(*metadata.find("bools")),
            MetaArray(std::vector<bool>{true, false, true}));
  EXPECT_THAT(**metadata.get_ints("empty"), ElementsAre());

  EXPECT_EQ(parsed->find("scale")->shape, Shape({3}));
  EXPECT_EQ(parsed->find("experts")->shape, Shape({2, 3, 64}));
  EXPECT_EQ(parsed->find("experts")->dtype, DType::kQ4_0);
  EXPECT_EQ(parsed->find("experts")->bytes.size(), 2u * 3 * 2 * 18);
  const auto all = [&](const char* name, int value) {
    const auto view = parsed->find(name)->bytes;
    return std::all_of(view.begin(), view.end(),
                       [&](std::byte b) { return b == static_cast<std::byte>(value); });
  };
  EXPECT_TRUE(all("scale", 1));
  EXPECT_TRUE(all("experts", 2));
  EXPECT_TRUE(all("last", 3));
  EXPECT_EQ(writer.data_bytes(), 32u + 224 + 32);
}

TEST(GgufWriter, KeepsTheAlignmentItIsGiven) {
  GgufWriter writer;
  writer.add("general.alignment", uint64_t{4096});
  writer.add_tensor("a", DType::kF32, {1}, fill_with(1));
  writer.add_tensor("b", DType::kF32, {1}, fill_with(2));
  const std::vector<std::byte> bytes = writer.to_bytes();
  EXPECT_EQ(bytes.size(), 3u * 4096);
  const Result<Checkpoint> parsed = Checkpoint::parse(bytes, "memory");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->find("b")->bytes.data() - bytes.data(), 2 * 4096);
}

TEST(GgufWriter, WritesTheSameToAFile) {
  const fs::path path = fs::path(testing::TempDir()) / fmt::format("writer-{}.gguf", getpid());
  std::vector<uint64_t> progress;
  const Status written = sample().write(path, [&](uint64_t bytes) { progress.push_back(bytes); });
  ASSERT_TRUE(written.ok()) << written.error().message;
  std::vector<char> read(fs::file_size(path));
  std::ifstream(path, std::ios::binary)
      .read(read.data(), static_cast<std::streamsize>(read.size()));
  const std::vector<std::byte> expected = sample().to_bytes();
  ASSERT_EQ(read.size(), expected.size());
  EXPECT_EQ(std::memcmp(read.data(), expected.data(), read.size()), 0);
  ASSERT_EQ(progress.size(), 3u);
  EXPECT_EQ(progress.back(), expected.size());
  fs::remove(path);
}

TEST(GgufWriter, LeavesNothingBehindWhereItFails) {
  const fs::path folder = fs::path(testing::TempDir()) / fmt::format("writer-{}", getpid());
  const Status absent = sample().write(folder / "no" / "m.gguf");
  ASSERT_FALSE(absent.ok());
  EXPECT_THAT(absent.error().message, HasSubstr("m.gguf: cannot create the file"));
  // A folder of that name lets the data be written, but not be given its name.
  fs::create_directories(folder / "m.gguf" / "inner");
  const Status blocked = sample().write(folder / "m.gguf");
  ASSERT_FALSE(blocked.ok());
  EXPECT_THAT(blocked.error().message, HasSubstr("cannot rename"));
  EXPECT_FALSE(fs::exists(folder / "m.gguf.partial"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace weft
