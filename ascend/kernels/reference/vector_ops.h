#pragma once
// The vector operators written down plainly, in doubles unless floats define the result: what the
// kernels are compared with. A value comes with the error that the kernel's arithmetic may have.

#include <cstdint>
#include <span>
#include <vector>

namespace weft_ascend::reference {

// Units in the last place of the kernels' number formats.
inline constexpr double kFloatUnit = 0x1p-24;
inline constexpr double kHalfUnit = 0x1p-11;
inline constexpr double kLeastHalf = 0x1p-25;  // half of the smallest one

struct Bounded {
  double value = 0;
  double error = 0;
};

struct NormRow {
  std::vector<float> hidden;  // exact
  std::vector<Bounded> normed;
};
// update, bias: may be empty.
NormRow add_norm(std::span<const float> hidden, std::span<const float> update,
                 std::span<const float> bias, std::span<const float> weights, float eps);

// gate_up: gate, then up; bias: the same or empty.
std::vector<Bounded> swiglu(std::span<const float> gate_up, std::span<const float> bias);

// One head: bias [head_dim] or empty, norm weights [head_dim] or empty, angles [pairs] or empty.
struct HeadInput {
  std::span<const float> x;
  std::span<const float> bias;
  std::span<const float> norm;
  std::span<const float> cos;
  std::span<const float> sin;
  float eps = 0;
};
std::vector<Bounded> rotary_head(const HeadInput& head);

// The order of sampling by sorting all tokens.
struct Sampling {
  float inverse_temperature = 1;
  int top_k = 0;
  float top_p = 1;
  float floor = 0;  // as in SampleRow
  double uniform = 0;
};
struct Drawn {
  int token = 0;
  int kept = 0;
  // How far, in shares of the mass, top-p's and the uniform number are from where another token
  // would be kept or drawn.
  double edge = 1;
};
Drawn sample(std::span<const float> logits, const Sampling& sampling);

}  // namespace weft_ascend::reference
