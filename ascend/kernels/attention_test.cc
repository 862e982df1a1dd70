#include "attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "attention_testing.h"
#include "barrier.h"
#include "kernel_testing.h"
#include "twin.h"

namespace weft_ascend {
namespace {

using namespace attention_testing;  // NOLINT(google-build-using-namespace): its only user

const std::vector<int32_t> kSizes = {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 511, 512, 513, 1030};

// ---- Against the reference, for each head size and group.

class AttentionShapes : public ::testing::TestWithParam<std::tuple<int32_t, int32_t>> {
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
  EXPECT_GT(worst, 0.2);
}

TEST_P(AttentionShapes, DecodeGivesThePrefillRowsBits) {
  const Shape shape = this->shape();
  const int32_t d = shape.head_dim;
  const Sequence sequence = MakeSequence(shape, kSizes.back() + 3, d);
  std::vector<Part> prefill_parts;
  std::vector<Part> decode_parts;
  for (int32_t size : kSizes) {
    const int32_t before = std::min(size - 1, 18);
    prefill_parts.push_back({&sequence, size - 1 - before, before + 4});
    decode_parts.push_back({&sequence, size - 1, 1});
  }
  const Results prefill = Attend(shape, prefill_parts);
  const Results decode = Attend(shape, decode_parts, {.kind = Kind::kDecode, .blocks = 4});
  const auto width = static_cast<ptrdiff_t>(shape.heads) * d;
  for (size_t i = 0; i < kSizes.size(); ++i) {
    const auto row = prefill[i].begin() + (prefill_parts[i].rows - 4) * width;
    EXPECT_TRUE(std::equal(row, row + width, decode[i].begin())) << kSizes[i] << " keys";
  }
}

INSTANTIATE_TEST_SUITE_P(HeadSizesAndGroups, AttentionShapes,
                         ::testing::Combine(::testing::Values(16, 32, 64, 80, 128),
                                            ::testing::Values(1, 3, 4)));

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

TEST(Attention, SeedsGiveTheSameBits) {
  const Sequence sequence = MakeSequence(kSmall, 530, 7);
  const std::vector<Part> parts = {
      {&sequence, 0, 25}, {&sequence, 110, 19}, {&sequence, 500, 30}, {&sequence, 529, 1}};
  const Results results = Attend(kSmall, parts, {.blocks = 2});
  for (int seed = 2; seed <= weft_ascend::testing::Seeds(); ++seed) {
    for (Kind kind : {Kind::kPrefill, Kind::kDecode}) {
      ASSERT_EQ(
          Attend(kSmall, parts, {.kind = kind, .blocks = 2, .seed = static_cast<uint64_t>(seed)}),
          results)
          << "seed " << seed << (kind == Kind::kDecode ? ", decode" : "");
    }
  }
}

// ---- Shapes and numbers at the edges.

void ExpectReference(const Shape& shape, const std::vector<Part>& parts) {
  const Results prefill = Attend(shape, parts);
  for (size_t i = 0; i < parts.size(); ++i) CompareWithReference(shape, parts[i], prefill[i]);
  EXPECT_EQ(Attend(shape, parts, {.kind = Kind::kDecode}), prefill);
}

TEST(Attention, GroupsBeyondAVectorCoreOrATile) {
  for (int32_t group : {2, 7, 21, 33, 64, 71, 128, 150}) {
    SCOPED_TRACE(group);
    const Shape shape = {group, 1, 16};
    const Sequence sequence = MakeSequence(shape, 90, group);
    ExpectReference(shape, {{&sequence, 0, 5}, {&sequence, 60, 30}, {&sequence, 3, 1}});
  }
}

// Their tiles have half the rows.
TEST(Attention, WideHeads) {
  for (int32_t head_dim : {144, 192, 256}) {
    SCOPED_TRACE(head_dim);
    const Shape shape = {2, 1, head_dim};
    const Sequence sequence = MakeSequence(shape, 600, 8);
    ExpectReference(shape, {{&sequence, 0, 130}, {&sequence, 64, 1}, {&sequence, 490, 110}});
  }
}

// The maximum grows with every tile, or was greatest in the first: rescaling by next to nothing.
TEST(Attention, MaximumFarApartBetweenTiles) {
  const Shape shape = {2, 1, 32};
  for (const bool growing : {false, true}) {
    Sequence sequence = MakeSequence(shape, 1030, 9);
    for (size_t i = 0; i < sequence.keys.size(); ++i) {
      const size_t position = i / 32;
      const float factor = static_cast<float>(growing ? position : 1030 - position) / 40;
      sequence.keys[i] = Bits(std::abs(Value(sequence.keys[i])) * factor);
    }
    for (uint16_t& bits : sequence.queries) bits = Bits(std::abs(Value(bits)));
    ExpectReference(shape, {{&sequence, 0, 70}, {&sequence, 480, 64}, {&sequence, 1000, 30}});
  }
}

TEST(Attention, ScoresAllTheSame) {
  const Shape shape = {4, 1, 16};
  Sequence sequence = MakeSequence(shape, 520, 10);
  std::fill(sequence.keys.begin(), sequence.keys.end(), Bits(0.0f));
  ExpectReference(shape, {{&sequence, 0, 66}, {&sequence, 505, 15}});
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

// A row that is no longer a number, or a whole sequence of them, is alone with it.
TEST(Attention, NotANumberStaysWhereItIs) {
  const Sequence sequence = MakeSequence(kSmall, 100, 14);
  Sequence broken = sequence;
  const auto width = static_cast<ptrdiff_t>(kSmall.heads) * kSmall.head_dim;
  std::fill_n(broken.queries.begin() + 70 * width, width, kNan);
  Sequence lost = sequence;
  std::fill(lost.keys.begin(), lost.keys.end(), kNan);
  const std::vector<uint16_t> expected = Attend(kSmall, {{&sequence, 60, 40}})[0];
  for (Kind kind : {Kind::kPrefill, Kind::kDecode}) {
    Results results =
        Attend(kSmall, {{&lost, 90, 10}, {&broken, 60, 40}, {&sequence, 60, 40}}, {.kind = kind});
    EXPECT_TRUE(std::all_of(results[0].begin(), results[0].end(),
                            [](uint16_t bits) { return std::isnan(Value(bits)); }));
    const auto row = results[1].begin() + 10 * width;
    EXPECT_TRUE(
        std::all_of(row, row + width, [](uint16_t bits) { return std::isnan(Value(bits)); }));
    std::copy_n(expected.begin() + 10 * width, width, row);
    EXPECT_EQ(results[1], expected);
    EXPECT_EQ(results[2], expected);
  }
}

// ---- One after the other in a resident kernel.

// Attention twice; between, the first segment's table becomes the next segment's, and its rows
// fewer.
void RunTwice(AttentionArgs first, AttentionArgs second, GM_ADDR flags, int32_t blocks,
              int32_t rows) {
  AscendC::TPipe pipe;
  const Team team = WholeLaunch();
  TeamBarrier barrier;
  barrier.Init(pipe, flags, team, 0);
  const auto meet = [&barrier] {
    barrier.Arrive();
    barrier.Leave();
  };
  PrefillAttention(pipe, team, first);
  meet();
  if (team.rank == 0 && ProgramOfBlock() == 0) {
    AscendC::GlobalTensor<uint32_t> words;
    words.SetGlobalBuffer(reinterpret_cast<__gm__ uint32_t*>(first.block_tables));
    for (int32_t i = 0; i < blocks; ++i) {
      words.SetValue(i, words.GetValue(blocks + i));
      RefreshLine(words[i]);
    }
    words.SetGlobalBuffer(reinterpret_cast<__gm__ uint32_t*>(first.segments));
    words.SetValue(1, rows);
    RefreshLine(words);
    AscendC::DataSyncBarrier<AscendC::MemDsbT::DDR>();
  }
  meet();
  DecodeAttention(pipe, team, second);
  meet();
  DecodeAttentionMerge(pipe, team, second);
}

TEST(Attention, TablesChangeWithinALaunch) {
  const Sequence sequence = MakeSequence(kSmall, 540, 12);
  Sequence other = MakeSequence(kSmall, 540, 13);
  other.queries = sequence.queries;
  const std::vector<Part> parts = {{&sequence, 500, 40}, {&other, 500, 40}};
  const Results expected = Attend(kSmall, parts);

  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Setting setting = {.blocks = 4, .seed = seed};
    Call call(kSmall, parts, setting);
    const AttentionArgs first = call.Upload();
    AttentionArgs second = first;
    second.out = call.PlaceOut();
    second.segment_count = 1;
    const GM_ADDR flags =
        call.Place(std::vector<uint8_t>(static_cast<size_t>(BarrierBytes(setting.blocks)), 0));
    constexpr int32_t kRows = 21;
    call.device().Launch<&RunTwice>(setting.blocks, first, second, flags, 9, kRows);
    ASSERT_EQ(call.Finish(first), expected) << "seed " << seed;

    std::vector<uint16_t> rows = expected[1];
    std::fill(rows.begin() + kRows * kSmall.heads * kSmall.head_dim, rows.end(), kSentinel);
    ASSERT_EQ(call.Finish(second)[0], rows) << "seed " << seed;
  }
}

TEST(Attention, NoSegmentsAtAll) {
  EXPECT_TRUE(Attend(kSmall, {}).empty());
  EXPECT_TRUE(Attend(kSmall, {}, {.kind = Kind::kDecode}).empty());
}

}  // namespace
}  // namespace weft_ascend
