// What the executor multiplies for experts, seen by a table that counts.

#include "device/cpu/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "device/cpu/cpu_executor.h"
#include "device/cpu/test_driver.h"

namespace weft {
namespace {

using test::Driver;
using test::Expected;
using test::Logits;
using test::same_bits;

struct Product {
  int64_t rows = 0;
  int times = 0;
};

// By the matrix's bytes and the panel.
struct Counter {
  std::mutex mutex;
  std::map<std::pair<const std::byte*, int64_t>, Product> products;
} counter;

bool of_expert(const PackedMatrix& m) {
  // Nothing else in the tiny model has these sizes.
  return (m.outputs == 96 && m.inputs == 64) || (m.outputs == 64 && m.inputs == 96);
}

void counting_matmul(const PackedMatrix& matrix, const std::byte* activations, int64_t rows,
                     int64_t panel_begin, int64_t panel_end, const MatmulOutput& out) {
  if (of_expert(matrix)) {
    const std::scoped_lock lock(counter.mutex);
    for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
      Product& product = counter.products[{matrix.data, panel}];
      product.rows += rows;
      ++product.times;
    }
  }
  (*find_kernels("ref"))->matmul(matrix, activations, rows, panel_begin, panel_end, out);
}

TEST(ExpertsTest, EachTouchedExpertIsReadOnceAStep) {
  KernelTable kernels = **find_kernels("ref");
  kernels.matmul = counting_matmul;
  const auto checkpoint = Checkpoint::open(test::tiny("qwen3moe", "f32.gguf"));
  ASSERT_TRUE(checkpoint.ok());
  const auto model = build_model(*checkpoint);
  ASSERT_TRUE(model.ok());
  CpuOptions options;
  options.kernels = &kernels;
  options.kv_type = KvType::kF32;
  options.limits = {1, 1, 96, 4, 128, 2};
  for (const int threads : {1, 2, 3}) {
    options.threads = threads;
    const auto executor = make_cpu_executor(*model, *checkpoint, options);
    ASSERT_TRUE(executor.ok());
    (*executor)->open_slot(0, {test::greedy(), 1, 0, {}, {}});
    const Expected expected("qwen3moe");
    const std::vector<BlockId> blocks = {0, 1};
    for (const size_t rows : {1, 3, 96}) {
      counter.products.clear();
      Segment segment;
      segment.rows = static_cast<int32_t>(rows);
      segment.row_class = RowClass::kPrefill;
      segment.tokens = std::span(expected.prompt).first(rows);
      segment.outputs = Outputs::kLast;
      segment.blocks = blocks;
      const Pass pass{0, {segment}};
      (*executor)->start(Group::kAll, Quantum{1, {&pass}, 0, 4});
      Completion completion;
      ASSERT_TRUE((*executor)->wait(TimePoint::max(), completion));
      // Each row of three layers and the last one of the fourth: two experts' gate, up and down,
      // whose outputs are panels of 32.
      int64_t multiplied = 0;
      for (const auto& [place, product] : counter.products) {
        EXPECT_EQ(product.times, 1);
        multiplied += product.rows;
      }
      const auto pairs = static_cast<int64_t>(2 * (3 * rows + 1));
      EXPECT_EQ(multiplied, pairs * (3 + 3 + 2)) << rows << " rows, " << threads << " threads";
    }
  }
}

// Fills the tensor from its eighth `first` on: eight experts have such a part each.
void overwrite(std::vector<std::byte>& file, const std::string& tensor, size_t first,
               std::byte value) {
  const auto checkpoint = Checkpoint::parse(file, "test");
  const auto bytes = checkpoint->find(tensor)->bytes;
  const size_t begin = bytes.size() / 8 * first;
  std::fill_n(file.data() + (bytes.data() - file.data()) + begin, bytes.size() - begin, value);
}

// The file of the tiny model with a router that prefers no expert.
std::vector<std::byte> with_equal_experts() {
  const auto path = test::tiny("qwen3moe", "f32.gguf");
  std::vector<std::byte> file(std::filesystem::file_size(path));
  std::ifstream(path, std::ios::binary)
      .read(reinterpret_cast<char*>(file.data()), static_cast<std::streamsize>(file.size()));
  for (int layer = 0; layer < 4; ++layer) {
    overwrite(file, fmt::format("blk.{}.ffn_gate_inp.weight", layer), 0, std::byte{0});
  }
  return file;
}

class RouterTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, RouterTest, ::testing::ValuesIn(test::kernel_names()),
                         [](const auto& info) { return info.param; });

// With equal logits the first experts are used: what the others hold does not matter.
TEST_P(RouterTest, OfEqualExpertsTheFirstAreUsed) {
  const Expected expected("qwen3moe");
  std::vector<std::byte> file = with_equal_experts();
  const auto logits = [&] {
    Driver driver(file, {.kernels = GetParam(), .threads = 2});
    auto sequence = driver.open(0);
    return driver.all_logits(sequence, expected.prompt, 40);
  };
  const std::vector<Logits> whole = logits();
  for (int layer = 0; layer < 4; ++layer) {
    for (const char* name : {"gate", "up", "down"}) {
      overwrite(file, fmt::format("blk.{}.ffn_{}_exps.weight", layer, name), 2, std::byte{0xff});
    }
  }
  EXPECT_TRUE(same_bits(logits(), whole));
}

}  // namespace
}  // namespace weft
