#pragma once
// What a quantum takes on this machine: predicted from its rows, keys and layers, learned from
// every quantum that ran.
//
//   time = layers x (m(rows) + p x pairs + k x keys) + h(head rows)
//
// m is piecewise linear over powers of two of rows: it holds what the weights cost to read and the
// rows to multiply. p is the time of a prompt row's look at one key, k that of a single row's,
// which is bound by memory.

#include <array>
#include <cstdint>

#include "base/clock.h"
#include "device/executor.h"

namespace weft {

// The rows of a quantum in the terms above.
struct Work {
  int rows = 0;
  int64_t pairs = 0;  // sum over rows of longer segments of the keys that each looks at
  int64_t keys = 0;   // the same over segments of one row
  int head_rows = 0;  // that reach the head once the layers are done
  int layers = 0;

  // `rows` rows of one sequence from position `first` on.
  void add_segment(int first, int rows);
  // Both side by side, through the same layers.
  Work operator+(const Work& other) const;
  Work through(int layer_count) const {
    Work work = *this;
    work.layers = layer_count;
    return work;
  }
};

// A value: copies are independent.
class CostModel {
 public:
  static constexpr int kNodes = 13;  // 1, 2, 4, ... 4096 rows

  struct Costs {                        // nanoseconds
    std::array<double, kNodes> rows{};  // of a layer
    double pair = 0;
    double key = 0;
    double head = 0;      // once
    double head_row = 0;  // and for each row
  };

  // All costs are 0: every quantum is predicted to take no time.
  CostModel() = default;
  explicit CostModel(const Costs& all_cores) { costs_.fill(all_cores); }
  void set(Group group, const Costs& costs) { costs_[static_cast<size_t>(group)] = costs; }
  const Costs& costs(Group group) const { return costs_[static_cast<size_t>(group)]; }

  // `ends_at_head`: the last of the layers is the model's.
  Duration predict(Group group, const Work& work, bool ends_at_head) const;
  // Moves each cost by its share of the prediction towards what was measured.
  void learn(Group group, const Work& work, bool ends_at_head, Duration measured);

  static int node_rows(int node) { return 1 << node; }

 private:
  std::array<Costs, kGroups> costs_{};
};

}  // namespace weft
