#include "engine/cost_model.h"

#include <algorithm>
#include <cmath>

namespace weft {
namespace {

// Large enough to follow a machine whose load changes within some tens of quanta, small enough that
// one disturbed quantum moves little.
constexpr double kRate = 0.1;
constexpr double kSlowest = 1.5;  // of measured / predicted, as far as one quantum is believed
constexpr double kFastest = 0.7;

// Between which nodes a number of rows lies, and how far: beyond the last, more than 1.
struct Place {
  size_t node;
  double share;
};

Place place(int rows) {
  size_t node = 0;
  while (node + 2 < CostModel::kNodes && CostModel::node_rows(static_cast<int>(node) + 1) <= rows) {
    ++node;
  }
  const double low = CostModel::node_rows(static_cast<int>(node));
  return {node, (std::max(rows, 1) - low) / low};
}

double layer_rows(const CostModel::Costs& costs, int rows) {
  const Place at = place(rows);
  return costs.rows[at.node] + at.share * (costs.rows[at.node + 1] - costs.rows[at.node]);
}

}  // namespace

void Work::add_segment(int first, int count) {
  rows += count;
  if (count == 1) {
    keys += first + 1;
  } else {
    pairs += int64_t{count} * (2 * int64_t{first} + count + 1) / 2;
  }
}

Work Work::operator+(const Work& other) const {
  return {.rows = rows + other.rows,
          .pairs = pairs + other.pairs,
          .keys = keys + other.keys,
          .head_rows = head_rows + other.head_rows,
          .layers = layers};
}

Duration CostModel::predict(Group group, const Work& work, bool ends_at_head) const {
  const Costs& c = costs(group);
  if (work.rows == 0) return {};
  double time = work.layers * (layer_rows(c, work.rows) + c.pair * static_cast<double>(work.pairs) +
                               c.key * static_cast<double>(work.keys));
  if (ends_at_head && work.head_rows > 0) time += c.head + c.head_row * work.head_rows;
  return Duration(std::llround(time));
}

void CostModel::learn(Group group, const Work& work, bool ends_at_head, Duration measured) {
  const auto predicted = static_cast<double>(predict(group, work, ends_at_head).count());
  if (predicted <= 0 || measured <= Duration::zero()) return;
  const double ratio =
      std::clamp(static_cast<double>(measured.count()) / predicted, kFastest, kSlowest);
  const double step = kRate * (ratio - 1);
  Costs& c = costs_[static_cast<size_t>(group)];
  const double layers = work.layers / predicted;
  const Place at = place(work.rows);
  const double rows = layers * layer_rows(c, work.rows);
  const double pairs = layers * c.pair * static_cast<double>(work.pairs);
  const double keys = layers * c.key * static_cast<double>(work.keys);
  const double near = std::clamp(1 - at.share, 0.0, 1.0);
  c.rows[at.node] *= 1 + step * rows * near;
  c.rows[at.node + 1] *= 1 + step * rows * (1 - near);
  c.pair *= 1 + step * pairs;
  c.key *= 1 + step * keys;
  if (ends_at_head && work.head_rows > 0) {
    const double head = (c.head + c.head_row * work.head_rows) / predicted;
    c.head *= 1 + step * head;
    c.head_row *= 1 + step * head;
  }
}

}  // namespace weft
