#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/testing.h"
#include "tensor/buffer.h"

namespace weft {
namespace {

using ::testing::Each;
using ::testing::IsNan;

constexpr KvType kTypes[] = {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0};

struct Shape {
  int kv_heads = 2;
  int group = 3;
  int head_dim = 64;
  int heads() const { return kv_heads * group; }
};

// One sequence of `positions` random queries, keys and values.
struct Sequence {
  Shape shape;
  int positions;
  std::vector<float> q;  // [positions, heads * head_dim]
  std::vector<float> k;  // [positions, kv_heads * head_dim]
  std::vector<float> v;

  Sequence(Shape s, int n, int seed = 1) : shape(s), positions(n) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    q.resize(static_cast<size_t>(n) * q_width());
    k.resize(static_cast<size_t>(n) * kv_width());
    v.resize(k.size());
    for (auto* values : {&q, &k, &v}) {
      for (float& x : *values) x = normal(random);
    }
  }
  int q_width() const { return shape.heads() * shape.head_dim; }
  int kv_width() const { return shape.kv_heads * shape.head_dim; }
};

Buffer allocate(int64_t bytes) { return Buffer::allocate(static_cast<size_t>(bytes)).value(); }

// A sequence's cache in the layout of one table, in blocks out of order; what is not stored is NaN.
class Cache {
 public:
  Cache(const KernelTable& table, KvType type, const Sequence& sequence)
      : table_(table), sequence_(sequence) {
    const Shape& shape = sequence.shape;
    args_.layout = {type, shape.kv_heads, shape.head_dim};
    const int count = (sequence.positions + kBlockPositions - 1) / kBlockPositions;
    blocks_.resize(count);
    for (int i = 0; i < count; ++i) blocks_[i] = (i * 7 + 3) % count;
    if (count % 7 == 0) std::iota(blocks_.begin(), blocks_.end(), 0);
    args_.kv.block_stride = table.kv_block_bytes(args_.layout) + 64;
    memory_ = allocate(args_.kv.block_stride * count);
    memset(memory_.data(), 0xFF, memory_.size());
    args_.kv.base = memory_.data();
    for (int p = 0; p < sequence.positions; ++p) {
      table.store_kv(args_.layout,
                     memory_.data() + blocks_[p / kBlockPositions] * args_.kv.block_stride,
                     p % kBlockPositions, &sequence.k[static_cast<size_t>(p) * sequence.kv_width()],
                     &sequence.v[static_cast<size_t>(p) * sequence.kv_width()]);
    }
    args_.blocks = blocks_.data();
    args_.heads = shape.heads();
    args_.scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));
    scratch_ = allocate(table.attention_scratch(args_.layout, args_.heads) + 64);
  }

  // Outputs of positions [first, first + rows), by one call a KV head over rows [begin, end) for
  // each of `cuts`.
  std::vector<float> tiles(int first, int rows, const std::vector<int>& cuts = {}) {
    begin(first, rows);
    for (int kv_head = 0; kv_head < args_.layout.kv_heads; ++kv_head) {
      int row = 0;
      for (const int cut : cuts) {
        table_.attention_tile(args_, kv_head, row, cut, scratch_.data());
        row = cut;
      }
      if (row < rows) table_.attention_tile(args_, kv_head, row, rows, scratch_.data());
    }
    return std::move(out_);
  }

  // The same by segments in descending order, then merged.
  std::vector<float> segments(int first, int rows) {
    begin(first, rows);
    const int width = sequence_.shape.group * (2 + sequence_.shape.head_dim);
    for (int row = 0; row < rows; ++row) {
      const int count = (first + row) / kSegmentKeys + 1;
      std::vector<float> partials(static_cast<size_t>(count) * width);
      for (int kv_head = 0; kv_head < args_.layout.kv_heads; ++kv_head) {
        for (int s = count - 1; s >= 0; --s) {
          table_.attention_segment(args_, kv_head, row, s,
                                   &partials[static_cast<size_t>(s) * width], scratch_.data());
        }
        table_.attention_merge(args_, kv_head, row, count, partials.data());
      }
    }
    return std::move(out_);
  }

 private:
  void begin(int first, int rows) {
    constexpr float kUnset = -77;
    out_.assign(static_cast<size_t>(rows) * sequence_.q_width(), kUnset);
    args_.rows = rows;
    args_.first_position = first;
    args_.q = &sequence_.q[static_cast<size_t>(first) * sequence_.q_width()];
    args_.q_stride = args_.out_stride = sequence_.q_width();
    args_.out = out_.data();
  }

  const KernelTable& table_;
  const Sequence& sequence_;
  AttentionArgs args_;
  std::vector<BlockId> blocks_;
  Buffer memory_;
  Buffer scratch_;
  std::vector<float> out_;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> rows_of(const std::vector<float>& all, int width, int begin, int end) {
  return {all.begin() + int64_t{begin} * width, all.begin() + int64_t{end} * width};
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const float difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

struct Param {
  const KernelTable* table;
  KvType type;
};

std::vector<Param> params(bool with_ref) {
  std::vector<Param> all;
  for (const KernelTable* table : testing::tested_tables()) {
    if (!with_ref && table->name == "ref") continue;
    for (const KvType type : kTypes) all.push_back({table, type});
  }
  return all;
}

std::string param_name(const ::testing::TestParamInfo<Param>& info) {
  return std::string(info.param.table->name) + "_" + std::string(kv_type_name(info.param.type));
}

// The sequence with its queries as a kernel that multiplies bf16 rounds them.
Sequence with_rounded_queries(Sequence sequence) {
  constexpr float kLog2E = 1.44269504F;
  const auto factor = kLog2E / std::sqrt(static_cast<float>(sequence.shape.head_dim));
  for (float& q : sequence.q) q = testing::through_bf16(q * factor) / factor;
  return sequence;
}

class SimdAttentionTest : public ::testing::TestWithParam<Param> {
 protected:
  bool multiplies_bf16() const {
    return GetParam().type == KvType::kBF16 && testing::has_bf16_dots(*GetParam().table);
  }
  // Values are below 6 and scores' rounding errors below 1e-5, so 1e-5 for an output is a bound,
  // not a guess. An output is a weighted mean; rounding the weights moves it by no more than their
  // relative error times the values' mean distance from it, which is below 6 as well.
  float bound() const { return multiplies_bf16() ? 6.01F * testing::kBf16Rounding : 1e-5F; }

  void expect_near_ref(const Shape& shape, int first, int rows) {
    const Sequence sequence(shape, first + rows, first * 100 + rows);
    const Sequence queried = multiplies_bf16() ? with_rounded_queries(sequence) : sequence;
    Cache ref(*find_kernels("ref").value(), GetParam().type, queried);
    Cache simd(*GetParam().table, GetParam().type, sequence);
    const std::vector<float> expected = ref.tiles(first, rows);
    const std::vector<float> tiled = simd.tiles(first, rows);
    EXPECT_LE(largest_difference(expected, tiled), bound())
        << "position " << first << " rows " << rows << " head " << shape.head_dim << " group "
        << shape.group;
    EXPECT_TRUE(same_bits(tiled, simd.segments(first, rows)))
        << "position " << first << " rows " << rows << " head " << shape.head_dim << " group "
        << shape.group;
  }
};
INSTANTIATE_TEST_SUITE_P(All, SimdAttentionTest, ::testing::ValuesIn(params(false)), param_name);

TEST_P(SimdAttentionTest, IsNearRefAtEveryEdgeOfPositions) {
  for (const int first : {0, 1, 15, 16, 17, 63, 64, 65, 127, 511, 512, 513, 1100}) {
    for (const int rows : {1, 2, 7, 33})
      expect_near_ref({.kv_heads = 1, .group = 2, .head_dim = 32}, first, rows);
  }
}

TEST_P(SimdAttentionTest, IsNearRefForEveryNumberOfRows) {
  for (int rows = 1; rows <= 70; ++rows)
    expect_near_ref({.kv_heads = 1, .group = 1, .head_dim = 16}, 40, rows);
}

TEST_P(SimdAttentionTest, IsNearRefForEveryHeadSize) {
  for (const int head_dim : {8, 16, 24, 32, 40, 64, 72, 80, 96, 112, 128, 160, 256}) {
    expect_near_ref({.kv_heads = 2, .group = 1, .head_dim = head_dim}, 61, 20);
    expect_near_ref({.kv_heads = 2, .group = 3, .head_dim = head_dim}, 130, 1);
  }
}

TEST_P(SimdAttentionTest, IsNearRefForEveryGroup) {
  for (const int group : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16}) {
    expect_near_ref({.kv_heads = 2, .group = group, .head_dim = 32}, 70, 1);
    expect_near_ref({.kv_heads = 1, .group = group, .head_dim = 32}, 507, 10);
  }
}

// The error of ordinary numbers where queries and weights are rounded to bf16: 0.2 %.
TEST_P(SimdAttentionTest, RelativeErrorAgainstRef) {
  for (const int head_dim : {64, 80, 96, 128, 256}) {
    const Sequence sequence({.kv_heads = 1, .group = 2, .head_dim = head_dim}, 700, head_dim);
    const auto out = Cache(*GetParam().table, GetParam().type, sequence).tiles(680, 20);
    const auto exact =
        Cache(*find_kernels("ref").value(), GetParam().type, sequence).tiles(680, 20);
    double errors = 0;
    double squares = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      errors += std::pow(static_cast<double>(out[i]) - exact[i], 2);
      squares += std::pow(static_cast<double>(exact[i]), 2);
    }
    EXPECT_LE(std::sqrt(errors / squares), multiplies_bf16() ? 0.003 : 1e-5) << head_dim;
  }
}

class AttentionTest : public ::testing::TestWithParam<Param> {};
INSTANTIATE_TEST_SUITE_P(All, AttentionTest, ::testing::ValuesIn(params(true)), param_name);

TEST_P(AttentionTest, ARowHasTheSameBitsInAnyTileAndAsSegments) {
  const bool scalar = GetParam().table->name == "ref";  // where the shape makes no difference
  for (const int group : scalar ? std::vector{1} : std::vector{1, 3, 8}) {
    const Shape shape = {.kv_heads = 1, .group = group, .head_dim = scalar ? 8 : 48};
    const Sequence sequence(shape, 600);
    Cache cache(*GetParam().table, GetParam().type, sequence);
    const int width = sequence.q_width();
    const std::vector<float> whole = cache.tiles(0, 600);
    ASSERT_TRUE(same_bits(whole, cache.tiles(0, 600, {1, 3, 10, 63, 64, 70, 200, 511, 513})));
    for (const int first : {0, 1, 30, 63, 64, 100, 448, 505, 511, 512, 520}) {
      for (const int rows : {1, 2, 5, 6, 7, 13, 64, 70}) {
        const std::vector<float> expected = rows_of(whole, width, first, first + rows);
        ASSERT_TRUE(same_bits(expected, cache.tiles(first, rows, {rows / 3, rows / 2})))
            << "position " << first << " rows " << rows;
      }
      const std::vector<float> expected = rows_of(whole, width, first, first + 9);
      ASSERT_TRUE(same_bits(expected, cache.segments(first, 9))) << "position " << first;
    }
  }
}

TEST_P(AttentionTest, ANotANumberInAQueryStaysInItsRow) {
  Sequence sequence({.kv_heads = 1, .group = 2, .head_dim = 32}, 150);
  Cache cache(*GetParam().table, GetParam().type, sequence);
  const std::vector<float> expected = cache.tiles(0, 150);
  const int width = sequence.q_width();
  constexpr int kRow = 77;
  sequence.q[kRow * width + 3] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> got = cache.tiles(0, 150);
  EXPECT_TRUE(same_bits(rows_of(expected, width, 0, kRow), rows_of(got, width, 0, kRow)));
  EXPECT_TRUE(
      same_bits(rows_of(expected, width, kRow + 1, 150), rows_of(got, width, kRow + 1, 150)));
  EXPECT_THAT(rows_of(got, 32, kRow * 2, kRow * 2 + 1), Each(IsNan()));
  EXPECT_TRUE(same_bits(rows_of(expected, 32, kRow * 2 + 1, kRow * 2 + 2),
                        rows_of(got, 32, kRow * 2 + 1, kRow * 2 + 2)));  // the other head
}

TEST_P(AttentionTest, ANotANumberInTheCacheReachesOnlyRowsThatSeeIt) {
  for (const bool in_key : {true, false}) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Sequence sequence({.kv_heads = 1, .group = 2, .head_dim = 32}, 150);
      const int width = sequence.q_width();
      const std::vector<float> expected =
          Cache(*GetParam().table, GetParam().type, sequence).tiles(0, 150);
      constexpr int kPosition = 77;
      (in_key ? sequence.k : sequence.v)[kPosition * 32 + 5] = bad;
      const std::vector<float> got =
          Cache(*GetParam().table, GetParam().type, sequence).tiles(0, 150);
      EXPECT_TRUE(
          same_bits(rows_of(expected, width, 0, kPosition), rows_of(got, width, 0, kPosition)));
      if (!std::isnan(bad)) continue;
      for (int row = kPosition; row < 150; ++row) EXPECT_TRUE(std::isnan(got[row * width + 5]));
    }
  }
}

// At position 0 the only weight is exactly 1: what comes out is the stored value.
TEST_P(AttentionTest, StoredValuesAreWithinTheRoundingOfTheirType) {
  const Shape shape = {.kv_heads = 2, .group = 1, .head_dim = 80};
  for (const float magnitude : {1.0F, 1e-3F, 1e4F, 1e-35F, 0.0F}) {
    Sequence sequence(shape, 1);
    for (float& v : sequence.v) v *= magnitude;
    const std::vector<float> out = Cache(*GetParam().table, GetParam().type, sequence).tiles(0, 1);
    for (int head = 0; head < 2; ++head) {
      const float* v = &sequence.v[head * 80];
      float largest = 0;
      for (int i = 0; i < 80; ++i) largest = std::max(largest, std::abs(v[i]));
      for (int i = 0; i < 80; ++i) {
        float bound = 0;
        if (GetParam().type == KvType::kF16) bound = std::max(std::abs(v[i]) * 0x1p-11F, 0x1p-25F);
        if (GetParam().type == KvType::kBF16) bound = std::abs(v[i]) * 0x1p-8F;
        if (GetParam().type == KvType::kQ8_0) bound = largest / 254 * 1.0001F + 1e-30F;
        EXPECT_LE(std::abs(out[head * 80 + i] - v[i]), bound) << v[i];
      }
    }
  }
}

// Scores far apart and beyond the range of exp, in both orders: the running maximum has to follow.
TEST_P(AttentionTest, LargeScoresNeitherOverflowNorVanish) {
  for (const int largest_at : {0, 70, 599}) {
    Sequence sequence({.kv_heads = 1, .group = 1, .head_dim = 16}, 600);
    for (float& q : sequence.q) q = 40;
    for (int p = 0; p < 600; ++p) {
      std::fill_n(&sequence.k[p * 16], 16, p == largest_at ? 3.0F : -3.0F);
    }
    Cache cache(*GetParam().table, GetParam().type, sequence);
    const std::vector<float> out = cache.tiles(599, 1);
    std::vector<float> expected = rows_of(sequence.v, 16, largest_at, largest_at + 1);
    EXPECT_LE(largest_difference(out, expected), 0.03F);
  }
}

}  // namespace
}  // namespace weft
