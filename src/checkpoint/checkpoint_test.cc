#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "checkpoint/gguf_writer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckpointFiles : public ::testing::Test {
 protected:
  CheckpointFiles() {
    folder_ = fs::path(testing::TempDir()) / fmt::format("checkpoint-{}", getpid());
    fs::create_directories(folder_);
  }
  ~CheckpointFiles() override { fs::remove_all(folder_); }

  fs::path file(const std::string& name) const { return folder_ / name; }
  // Writes one part of a split model with one tensor "tN" of eight floats of value N for each N in
  // `tensors`.
  fs::path write_part(const std::string& name, int number, int count,
                      const std::vector<int>& tensors, int total = -1) const {
    GgufWriter writer;
    writer.add("general.architecture", std::string(number == 0 ? "llama" : "other"));
    writer.add("split.no", static_cast<uint64_t>(number));
    writer.add("split.count", static_cast<uint64_t>(count));
    if (total >= 0) writer.add("split.tensors.count", static_cast<int64_t>(total));
    for (const int n : tensors) {
      writer.add_tensor(fmt::format("t{}", n), DType::kF32, {8}, [n](std::span<std::byte> out) {
        const std::vector<float> values(8, static_cast<float>(n));
        std::memcpy(out.data(), values.data(), out.size());
      });
    }
    const Status written = writer.write(file(name));
    EXPECT_TRUE(written.ok()) << written.error().message;
    return file(name);
  }
  static std::string error_of(const fs::path& path) {
    const Result<Checkpoint> opened = Checkpoint::open(path);
    EXPECT_FALSE(opened.ok());
    return opened.ok() ? "" : opened.error().message;
  }

  fs::path folder_;
};

float first_float(const TensorView& view) {
  float value = 0;
  std::memcpy(&value, view.bytes.data(), sizeof(value));
  return value;
}

TEST(Checkpoint, OpensTheTinyModels) {
  for (const std::string model :
       {"llama", "llama3-rope", "qwen2", "qwen3", "qwen3moe", "mixtral"}) {
    for (const std::string type : {"f32", "q8_0"}) {
      const Result<Checkpoint> opened =
          Checkpoint::open(fmt::format("{}/tiny/{}/{}.gguf", WEFT_TEST_DATA, model, type));
      ASSERT_TRUE(opened.ok()) << opened.error().message;
      EXPECT_EQ(opened->file_bytes(), fs::file_size(opened->path()));
      const TensorView* embedding = opened->find("token_embd.weight");
      ASSERT_NE(embedding, nullptr);
      EXPECT_EQ(embedding->shape, Shape({512, 64}));
      EXPECT_EQ(embedding->dtype, type == "f32" ? DType::kF32 : DType::kQ8_0);
      EXPECT_EQ(opened->find("blk.0.attn_norm.weight")->dtype, DType::kF32);
      EXPECT_EQ(opened->find("no.such.weight"), nullptr);
      for (const NamedTensor& tensor : opened->tensors()) {
        EXPECT_EQ(opened->find(tensor.name), &tensor.view) << tensor.name;
      }
    }
  }
}

TEST(Checkpoint, ReadsShapesAndMetadataOfTinyLlama) {
  const Result<Checkpoint> opened = Checkpoint::open(WEFT_TEST_DATA "/tiny/llama/f32.gguf");
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(opened->tensors().size(), 39u);
  EXPECT_EQ(opened->tensors()[0].name, "token_embd.weight");
  EXPECT_EQ(opened->find("blk.3.ffn_down.weight")->shape, Shape({64, 160}));
  EXPECT_EQ(opened->find("blk.3.attn_k.weight")->shape, Shape({32, 64}));
  EXPECT_EQ(*opened->metadata().get_string("general.architecture"), "llama");
  EXPECT_EQ(*opened->metadata().get_int("llama.attention.head_count_kv"), 2);
  EXPECT_EQ((*opened->metadata().get_strings("tokenizer.ggml.tokens"))->size(), 512u);
  EXPECT_EQ((*opened->metadata().get_strings("tokenizer.ggml.merges"))->at(0), "Ġ t");
}

TEST(Checkpoint, ReadsExpertTensors) {
  const Result<Checkpoint> opened = Checkpoint::open(WEFT_TEST_DATA "/tiny/mixtral/q8_0.gguf");
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(opened->find("blk.3.ffn_down_exps.weight")->shape, Shape({4, 64, 160}));
}

TEST_F(CheckpointFiles, DroppedPagesStayReadable) {
  const Result<Checkpoint> opened = Checkpoint::open(WEFT_TEST_DATA "/tiny/llama/f32.gguf");
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const auto sum = [&] {
    uint64_t total = 0;
    for (const NamedTensor& tensor : opened->tensors()) {
      for (const std::byte b : tensor.view.bytes) total = total * 31 + std::to_integer<uint64_t>(b);
    }
    return total;
  };
  const uint64_t before = sum();
  for (const NamedTensor& tensor : opened->tensors()) opened->drop_pages(tensor.view);
  EXPECT_EQ(sum(), before);
  // A view of other memory is nobody's page: nothing happens.
  std::vector<std::byte> elsewhere(1 << 16, std::byte{7});
  opened->drop_pages({DType::kF32, {16}, std::span(elsewhere).first(64)});
  EXPECT_EQ(elsewhere[0], std::byte{7});
}

TEST_F(CheckpointFiles, RefusesWhatIsNoFile) {
  EXPECT_THAT(error_of(file("absent.gguf")),
              AllOf(HasSubstr("absent.gguf"), HasSubstr("No such file")));
  EXPECT_EQ(Checkpoint::open(file("absent.gguf")).error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(error_of(folder_), HasSubstr("it is not a file"));
  std::ofstream(file("empty.gguf")).close();
  EXPECT_THAT(error_of(file("empty.gguf")), HasSubstr("empty"));
  ASSERT_EQ(mkfifo(file("pipe.gguf").c_str(), 0600), 0);
  EXPECT_THAT(error_of(file("pipe.gguf")), HasSubstr("it is not a file"));
}

TEST_F(CheckpointFiles, OpensSplitModels) {
  const fs::path first = write_part("m-00001-of-00003.gguf", 0, 3, {}, 3);
  write_part("m-00002-of-00003.gguf", 1, 3, {2, 1});
  write_part("m-00003-of-00003.gguf", 2, 3, {3});
  const Result<Checkpoint> opened = Checkpoint::open(first);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(opened->tensors().size(), 3u);
  for (int n = 1; n <= 3; ++n) EXPECT_EQ(first_float(*opened->find(fmt::format("t{}", n))), n);
  EXPECT_EQ(*opened->metadata().get_string("general.architecture"), "llama");
  uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) bytes += entry.file_size();
  EXPECT_EQ(opened->file_bytes(), bytes);
  opened->drop_pages(*opened->find("t3"));
  EXPECT_EQ(first_float(*opened->find("t3")), 3);
}

TEST_F(CheckpointFiles, RefusesBrokenSplits) {
  const fs::path first = write_part("m-00001-of-00002.gguf", 0, 2, {1}, 2);
  EXPECT_THAT(error_of(first),
              AllOf(HasSubstr("m-00002-of-00002.gguf"), HasSubstr("No such file")));
  const fs::path second = write_part("m-00002-of-00002.gguf", 1, 2, {2});
  EXPECT_TRUE(Checkpoint::open(first).ok());
  EXPECT_THAT(error_of(second), AllOf(HasSubstr("part 2 of 2"), HasSubstr("-00001-of-00002.gguf")));

  write_part("m-00002-of-00002.gguf", 1, 3, {2});
  EXPECT_THAT(error_of(first), AllOf(HasSubstr("should be part 2 of 2"), HasSubstr("part 2 of 3")));
  write_part("m-00002-of-00002.gguf", 0, 2, {2});
  EXPECT_THAT(error_of(first), HasSubstr("says that it is part 1 of 2"));
  write_part("m-00002-of-00002.gguf", 1, 2, {1});
  EXPECT_THAT(error_of(first), HasSubstr("tensor 't1' appears twice"));
  write_part("m-00002-of-00002.gguf", 1, 2, {2, 3});
  EXPECT_THAT(error_of(first),
              AllOf(HasSubstr("split.tensors.count"), HasSubstr("is 2"), HasSubstr("3 tensors")));

  fs::rename(first, file("renamed.gguf"));
  EXPECT_THAT(error_of(file("renamed.gguf")),
              AllOf(HasSubstr("part 1 of 2"), HasSubstr("*-00001-of-00002.gguf")));
}

TEST_F(CheckpointFiles, RefusesLyingSplitKeys) {
  EXPECT_THAT(error_of(write_part("a-00001-of-00002.gguf", 2, 2, {})),
              AllOf(HasSubstr("'split.no' is 2"), HasSubstr("0 to 1")));
  EXPECT_THAT(error_of(write_part("b.gguf", 0, 100000, {})), HasSubstr("'split.count' is 100000"));
  // One part is no split model, whatever its name.
  EXPECT_TRUE(Checkpoint::open(write_part("c.gguf", 0, 1, {1}, 1)).ok());
  EXPECT_TRUE(Checkpoint::open(write_part("d.gguf", 0, 0, {1}, 1)).ok());
}

TEST(Checkpoint, ParseRefusesAPartOfASplitModel) {
  GgufWriter writer;
  writer.add("split.count", uint64_t{2});
  const std::vector<std::byte> bytes = writer.to_bytes();
  const Result<Checkpoint> parsed = Checkpoint::parse(bytes, "memory");
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.error().message, AllOf(HasSubstr("memory: "), HasSubstr("part 1 of 2")));
}

}  // namespace
}  // namespace weft
