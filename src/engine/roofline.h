#pragma once
// The shortest time in which a quantum could run at the machine's limits: the roofline.

#include <algorithm>
#include <cmath>

#include "engine/cost_model.h"

namespace weft {

// Nanoseconds on all cores, each by itself: of operations at the peak rate of arithmetic, and of
// bytes at the bandwidth of memory. A quantum needs the larger of its two sums.
struct Roofline {
  double row = 0;        // operations of a row in a layer's multiplications
  double key = 0;        // of a row's look at one key
  double head_row = 0;   // of a row in the head
  double weights = 0;    // bytes of a layer's weights
  double key_bytes = 0;  // of one key and value
  double head = 0;       // of the head's weights

  Duration shortest(const Work& work, bool ends_at_head) const {
    const bool outputs = ends_at_head && work.head_rows > 0;
    const double compute =
        work.layers * (row * work.rows + key * static_cast<double>(work.pairs + work.keys)) +
        (outputs ? head_row * work.head_rows : 0);
    // Rows of one prompt read a key together, single rows each their own.
    const double memory =
        work.layers * (weights + key_bytes * static_cast<double>(work.keys)) + (outputs ? head : 0);
    return Duration(std::llround(std::max(compute, memory)));
  }
};

}  // namespace weft
