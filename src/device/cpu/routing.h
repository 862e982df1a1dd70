#pragma once
// Routing: which experts work on which rows.

#include <cstdint>
#include <span>
#include <vector>

namespace weft {

// One of a row's experts and its part in the sum.
struct ExpertChoice {
  int32_t expert = 0;
  float weight = 0;
};

// Fills `choices` with the experts of the largest logits, largest first and of equal ones the first
// expert first; their weights are the softmax over all logits, scaled to add up to 1. A logit that
// is not finite makes every weight NaN.
void choose_experts(std::span<const float> logits, std::span<ExpertChoice> choices);

// The (row, expert) pairs of a batch in the order of their experts, rows ascending within each: an
// expert's rows lie together. Allocates only when it is made.
class ExpertRows {
 public:
  struct Group {
    int32_t expert = 0;
    int32_t first = 0;  // of its pairs
    int32_t rows = 0;
  };

  ExpertRows(int experts, int used, int64_t most_rows);

  // `choices`: [rows, used].
  void sort(std::span<const ExpertChoice> choices);

  // One for each expert that has rows, ascending.
  std::span<const Group> groups() const { return groups_; }
  // Of each pair its row; a group's begin at its `first`.
  std::span<const int32_t> rows() const { return rows_; }
  // Where the pairs of row r went, [rows, used]: place [r * used + rank].
  std::span<const int32_t> places() const { return places_; }
  // Rows of the group that has most.
  int64_t largest() const { return largest_; }

 private:
  int used_;
  std::vector<int32_t> counts_;  // by expert; then where its next pair goes
  std::vector<Group> groups_;
  std::vector<int32_t> rows_;
  std::vector<int32_t> places_;
  int64_t largest_ = 0;
};

}  // namespace weft
