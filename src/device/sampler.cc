#include "device/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "device/philox.h"

namespace weft {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kMassBlock = 4096;
constexpr size_t kSelectBlock = 64;

bool before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// The tokens that are left to draw from: those up to this one in the order of sampling.
struct Cut {
  float logit = -kInfinity;
  TokenId token = std::numeric_limits<TokenId>::max();

  bool keeps(float x, TokenId t) const { return x > logit || (x == logit && t <= token); }
};

bool all_finite(std::span<const float> logits) {
  uint32_t bad = 0;
  for (const float x : logits) {
    bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(x) & 0x7F800000U) == 0x7F800000U);
  }
  return bad == 0;
}

// The lowest id of that logit; 0 for a value that equals none.
TokenId first_equal(std::span<const float> logits, float value) {
  const auto at = std::find(logits.begin(), logits.end(), value);
  return at == logits.end() ? 0 : static_cast<TokenId>(at - logits.begin());
}

// The k first candidates among logits of at least `floor`, in no order.
void select(std::span<const float> logits, size_t k, float floor, std::vector<Candidate>& out) {
  out.clear();
  const size_t full = std::max(2 * k, size_t{256});
  const auto keep_k = [&] {
    std::nth_element(out.begin(), out.begin() + static_cast<ptrdiff_t>(k) - 1, out.end(), before);
    out.resize(k);
  };
  for (size_t begin = 0; begin < logits.size(); begin += kSelectBlock) {
    const size_t end = std::min(begin + kSelectBlock, logits.size());
    bool any = false;  // most blocks hold none, which vectors find out
    for (size_t i = begin; i < end; ++i) any |= logits[i] >= floor;
    for (size_t i = any ? begin : end; i < end; ++i) {
      if (!(logits[i] >= floor)) continue;
      out.push_back({logits[i], static_cast<TokenId>(i)});
      if (out.size() < full) continue;
      keep_k();
      floor = out[k - 1].logit;
    }
  }
  if (out.size() > k) keep_k();
}

// Relative probabilities at a temperature; the largest logit weighs 1.
struct Weights {
  float max;
  double inverse_temperature;

  double operator()(float logit) const {
    return std::exp((double{logit} - double{max}) * inverse_temperature);
  }
  // The logit of that weight.
  float logit(double weight) const {
    return static_cast<float>(double{max} + std::log(weight) / inverse_temperature);
  }
};

// The shortest run of candidates in order of sampling that weighs `target`: its last one.
Cut nucleus(std::span<Candidate> candidates, const Weights& weights, double target) {
  size_t begin = 0;  // the last one of the run is within [begin, end)
  size_t end = candidates.size();
  double passed = 0;
  while (end - begin > 1) {
    const size_t middle = begin + (end - begin) / 2;
    const auto at = [&](size_t i) { return candidates.begin() + static_cast<ptrdiff_t>(i); };
    std::nth_element(at(begin), at(middle), at(end), before);
    double mass = 0;
    for (size_t i = begin; i < middle; ++i) mass += weights(candidates[i].logit);
    if (passed + mass >= target) {
      end = middle;
    } else {
      passed += mass;
      begin = middle;
    }
  }
  return {candidates[begin].logit, candidates[begin].token};
}

// Draws by the inverse of the cumulative distribution over ids in ascending order.
class Drawing {
 public:
  Drawing(const KernelTable& kernels, std::span<const float> logits, const SamplingParams& params,
          float max, SamplerScratch& scratch)
      : kernels_(kernels),
        logits_(logits),
        params_(params),
        // Below some temperature only the largest logit has a weight in any case.
        weights_{max, 1.0 / std::max(double{params.temperature}, 1e-6)},
        scratch_(scratch) {}

  TokenId draw(double uniform) {
    const bool all_k = params_.top_k <= 0 || static_cast<size_t>(params_.top_k) >= logits_.size();
    if (all_k && params_.min_p <= 0 && !by_top_p()) return draw_from_all(uniform);
    return draw_candidate(find_cut(all_k), uniform);
  }

 private:
  bool by_top_p() const { return params_.top_p < 1; }

  double block_mass(size_t begin) const {
    const size_t n = std::min(kMassBlock, logits_.size() - begin);
    return kernels_.sum_exp(logits_.data() + begin, static_cast<int64_t>(n), weights_.max,
                            static_cast<float>(weights_.inverse_temperature));
  }

  double mass_of_all() {
    double total = 0;
    scratch_.masses.clear();
    for (size_t begin = 0; begin < logits_.size(); begin += kMassBlock) {
      total += scratch_.masses.emplace_back(block_mass(begin));
    }
    return total;
  }

  double mass_of_candidates() const {
    double total = 0;
    for (const Candidate& c : scratch_.candidates) total += weights_(c.logit);
    return total;
  }

  // Leaves at least all tokens up to the cut in the candidates.
  Cut find_cut(bool all_k) {
    std::vector<Candidate>& candidates = scratch_.candidates;
    Cut cut;
    if (params_.min_p > 0) cut.logit = weights_.logit(params_.min_p);
    const size_t k = all_k ? logits_.size() : static_cast<size_t>(params_.top_k);
    if (all_k && !by_top_p()) {
      select(logits_, k, cut.logit, candidates);
      return cut;
    }
    if (all_k && params_.min_p <= 0) {
      // What weighs less than a token's share of the tail that top_p leaves out is in that tail,
      // since all such tokens together weigh less than it. Half of it forgives rounding. Most often
      // far fewer tokens hold the mass: those that weigh e^-4, e^-8, e^-16 ... of the likeliest.
      const double total = mass_of_all();
      const double target = double{params_.top_p} * total;
      const double lowest = 0.5 * (total - target) / static_cast<double>(logits_.size());
      for (double floor = std::exp(-4.0);; floor *= floor) {
        select(logits_, k, weights_.logit(std::max(floor, lowest)), candidates);
        if (floor <= lowest || mass_of_candidates() >= target) break;
      }
      return nucleus(candidates, weights_, target);
    }
    select(logits_, k, cut.logit, candidates);
    if (by_top_p()) {
      return nucleus(candidates, weights_, double{params_.top_p} * mass_of_candidates());
    }
    const Candidate last = *std::max_element(candidates.begin(), candidates.end(), before);
    return {last.logit, last.token};
  }

  // Finds the first token at which the weights so far exceed a target; the last one with a weight
  // where rounding leaves the sum short of it.
  class Search {
   public:
    Search(double target, TokenId start) : target_(target), token_(start) {}
    // Whether this token is the one.
    bool add(TokenId token, double weight) {
      if (weight <= 0) return false;
      token_ = token;
      passed_ += weight;
      return passed_ > target_;
    }
    TokenId token() const { return token_; }

   private:
    double target_;
    double passed_ = 0;
    TokenId token_;
  };

  TokenId draw_candidate(const Cut& cut, double uniform) {
    std::vector<Candidate>& kept = scratch_.candidates;
    std::erase_if(kept, [&](const Candidate& c) { return !cut.keeps(c.logit, c.token); });
    std::sort(kept.begin(), kept.end(),
              [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
    Search search(uniform * mass_of_candidates(), first_equal(logits_, weights_.max));
    for (const Candidate& c : kept) {
      if (search.add(c.token, weights_(c.logit))) break;
    }
    return search.token();
  }

  TokenId draw_from_all(double uniform) {
    double target = uniform * mass_of_all();
    size_t block = 0;
    while (block + 1 < scratch_.masses.size() && target >= scratch_.masses[block]) {
      target -= scratch_.masses[block++];
    }
    const size_t begin = block * kMassBlock;
    const size_t end = std::min(begin + kMassBlock, logits_.size());
    Search search(target, first_equal(logits_, weights_.max));
    for (size_t i = begin; i < end; ++i) {
      if (search.add(static_cast<TokenId>(i), weights_(logits_[i]))) break;
    }
    return search.token();
  }

  const KernelTable& kernels_;
  std::span<const float> logits_;
  const SamplingParams& params_;
  Weights weights_;
  SamplerScratch& scratch_;
};

TokenId draw_token(const KernelTable& kernels, std::span<const float> logits,
                   const SamplerState& state, int64_t position, SamplerScratch& scratch) {
  const std::span<const float> adjusted = state.adjust(logits, scratch.logits);
  const float max = kernels.max_value(adjusted.data(), static_cast<int64_t>(adjusted.size()));
  // A bias may have made a logit infinite; then it is the one to take.
  if (state.params().temperature <= 0 || !std::isfinite(max)) return first_equal(adjusted, max);
  return Drawing(kernels, adjusted, state.params(), max, scratch).draw(state.uniform(position));
}

void report_logprobs(const KernelTable& kernels, std::span<const float> logits, int top,
                     std::vector<Candidate>& candidates, Sample& sample) {
  const auto n = static_cast<int64_t>(logits.size());
  const float max = kernels.max_value(logits.data(), n);
  sample.log_sum_exp = max + std::log(kernels.sum_exp(logits.data(), n, max, 1.0F));
  const auto logprob = [&](float logit) { return logit - sample.log_sum_exp; };
  sample.logprob = logprob(logits[static_cast<size_t>(sample.token)]);
  if (top <= 0) return;
  select(logits, std::min({static_cast<size_t>(top), logits.size(), sample.top.size()}), -kInfinity,
         candidates);
  std::sort(candidates.begin(), candidates.end(), before);
  for (const Candidate& c : candidates) {
    sample.top[static_cast<size_t>(sample.top_count++)] = {c.token, logprob(c.logit)};
  }
}

}  // namespace

SamplerScratch::SamplerScratch(int vocab) : logits(static_cast<size_t>(vocab)) {
  candidates.reserve(logits.size());
  masses.reserve(logits.size() / kMassBlock + 1);
}

void SamplerState::open(const SlotInit& init, int vocab, int context) {
  params_ = init.sampling;
  // What lies outside its range was refused at the edge; here it only must do no harm.
  params_.top_p = std::max(params_.top_p, 0.0F);
  params_.min_p = std::min(params_.min_p, 1.0F);
  const auto unknown = [&](TokenId token) { return token < 0 || token >= vocab; };
  std::erase_if(params_.logit_bias, [&](const auto& bias) { return unknown(bias.first); });
  std::erase_if(params_.forbidden, unknown);
  seed_ = init.seed;
  choice_ = init.choice;
  outputs_ = 0;
  last_ = init.prompt.empty() ? 0 : init.prompt.back();
  seen_.clear();
  counts_ = params_.repetition_penalty != 1.0F || params_.presence_penalty != 0.0F ||
            params_.frequency_penalty != 0.0F;
  if (counts_) {
    seen_.reserve(static_cast<size_t>(context) + 1);
    for (const TokenId token : init.prompt) {
      WEFT_CHECK(!unknown(token), "token {} of {}", token, vocab);
      seen_.push_back({token, 0});
    }
    const auto less = [](const Seen& a, const Seen& b) { return a.token < b.token; };
    const auto same = [](const Seen& a, const Seen& b) { return a.token == b.token; };
    std::sort(seen_.begin(), seen_.end(), less);
    seen_.erase(std::unique(seen_.begin(), seen_.end(), same), seen_.end());
  }
  for (const TokenId token : init.output) {
    WEFT_CHECK(!unknown(token), "token {} of {}", token, vocab);
    accept(token);
  }
}

SamplerState::Seen& SamplerState::seen(TokenId token) {
  const auto at = std::lower_bound(seen_.begin(), seen_.end(), token,
                                   [](const Seen& s, TokenId t) { return s.token < t; });
  if (at != seen_.end() && at->token == token) return *at;
  return *seen_.insert(at, {token, 0});
}

void SamplerState::accept(TokenId token) {
  last_ = token;
  ++outputs_;
  if (counts_) ++seen(token).outputs;
}

double SamplerState::uniform(int64_t position) const {
  return sampling_uniform(seed_, choice_, static_cast<uint64_t>(position));
}

void SamplerState::penalize(std::span<float> logits) const {
  for (const Seen& s : seen_) {
    float& x = logits[static_cast<size_t>(s.token)];
    x = x > 0 ? x / params_.repetition_penalty : x * params_.repetition_penalty;
    if (s.outputs == 0) continue;
    x -= params_.frequency_penalty * static_cast<float>(s.outputs);
    x -= params_.presence_penalty;
  }
}

std::span<const float> SamplerState::adjust(std::span<const float> logits,
                                            std::span<float> scratch) const {
  const bool forbids = outputs_ < params_.min_tokens && !params_.forbidden.empty();
  if (seen_.empty() && params_.logit_bias.empty() && !forbids) return logits;
  std::copy(logits.begin(), logits.end(), scratch.begin());
  penalize(scratch);
  for (const auto& [token, bias] : params_.logit_bias) {
    scratch[static_cast<size_t>(token)] += bias;
  }
  if (forbids) {
    for (const TokenId token : params_.forbidden) {
      scratch[static_cast<size_t>(token)] = -kInfinity;
    }
  }
  return scratch;
}

Sample sample_row(const KernelTable& kernels, std::span<const float> logits,
                  const SamplerState& state, int64_t position, TokenId target,
                  SamplerScratch& scratch) {
  Sample sample;
  sample.token = target;
  sample.finite = all_finite(logits);
  if (!sample.finite) {
    // The sequence has to end; until it does its slot holds an id that exists.
    if (target == kSample) sample.token = 0;
    return sample;
  }
  if (target == kSample) sample.token = draw_token(kernels, logits, state, position, scratch);
  const int top = state.params().top_logprobs;
  if (top >= 0 || target != kSample) {
    report_logprobs(kernels, logits, top, scratch.candidates, sample);
  }
  return sample;
}

}  // namespace weft
