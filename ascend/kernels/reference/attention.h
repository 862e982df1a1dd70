#pragma once
// Attention in scalar code: what the kernels are compared with.

#include <cstdint>
#include <vector>

namespace weft_ascend::reference {

// One row of queries of one head over the keys that it sees.
struct AttentionRow {
  std::vector<double> out;    // [head_dim]
  std::vector<double> bound;  // [head_dim] how far the kernels' half result may be from it
};

// query [head_dim], keys and values [positions, head_dim]: the values of halves. All positions are
// seen.
AttentionRow Attention(const std::vector<float>& query, const std::vector<float>& keys,
                       const std::vector<float>& values, int32_t positions, double scale);

}  // namespace weft_ascend::reference
