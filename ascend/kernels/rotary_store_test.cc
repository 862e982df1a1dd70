#include "rotary_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "vector_testing.h"

namespace weft_ascend {
namespace {

using testing::Bench;
using testing::Random;

struct RotaryCase {
  int32_t rows = 3;
  int32_t heads = 4;
  int32_t kv_heads = 2;
  int32_t head_dim = 64;
  int32_t rope_dims = 64;
  bool bias = false;
  bool norms = false;
};

constexpr int32_t kContext = 200;
constexpr int32_t kBlocks = 7;
constexpr int32_t kGap = 16;
constexpr float kEps = 1e-6F;

struct Rotated {
  std::vector<half> queries;
  std::vector<half> pool;
};

class RotaryInput {
 public:
  explicit RotaryInput(const RotaryCase& c) : case_(c) {
    Random random(static_cast<uint64_t>(c.head_dim * 1000 + c.rows));
    qkv_ = random.floats(rows() * stride(), 2);
    if (c.bias) bias_ = random.floats(columns());
    if (c.norms) {
      q_norm_ = random.floats(head_dim());
      k_norm_ = random.floats(head_dim());
    }
    for (int32_t p = 0; p < kContext; ++p) {
      for (int32_t i = 0; i < c.rope_dims / 2; ++i) {
        const float angle = static_cast<float>(p) * std::pow(10000.0F, -2.0F * i / c.rope_dims);
        cos_.push_back(std::cos(angle));
        sin_.push_back(std::sin(angle));
      }
    }
    places_ = random.places(rows(), kBlocks * kBlockPositions);
    for (int32_t r = 0; r < c.rows; ++r) positions_.push_back(random.below(kContext));
  }

  size_t rows() const { return static_cast<size_t>(case_.rows); }
  size_t head_dim() const { return static_cast<size_t>(case_.head_dim); }
  size_t columns() const {
    return static_cast<size_t>(case_.heads + 2 * case_.kv_heads) * head_dim();
  }
  size_t stride() const { return columns() + kGap; }
  size_t q_stride() const { return static_cast<size_t>(case_.heads) * head_dim() + kGap; }
  size_t pool_values() const {
    return static_cast<size_t>(kBlocks * case_.kv_heads * 2 * kBlockPositions) * head_dim();
  }

  // All of it, or only the queries or only the keys and values, of `count` rows.
  enum class Part { kAll, kQueries, kKeysAndValues };
  Rotated run(uint64_t seed, int blocks, Part part = Part::kAll, size_t first = 0,
              std::optional<size_t> some = {}) const {
    const size_t count = some.value_or(rows());
    const size_t skipped =
        part == Part::kKeysAndValues ? static_cast<size_t>(case_.heads) * head_dim() : 0;
    const auto floats_from = [&](Bench& bench, const std::vector<float>& v, size_t at) {
      return v.empty() ? nullptr : bench.put(v) + at * sizeof(float);
    };
    const auto ints = [&](Bench& bench, const std::vector<int32_t>& v) {
      const auto begin = v.begin() + static_cast<ptrdiff_t>(first);
      return bench.put(std::vector<int32_t>(begin, begin + static_cast<ptrdiff_t>(count)));
    };
    Bench bench(seed);
    const RotaryStoreArgs args{
        .qkv = floats_from(bench, qkv_, first * stride() + skipped),
        .bias = floats_from(bench, bias_, skipped),
        .q_norm = bench.put(q_norm_),
        .k_norm = bench.put(k_norm_),
        .cos = bench.put(cos_),
        .sin = bench.put(sin_),
        .positions = ints(bench, positions_),
        .places = ints(bench, places_),
        .queries = bench.put(std::vector<half>(count * q_stride(), half(kFill))),
        .kv = bench.put(std::vector<half>(pool_values() + 1, half(kFill))),
        .rows = static_cast<int32_t>(count),
        .heads = part == Part::kKeysAndValues ? 0 : case_.heads,
        .kv_heads = part == Part::kQueries ? 0 : case_.kv_heads,
        .head_dim = case_.head_dim,
        .rope_dims = case_.rope_dims,
        .stride = static_cast<int32_t>(stride()),
        .q_stride = static_cast<int32_t>(q_stride()),
        .eps = kEps};
    bench.run<&RotaryStore>(blocks, args);
    return {bench.get<half>(args.queries, count * q_stride()),
            bench.get<half>(args.kv, pool_values())};
  }

  void check(const Rotated& out) const {
    const std::string what = std::to_string(case_.head_dim) + " of a head, row ";
    std::vector<half> pool(pool_values(), half(kFill));  // with the rows of `out` as they come by
    for (size_t r = 0; r < rows(); ++r) {
      const std::string row = what + std::to_string(r);
      for (int32_t h = 0; h < case_.heads; ++h) {
        testing::expect_within(
            std::span(out.queries)
                .subspan(r * q_stride() + static_cast<size_t>(h) * head_dim(), head_dim()),
            head(r, h, q_norm_, true), row + ", query head " + std::to_string(h));
      }
      for (size_t i = q_stride() - kGap; i < q_stride(); ++i) {
        ASSERT_EQ(float{out.queries[r * q_stride() + i]}, kFill) << row << ": touched " << i;
      }
      for (int32_t h = 0; h < case_.kv_heads; ++h) {
        for (const bool value : {false, true}) {
          const size_t at = pool_offset(places_[r], h, value);
          const int32_t index = case_.heads + h + (value ? case_.kv_heads : 0);
          testing::expect_within(
              std::span(out.pool).subspan(at, head_dim()),
              head(r, index, value ? std::vector<float>{} : k_norm_, !value),
              row + (value ? ", value head " : ", key head ") + std::to_string(h));
          std::copy_n(out.pool.begin() + static_cast<ptrdiff_t>(at), head_dim(),
                      pool.begin() + static_cast<ptrdiff_t>(at));
        }
      }
    }
    EXPECT_TRUE(testing::same_bits(out.pool, pool)) << "other places were touched";
  }

 private:
  static constexpr float kFill = 0.5F;

  std::vector<reference::Bounded> head(size_t row, int32_t index, const std::vector<float>& norm,
                                       bool rotates) const {
    const size_t column = static_cast<size_t>(index) * head_dim();
    const auto pairs = static_cast<size_t>(case_.rope_dims / 2);
    const size_t angle = static_cast<size_t>(positions_[row]) * pairs;
    const size_t used = rotates ? pairs : 0;
    return reference::rotary_head(
        {.x = std::span(qkv_).subspan(row * stride() + column, head_dim()),
         .bias = bias_.empty() ? std::span<const float>{}
                               : std::span(bias_).subspan(column, head_dim()),
         .norm = norm,
         .cos = std::span(cos_).subspan(angle, used),
         .sin = std::span(sin_).subspan(angle, used),
         .eps = kEps});
  }

  size_t pool_offset(int32_t place, int32_t head, bool value) const {
    const int32_t block = place / kBlockPositions;
    const int32_t matrix = (block * case_.kv_heads + head) * 2 + (value ? 1 : 0);
    return static_cast<size_t>(matrix * kBlockPositions + place % kBlockPositions) * head_dim();
  }

  RotaryCase case_;
  std::vector<float> qkv_;
  std::vector<float> bias_;
  std::vector<float> q_norm_;
  std::vector<float> k_norm_;
  std::vector<float> cos_;
  std::vector<float> sin_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> places_;
};

using Part = RotaryInput::Part;

TEST(RotaryStoreTest, EveryHeadSizeWithAndWithoutNorms) {
  for (const int32_t head_dim : {16, 32, 48, 64, 80, 112, 128, 144, 256}) {
    for (const bool norms : {false, true}) {
      const RotaryInput input(
          {.rows = 5, .head_dim = head_dim, .rope_dims = head_dim, .bias = norms, .norms = norms});
      input.check(input.run(1, 2));
    }
  }
}

TEST(RotaryStoreTest, PartOfAHeadRotates) {
  for (const int32_t rope_dims : {16, 32, 64, 112}) {
    const RotaryInput input({.head_dim = 128, .rope_dims = rope_dims, .norms = true});
    input.check(input.run(1, 1));
  }
}

TEST(RotaryStoreTest, ManyHeadsAndRowsAreSplit) {
  for (const int32_t heads : {1, 9, 32, 33, 64, 71}) {
    const RotaryInput input({.rows = 4,
                             .heads = heads,
                             .kv_heads = 1,
                             .head_dim = 128,
                             .rope_dims = 128,
                             .bias = true});
    input.check(input.run(1, 1));
  }
  const RotaryInput small(
      {.rows = 2, .heads = 300, .kv_heads = 150, .head_dim = 16, .rope_dims = 16, .norms = true});
  small.check(small.run(1, 1));
  const RotaryInput rows({.rows = 260, .heads = 3, .kv_heads = 3, .head_dim = 32, .rope_dims = 32});
  rows.check(rows.run(1, 3));
}

TEST(RotaryStoreTest, PartsGiveTheBitsOfTheWhole) {
  const RotaryInput input({.rows = 6, .heads = 8, .bias = true, .norms = true});
  const Rotated all = input.run(1, 1);
  EXPECT_TRUE(testing::same_bits(input.run(2, 2, Part::kQueries).queries, all.queries));
  EXPECT_TRUE(testing::same_bits(input.run(2, 2, Part::kKeysAndValues).pool, all.pool));
}

TEST(RotaryStoreTest, ARowsBitsDependOnTheRowAlone) {
  const RotaryInput input({.rows = 7, .heads = 9, .kv_heads = 3, .norms = true});
  const Rotated all = input.run(1, 1);
  for (const int blocks : {2, 3}) {
    const Rotated other = input.run(2, blocks);
    EXPECT_TRUE(testing::same_bits(all.queries, other.queries)) << blocks;
    EXPECT_TRUE(testing::same_bits(all.pool, other.pool)) << blocks;
  }
  for (size_t r = 0; r < 7; ++r) {
    const Rotated one = input.run(3, 2, Part::kAll, r, 1);
    EXPECT_TRUE(
        testing::same_bits(std::span<const half>(one.queries),
                           testing::row_of(all.queries, r, input.q_stride(), input.q_stride())))
        << r;
  }
}

TEST(RotaryStoreTest, TheOrderOfExecutionDoesNotMatter) {
  const RotaryInput input({.rows = 6,
                           .heads = 36,
                           .kv_heads = 4,
                           .head_dim = 128,
                           .rope_dims = 128,
                           .bias = true,
                           .norms = true});
  const Rotated first = input.run(1, 1);
  input.check(first);
  for (int seed = 2; seed <= testing::Seeds(); ++seed) {
    const Rotated other = input.run(static_cast<uint64_t>(seed), 1 + seed % 3);
    ASSERT_TRUE(testing::same_bits(first.queries, other.queries)) << "seed " << seed;
    ASSERT_TRUE(testing::same_bits(first.pool, other.pool)) << "seed " << seed;
  }
}

void clear_blocks(const std::vector<int32_t>& blocks, int32_t kv_heads, int32_t head_dim,
                  uint64_t seed, int cores) {
  const int32_t block_values = kv_heads * 2 * kBlockPositions * head_dim;
  std::vector<half> pool(static_cast<size_t>(kBlocks * block_values), half(1.0F));
  Bench bench(seed);
  const ClearBlocksArgs args{.kv = bench.put(pool),
                             .blocks = bench.put(blocks),
                             .count = static_cast<int32_t>(blocks.size()),
                             .kv_heads = kv_heads,
                             .head_dim = head_dim};
  bench.run<&ClearBlocks>(cores, args);
  for (const int32_t b : blocks) {
    std::fill_n(pool.begin() + b * block_values, block_values, half(0.0F));
  }
  EXPECT_TRUE(testing::same_bits(bench.get<half>(args.kv, pool.size()), pool));
}

TEST(ClearBlocksTest, ClearsTheseBlocksAndNoOthers) {
  for (const int32_t head_dim : {16, 80, 128, 256}) {
    clear_blocks({5, 0, 3}, 3, head_dim, 1, 2);
    clear_blocks({6}, 1, head_dim, 2, 3);
    clear_blocks({}, 2, head_dim, 2, 1);
  }
  for (int seed = 1; seed <= testing::Seeds(); ++seed) {
    clear_blocks({1, 6, 2}, 2, 48, static_cast<uint64_t>(seed), 1 + seed % 3);
  }
}

}  // namespace
}  // namespace weft_ascend
