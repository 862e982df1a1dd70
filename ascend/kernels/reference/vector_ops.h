#pragma once
// The vector operators written down plainly, in doubles unless floats define the result: what the
// kernels are compared with. A value comes with the error that the kernel's arithmetic may have.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
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

// One head: bias [head_dim] or empty, norm weights [head_dim] or empty, angles [pairs] or empty.
struct HeadInput {
  std::span<const float> x;
  std::span<const float> bias;
  std::span<const float> norm;
  std::span<const float> cos;
  std::span<const float> sin;
  float eps = 0;
};

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

namespace detail {

// A value that carries a relative error of `units` float units, then rounded to half.
inline Bounded to_half(double value, double error) {
  return {value, error + (std::abs(value) + error) * kHalfUnit + kLeastHalf};
}

inline double mean_square(std::span<const float> x) {
  double sum = 0;
  for (const float v : x) sum += double{v} * v;
  return sum / static_cast<double>(x.size());
}

// Units of relative error of 1 / sqrt(mean(x^2) + eps): a square, the sums of lanes, pieces, a tree
// of 6 levels and repeats one after another, the mean's two and eps' halve under the root; then the
// root itself and the division.
inline double factor_units(size_t pieces, size_t repeats) {
  return 0.5 * static_cast<double>(1 + pieces + 6 + repeats + 3) + 2;
}

}  // namespace detail

// update, bias, weights: may be empty.
inline NormRow add_norm(std::span<const float> hidden, std::span<const float> update,
                        std::span<const float> bias, std::span<const float> weights, float eps) {
  NormRow row;
  row.hidden.assign(hidden.begin(), hidden.end());
  const size_t n = hidden.size();
  for (size_t i = 0; i < n && !update.empty(); ++i) {
    row.hidden[i] += update[i];
    if (!bias.empty()) row.hidden[i] += bias[i];
  }
  if (weights.empty()) return row;
  const double factor = 1 / std::sqrt(detail::mean_square(row.hidden) + eps);
  const double units = detail::factor_units((n + 2047) / 2048, 32) + 2;
  for (size_t i = 0; i < n; ++i) {
    const double value = double{row.hidden[i]} * factor * weights[i];
    row.normed.push_back(detail::to_half(value, std::abs(value) * units * kFloatUnit));
  }
  return row;
}

// gate_up: gate, then up; bias: the same or empty.
inline std::vector<Bounded> swiglu(std::span<const float> gate_up, std::span<const float> bias) {
  const size_t n = gate_up.size() / 2;
  const auto input = [&](size_t i) {
    return double{bias.empty() ? gate_up[i] : gate_up[i] + bias[i]};
  };
  std::vector<Bounded> out;
  for (size_t i = 0; i < n; ++i) {
    const double gate = input(i);
    const double value = gate / (1 + std::exp(-gate)) * input(n + i);
    // exp's 4, the addition's, the division's and the product's.
    out.push_back(detail::to_half(value, std::abs(value) * 7 * kFloatUnit));
  }
  return out;
}

inline std::vector<Bounded> rotary_head(const HeadInput& head) {
  const size_t n = head.x.size();
  std::vector<float> x(head.x.begin(), head.x.end());
  for (size_t i = 0; i < n && !head.bias.empty(); ++i) x[i] += head.bias[i];

  std::vector<Bounded> v(n);
  const bool norms = !head.norm.empty();
  const double factor = norms ? 1 / std::sqrt(detail::mean_square(x) + head.eps) : 1;
  const double units = norms ? detail::factor_units((n + 63) / 64, 0) + 2 : 0;
  for (size_t i = 0; i < n; ++i) {
    v[i].value = norms ? x[i] * factor * head.norm[i] : x[i];
    v[i].error = std::abs(v[i].value) * units * kFloatUnit;
  }
  const size_t pairs = head.cos.size();
  for (size_t i = 0; i < pairs; ++i) {
    const Bounded a = v[i];
    const Bounded b = v[i + pairs];
    const double cos = head.cos[i];
    const double sin = head.sin[i];
    // Two products and their sum; what a and b carry.
    const double error =
        2 * kFloatUnit * (std::abs(a.value) + std::abs(b.value)) + a.error + b.error;
    v[i] = {a.value * cos - b.value * sin, error};
    v[i + pairs] = {b.value * cos + a.value * sin, error};
  }
  for (Bounded& e : v) e = detail::to_half(e.value, e.error);
  return v;
}

inline Drawn sample(std::span<const float> logits, const Sampling& sampling) {
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  });
  const auto logit = [&](int token) { return logits[static_cast<size_t>(token)]; };
  const float max = logit(order[0]);
  if (sampling.inverse_temperature == 0) return {order[0], 1, 1};
  const auto weight = [&](int token) {
    return std::exp((double{logit(token)} - max) * sampling.inverse_temperature);
  };
  Drawn drawn;
  size_t kept = order.size();
  while (kept > 1 && logit(order[kept - 1]) < max + sampling.floor) --kept;
  if (sampling.top_k > 0) kept = std::min(kept, static_cast<size_t>(sampling.top_k));
  order.resize(kept);
  double mass = 0;
  for (const int token : order) mass += weight(token);
  if (sampling.top_p < 1) {
    const double target = double{sampling.top_p} * mass;
    double sum = 0;
    kept = 0;
    while (kept < order.size() && (kept == 0 || sum < target)) {
      sum += weight(order[kept++]);
      drawn.edge = std::min(drawn.edge, std::abs(sum - target) / mass);
    }
    order.resize(kept);
    mass = sum;
  }
  std::sort(order.begin(), order.end());
  drawn.kept = static_cast<int>(order.size());
  drawn.token = order.back();
  const double target = sampling.uniform * mass;
  double sum = 0;
  bool found = false;
  for (const int token : order) {
    sum += weight(token);
    if (token != order.back()) {
      drawn.edge = std::min(drawn.edge, std::abs(sum - target) / mass);
    }
    if (!found && sum > target) {
      drawn.token = token;
      found = true;
    }
  }
  return drawn;
}

}  // namespace weft_ascend::reference
