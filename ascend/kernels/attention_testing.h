#pragma once
// What tests of attention share: sequences, a call on a device of its own, the comparison with the
// reference.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "attention.h"
#include "attention_shapes.h"
#include "kernel_testing.h"
#include "reference/attention.h"
#include "twin.h"

namespace weft_ascend::attention_testing {

inline void RunPrefill(AttentionArgs args) {
  AscendC::TPipe pipe;
  PrefillAttention(pipe, WholeLaunch(), args);
}

inline void RunDecode(AttentionArgs args) {
  AscendC::TPipe pipe;
  DecodeAttention(pipe, WholeLaunch(), args);
}

inline void RunMerge(AttentionArgs args) {
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

inline uint16_t Bits(float value) { return half(value).bits; }
inline float Value(uint16_t bits) {
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

inline Sequence MakeSequence(const Shape& shape, int32_t positions, uint32_t seed,
                             float spread = 1) {
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
    const AttentionArgs args = Upload();
    if (setting_.kind == Kind::kPrefill) {
      device_.Launch<&RunPrefill>(setting_.blocks, args);
    } else {
      device_.Launch<&RunDecode>(setting_.blocks, args);
      device_.Launch<&RunMerge>(setting_.blocks, args);
    }
    return Finish(args);
  }

  // For kernels of a test's own: the arguments, and what they have given.
  AttentionArgs Upload() {
    AttentionArgs args = {};
    args.queries = Place(queries_);
    args.kv = Place(pool_);
    args.out = PlaceOut();
    args.segments = Place(segments_);
    args.block_tables = Place(tables_);
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
    return args;
  }

  Results Finish(const AttentionArgs& args) {
    const auto outcome = device_.Run();
    EXPECT_EQ(outcome, weft::twin::Outcome::kEnded)
        << (device_.fault() ? device_.fault()->text() : "");
    std::vector<uint16_t> out(static_cast<size_t>(query_rows_) * OutStride());
    device_.Copy(out.data(), args.out, out.size() * sizeof(uint16_t));
    return Collect(out);
  }

  GM_ADDR PlaceOut() {
    return Place(std::vector<uint16_t>(static_cast<size_t>(query_rows_) * OutStride(), kSentinel));
  }

  template <class T>
  GM_ADDR Place(const std::vector<T>& from) {
    void* to = device_.Allocate(from.size() * sizeof(T));
    device_.Copy(to, from.data(), from.size() * sizeof(T));
    return static_cast<GM_ADDR>(to);
  }

  weft::twin::Device& device() { return device_; }

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
          {query_rows_, part.rows, part.first, static_cast<int32_t>(tables_.size())});
      query_rows_ += part.rows;
      queries_.resize(static_cast<size_t>(query_rows_) * QueryStride(), kNan);
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
  int32_t query_rows_ = 0;
  std::vector<uint16_t> pool_;
  std::vector<AttentionSegment> segments_;
  std::vector<int32_t> tables_;
};

inline Results Attend(const Shape& shape, const std::vector<Part>& parts,
                      const Setting& setting = {}) {
  return Call(shape, parts, setting).Run();
}

// The rows at which something changes, and some between.
inline std::vector<int32_t> RowsToCompare(int32_t rows) {
  std::vector<int32_t> chosen;
  for (int32_t row :
       {0, 1, 15, 16, 31, 32, 63, 64, 65, 127, 128, 300, 511, 512, rows - 2, rows - 1}) {
    if (row >= 0 && row < rows) chosen.push_back(row);
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

inline std::vector<float> HeadOf(const std::vector<uint16_t>& from, int32_t heads, int32_t head,
                                 int32_t head_dim, int32_t first, int32_t count) {
  std::vector<float> to;
  for (int32_t i = first; i < first + count; ++i) {
    const size_t at = (static_cast<size_t>(i) * heads + head) * head_dim;
    for (int32_t j = 0; j < head_dim; ++j) to.push_back(Value(from[at + j]));
  }
  return to;
}

// The greatest error, as a part of its bound.
inline double CompareWithReference(const Shape& shape, const Part& part,
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

}  // namespace weft_ascend::attention_testing
