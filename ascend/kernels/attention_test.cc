#include "attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "attention_shapes.h"
#include "reference/attention.h"
#include "twin.h"

namespace weft_ascend {
namespace {

Team WholeLaunch() {
  auto rank = static_cast<int32_t>(AscendC::GetBlockIdx());
  if ASCEND_IS_AIV {
    rank /= kVectorCores;
  }
  return {rank, static_cast<int32_t>(AscendC::GetBlockNum())};
}

void PrefillKernel(AttentionArgs args) {
  AscendC::TPipe pipe;
  PrefillAttention(pipe, WholeLaunch(), args);
}

void DecodeKernel(AttentionArgs args) {
  AscendC::TPipe pipe;
  DecodeAttention(pipe, WholeLaunch(), args);
}

void MergeKernel(AttentionArgs args) {
  AscendC::TPipe pipe;
  DecodeAttentionMerge(pipe, WholeLaunch(), args);
}

struct Shape {
  int32_t heads = 1;
  int32_t kv_heads = 1;
  int32_t head_dim = 64;

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }
};

constexpr uint16_t kNan = 0x7e00;
constexpr uint16_t kSentinel = 0x5555;

uint16_t Bits(float value) { return half(value).bits; }
float Value(uint16_t bits) {
  half value;
  value.bits = bits;
  return value;
}

// Halves, by position.
struct Sequence {
  std::vector<uint16_t> queries;  // [positions, heads, head_dim]
  std::vector<uint16_t> keys;     // [positions, kv_heads, head_dim], likewise values
  std::vector<uint16_t> values;
};

Sequence MakeSequence(const Shape& shape, int32_t positions, uint32_t seed, float spread = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::vector<uint16_t>& to, int32_t heads, float factor) {
    to.resize(static_cast<size_t>(positions) * heads * shape.head_dim);
    for (uint16_t& bits : to) bits = Bits(normal(random) * factor);
  };
  Sequence sequence;
  fill(sequence.queries, shape.heads, spread);
  fill(sequence.keys, shape.kv_heads, 1);
  fill(sequence.values, shape.kv_heads, 1);
  return sequence;
}

// Rows [first, first + rows) of a sequence.
struct Part {
  const Sequence* sequence;
  int32_t first;
  int32_t rows;
};

enum class Kind { kPrefill, kDecode };

struct Setting {
  Kind kind = Kind::kPrefill;
  int32_t blocks = 3;
  uint64_t seed = 1;
  uint32_t placement = 1;  // of the sequences' blocks in the pool
};

// The results of each part, [rows, heads, head_dim].
using Results = std::vector<std::vector<uint16_t>>;

// One call of attention on a device of its own. Whatever it has no business to read is NaN;
// whatever it has no business to write is looked at.
class Call {
 public:
  Call(const Shape& shape, const std::vector<Part>& parts, const Setting& setting)
      : shape_(shape), parts_(parts), setting_(setting), device_(DeviceOptions(setting)) {
    Lay();
  }

  Results Run() {
    AttentionArgs args = {};
    args.queries = Upload(queries_);
    args.kv = Upload(pool_);
    args.out = Upload(std::vector<uint16_t>(queries_rows_ * OutStride(), kSentinel));
    args.segments = Upload(segments_);
    args.block_tables = Upload(tables_);
    const auto count = static_cast<int32_t>(segments_.size());
    args.partials = static_cast<GM_ADDR>(device_.Allocate(
        AttentionPartialBytes(segments_.data(), count, shape_.heads, shape_.head_dim)));
    args.workspace = static_cast<GM_ADDR>(
        device_.Allocate(setting_.blocks * AttentionWorkspaceBytes(shape_.head_dim)));
    args.segment_count = count;
    args.heads = shape_.heads;
    args.kv_heads = shape_.kv_heads;
    args.head_dim = shape_.head_dim;
    args.q_stride = QueryStride();
    args.out_stride = OutStride();
    args.scale = shape_.scale();

    if (setting_.kind == Kind::kPrefill) {
      device_.Launch<&PrefillKernel>(setting_.blocks, args);
    } else {
      device_.Launch<&DecodeKernel>(setting_.blocks, args);
      device_.Launch<&MergeKernel>(setting_.blocks, args);
    }
    const auto outcome = device_.Run();
    EXPECT_EQ(outcome, weft::twin::Outcome::kEnded)
        << (device_.fault() ? device_.fault()->text() : "");
    std::vector<uint16_t> out(queries_rows_ * OutStride());
    device_.Copy(out.data(), args.out, out.size() * sizeof(uint16_t));
    return Collect(out);
  }

 private:
  static weft::twin::Options DeviceOptions(const Setting& setting) {
    weft::twin::Options options;
    options.chip = *weft::twin::find_chip("910B3");
    options.seed = setting.seed;
    return options;
  }

  int32_t Width() const { return shape_.heads * shape_.head_dim; }
  int32_t QueryStride() const { return Width() + 16; }
  int32_t OutStride() const { return Width() + 32; }

  void Lay() {
    int32_t blocks = 0;
    for (const Part& part : parts_) blocks += CeilDiv(part.first + part.rows, kBlockPositions);
    std::vector<int32_t> ids(blocks + blocks / 2 + 1);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937(setting_.placement));
    const size_t block_size =
        static_cast<size_t>(shape_.kv_heads) * 2 * kBlockPositions * shape_.head_dim;
    pool_.assign(ids.size() * block_size, kNan);

    for (const Part& part : parts_) {
      segments_.push_back(
          {queries_rows_, part.rows, part.first, static_cast<int32_t>(tables_.size())});
      queries_rows_ += part.rows;
      queries_.resize(static_cast<size_t>(queries_rows_) * QueryStride(), kNan);
      for (int32_t row = 0; row < part.rows; ++row) {
        std::copy_n(
            &part.sequence->queries[static_cast<size_t>(part.first + row) * Width()], Width(),
            &queries_[static_cast<size_t>(segments_.back().first_row + row) * QueryStride()]);
      }
      const int32_t positions = part.first + part.rows;
      for (int32_t first = 0; first < positions; first += kBlockPositions) {
        const int32_t id = ids[tables_.size()];
        tables_.push_back(id);
        FillBlock(*part.sequence, first, std::min(kBlockPositions, positions - first),
                  &pool_[id * block_size]);
      }
    }
    // A table is read by lines: what follows is none of this call's.
    tables_.push_back(1 << 30);
  }

  void FillBlock(const Sequence& sequence, int32_t first, int32_t count, uint16_t* block) const {
    const int32_t head_dim = shape_.head_dim;
    std::fill_n(block, static_cast<size_t>(shape_.kv_heads) * 2 * kBlockPositions * head_dim, 0);
    for (int32_t head = 0; head < shape_.kv_heads; ++head) {
      uint16_t* keys = block + static_cast<size_t>(head) * 2 * kBlockPositions * head_dim;
      uint16_t* values = keys + static_cast<size_t>(kBlockPositions) * head_dim;
      for (int32_t i = 0; i < count; ++i) {
        const size_t from = (static_cast<size_t>(first + i) * shape_.kv_heads + head) * head_dim;
        std::copy_n(&sequence.keys[from], head_dim, keys + static_cast<size_t>(i) * head_dim);
        std::copy_n(&sequence.values[from], head_dim, values + static_cast<size_t>(i) * head_dim);
      }
    }
  }

  template <class T>
  GM_ADDR Upload(const std::vector<T>& from) {
    void* to = device_.Allocate(from.size() * sizeof(T));
    device_.Copy(to, from.data(), from.size() * sizeof(T));
    return static_cast<GM_ADDR>(to);
  }

  Results Collect(const std::vector<uint16_t>& out) const {
    Results results;
    for (const AttentionSegment& segment : segments_) {
      std::vector<uint16_t>& rows = results.emplace_back();
      for (int32_t row = segment.first_row; row < segment.first_row + segment.rows; ++row) {
        const auto begin = out.begin() + static_cast<ptrdiff_t>(row) * OutStride();
        rows.insert(rows.end(), begin, begin + Width());
        EXPECT_TRUE(std::all_of(begin + Width(), begin + OutStride(),
                                [](uint16_t bits) { return bits == kSentinel; }))
            << "written beyond row " << row;
      }
    }
    return results;
  }

  Shape shape_;
  std::vector<Part> parts_;
  Setting setting_;
  weft::twin::Device device_;
  std::vector<uint16_t> queries_;
  int32_t queries_rows_ = 0;
  std::vector<uint16_t> pool_;
  std::vector<AttentionSegment> segments_;
  std::vector<int32_t> tables_;
};

Results Attend(const Shape& shape, const std::vector<Part>& parts, const Setting& setting = {}) {
  return Call(shape, parts, setting).Run();
}

// The rows at which something changes, and some between.
std::vector<int32_t> RowsToCompare(int32_t rows) {
  std::vector<int32_t> chosen;
  for (int32_t row : {0, 1, 15, 16, 31, 32, 63, 64, 65, 300, 511, 512, rows - 2, rows - 1}) {
    if (row >= 0 && row < rows) chosen.push_back(row);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

std::vector<float> HeadOf(const std::vector<uint16_t>& from, int32_t heads, int32_t head,
                          int32_t head_dim, int32_t first, int32_t count) {
  std::vector<float> to;
  for (int32_t i = first; i < first + count; ++i) {
    const size_t at = (static_cast<size_t>(i) * heads + head) * head_dim;
    for (int32_t j = 0; j < head_dim; ++j) to.push_back(Value(from[at + j]));
  }
  return to;
}

// The greatest error, as a part of its bound.
double CompareWithReference(const Shape& shape, const Part& part,
                            const std::vector<uint16_t>& result) {
  double worst = 0;
  const int32_t group = shape.heads / shape.kv_heads;
  const int32_t d = shape.head_dim;
  for (int32_t head = 0; head < shape.heads; ++head) {
    const auto keys =
        HeadOf(part.sequence->keys, shape.kv_heads, head / group, d, 0, part.first + part.rows);
    const auto values =
        HeadOf(part.sequence->values, shape.kv_heads, head / group, d, 0, part.first + part.rows);
    for (int32_t row : RowsToCompare(part.rows)) {
      const int32_t position = part.first + row;
      const auto query = HeadOf(part.sequence->queries, shape.heads, head, d, position, 1);
      const auto expected = reference::Attention(query, keys, values, position + 1, shape.scale());
      for (int32_t i = 0; i < d; ++i) {
        const double got = Value(result[(static_cast<size_t>(row) * shape.heads + head) * d + i]);
        const double error = std::abs(got - expected.out[i]) / expected.bound[i];
        if (!(error <= 1)) {
          ADD_FAILURE() << "position " << position << " (row " << row << " of " << part.rows
                        << "), head " << head << ", element " << i << ": " << got << " instead of "
                        << expected.out[i] << " +- " << expected.bound[i];
          return error;
        }
        worst = std::max(worst, error);
      }
    }
  }
  return worst;
}

const std::vector<int32_t> kSizes = {1, 15, 16, 17, 63, 64, 65, 127, 128, 511, 512, 513, 1030};

// ---- Against the reference, for each head size and group.

class AttentionShapes : public testing::TestWithParam<std::tuple<int32_t, int32_t>> {
 protected:
  Shape shape() const {
    const auto [head_dim, group] = GetParam();
    // Two key heads where a tile is small.
    const int32_t kv_heads = head_dim <= 64 ? 2 : 1;
    return {kv_heads * group, kv_heads, head_dim};
  }
};

// Every pair of sizes in all shapes together, each shape a part of them.
TEST_P(AttentionShapes, PrefillIsTheReference) {
  const Shape shape = this->shape();
  const auto [head_dim, group] = GetParam();
  const Sequence sequence = MakeSequence(shape, kSizes.back(), head_dim * 10 + group);
  std::vector<Part> parts;
  size_t pair = head_dim / 16 + group;
  for (int32_t keys : kSizes) {
    for (int32_t rows : kSizes) {
      if (rows <= keys && pair++ % 5 == 0) parts.push_back({&sequence, keys - rows, rows});
    }
  }
  const Results results = Attend(shape, parts);
  double worst = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    worst = std::max(worst, CompareWithReference(shape, parts[i], results[i]));
  }
  // A bound that no result comes near would say nothing.
  EXPECT_GT(worst, 0.02);
}

TEST_P(AttentionShapes, DecodeGivesThePrefillRowsBits) {
  const Shape shape = this->shape();
  const int32_t d = std::get<0>(GetParam());
  const Sequence sequence = MakeSequence(shape, kSizes.back(), d);
  const std::vector<uint16_t> prefill = Attend(shape, {{&sequence, 0, kSizes.back()}})[0];
  std::vector<Part> parts;
  for (int32_t size : kSizes) parts.push_back({&sequence, size - 1, 1});
  const Results decode = Attend(shape, parts, {.kind = Kind::kDecode, .blocks = 4});
  const auto width = static_cast<ptrdiff_t>(shape.heads) * d;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto row = prefill.begin() + parts[i].first * width;
    EXPECT_TRUE(std::equal(row, row + width, decode[i].begin())) << kSizes[i] << " keys";
  }
}

INSTANTIATE_TEST_SUITE_P(HeadSizesAndGroups, AttentionShapes,
                         testing::Combine(testing::Values(16, 32, 64, 80, 128),
                                          testing::Values(1, 3, 4)));

// ---- A row's bits depend on the row alone.

constexpr Shape kSmall = {6, 2, 32};

TEST(Attention, RowsOfAnyPassAreTheSame) {
  const Sequence sequence = MakeSequence(kSmall, 700, 3);
  const Sequence other = MakeSequence(kSmall, 200, 4);
  const std::vector<uint16_t> whole = Attend(kSmall, {{&sequence, 0, 700}})[0];
  const auto width = static_cast<ptrdiff_t>(kSmall.heads) * kSmall.head_dim;
  for (const auto& [first, rows] : std::vector<std::pair<int32_t, int32_t>>{
           {0, 700}, {0, 1}, {5, 40}, {100, 21}, {448, 64}, {500, 33}, {512, 1}, {699, 1}}) {
    for (Kind kind : {Kind::kPrefill, Kind::kDecode}) {
      const Results results =
          Attend(kSmall, {{&other, 30, 7}, {&sequence, first, rows}, {&other, 0, 100}},
                 {.kind = kind, .blocks = 5});
      const auto row = whole.begin() + first * width;
      EXPECT_TRUE(std::equal(row, row + rows * width, results[1].begin()))
          << rows << " rows from " << first << (kind == Kind::kDecode ? ", decode" : "");
    }
  }
}

TEST(Attention, TeamsOfAnySizeGiveTheSameBits) {
  const Sequence sequence = MakeSequence(kSmall, 1030, 5);
  const std::vector<Part> parts = {
      {&sequence, 0, 130}, {&sequence, 512, 17}, {&sequence, 1029, 1}, {&sequence, 0, 1}};
  const Results one = Attend(kSmall, parts, {.blocks = 1});
  for (int32_t blocks : {2, 3, 7, 20}) {
    EXPECT_EQ(Attend(kSmall, parts, {.blocks = blocks}), one) << blocks;
    EXPECT_EQ(Attend(kSmall, parts, {.kind = Kind::kDecode, .blocks = blocks}), one) << blocks;
  }
}

TEST(Attention, WhereBlocksLieMakesNoDifference) {
  const Sequence sequence = MakeSequence(kSmall, 600, 6);
  const std::vector<Part> parts = {{&sequence, 400, 200}, {&sequence, 599, 1}};
  const Results results = Attend(kSmall, parts);
  for (uint32_t placement : {2, 3, 4}) {
    EXPECT_EQ(Attend(kSmall, parts, {.placement = placement}), results);
    EXPECT_EQ(Attend(kSmall, parts, {.kind = Kind::kDecode, .placement = placement}), results);
  }
}

// WEFT_TWIN_SEEDS: how many instead of 50.
TEST(Attention, SeedsGiveTheSameBits) {
  const char* wanted = std::getenv("WEFT_TWIN_SEEDS");
  const int seeds = wanted != nullptr ? std::atoi(wanted) : 50;
  const Sequence sequence = MakeSequence(kSmall, 530, 7);
  const std::vector<Part> parts = {
      {&sequence, 0, 25}, {&sequence, 110, 19}, {&sequence, 500, 30}, {&sequence, 529, 1}};
  const Results results = Attend(kSmall, parts, {.blocks = 2});
  for (int seed = 2; seed <= seeds; ++seed) {
    for (Kind kind : {Kind::kPrefill, Kind::kDecode}) {
      ASSERT_EQ(
          Attend(kSmall, parts, {.kind = kind, .blocks = 2, .seed = static_cast<uint64_t>(seed)}),
          results)
          << "seed " << seed << (kind == Kind::kDecode ? ", decode" : "");
    }
  }
}

// ---- Shapes and numbers at the edges.

void ExpectReference(const Shape& shape, const Sequence& sequence, const std::vector<Part>& parts) {
  const Results prefill = Attend(shape, parts);
  for (size_t i = 0; i < parts.size(); ++i) CompareWithReference(shape, parts[i], prefill[i]);
  EXPECT_EQ(Attend(shape, parts, {.kind = Kind::kDecode}), prefill);
  (void)sequence;
}

TEST(Attention, GroupsBeyondAVectorCoreOrATile) {
  for (int32_t group : {2, 7, 21, 33, 64, 71}) {
    SCOPED_TRACE(group);
    const Shape shape = {group, 1, 16};
    const Sequence sequence = MakeSequence(shape, 90, group);
    ExpectReference(shape, sequence, {{&sequence, 0, 5}, {&sequence, 60, 30}, {&sequence, 3, 1}});
  }
}

TEST(Attention, WidestHead) {
  const Shape shape = {2, 1, 256};
  const Sequence sequence = MakeSequence(shape, 130, 8);
  ExpectReference(shape, sequence, {{&sequence, 0, 130}, {&sequence, 64, 1}});
}

// The maximum grows with every tile, or was greatest in the first: rescaling by next to nothing.
TEST(Attention, MaximumFarApartBetweenTiles) {
  const Shape shape = {2, 1, 32};
  for (const bool growing : {false, true}) {
    Sequence sequence = MakeSequence(shape, 1030, 9);
    for (size_t i = 0; i < sequence.keys.size(); ++i) {
      const auto position = static_cast<float>(i / 32);
      const float factor = (growing ? position : 1030 - position) / 40;
      sequence.keys[i] = Bits(std::abs(Value(sequence.keys[i])) * factor);
    }
    for (uint16_t& bits : sequence.queries) bits = Bits(std::abs(Value(bits)));
    ExpectReference(shape, sequence,
                    {{&sequence, 0, 70}, {&sequence, 480, 64}, {&sequence, 1000, 30}});
  }
}

TEST(Attention, ScoresAllTheSame) {
  const Shape shape = {4, 1, 16};
  Sequence sequence = MakeSequence(shape, 520, 10);
  std::fill(sequence.keys.begin(), sequence.keys.end(), Bits(0.0f));
  ExpectReference(shape, sequence, {{&sequence, 0, 66}, {&sequence, 505, 15}});
}

// Zeros come out positive, whatever was merged on the way.
TEST(Attention, NegativeZeros) {
  const Shape shape = {1, 1, 16};
  Sequence sequence = MakeSequence(shape, 600, 11);
  std::fill(sequence.values.begin(), sequence.values.end(), Bits(-0.0f));
  for (Kind kind : {Kind::kPrefill, Kind::kDecode}) {
    const Results results = Attend(shape, {{&sequence, 500, 40}}, {.kind = kind});
    EXPECT_EQ(results[0], std::vector<uint16_t>(40 * 16, 0));
  }
}

// Memory of an earlier use of the rest of a block: finite, and of no effect.
TEST(Attention, NoSegmentsAtAll) {
  EXPECT_TRUE(Attend(kSmall, {}).empty());
  EXPECT_TRUE(Attend(kSmall, {}, {.kind = Kind::kDecode}).empty());
}

}  // namespace
}  // namespace weft_ascend
