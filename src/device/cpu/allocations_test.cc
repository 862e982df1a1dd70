// A steady step takes no memory: every allocation of every thread is counted.

#include <gtest/gtest.h>

#include "base/allocation_counter_test.h"
#include "device/cpu/test_driver.h"

namespace weft {
namespace {

using test::Driver;
using test::Expected;
using test::Tokens;

constexpr int kSequences = 4;
constexpr int kSteps = 300;

class SteadySteps {
 public:
  SteadySteps(Driver& driver, const Tokens& prompt, int top_logprobs) : driver_(driver) {
    SamplingParams sampling;
    sampling.top_logprobs = top_logprobs;
    sampling.repetition_penalty = 1.1F;
    sampling.frequency_penalty = 0.1F;
    for (SlotId slot = 0; slot < kSequences; ++slot) {
      sequences_.push_back(driver.open(slot, sampling, prompt, {}, 5));
      driver.run({Driver::rows(sequences_.back(), prompt, Outputs::kLast)});
    }
    decode_.passes = {&pass_};
    pass_.segments.resize(kSequences);
  }

  void start(Group group) {
    for (size_t i = 0; i < kSequences; ++i) pass_.segments[i] = Driver::next(sequences_[i]);
    decode_.layer_end = driver_.layers();
    driver_.executor().start(group, decode_);
  }
  void wait() { ASSERT_TRUE(driver_.executor().wait(TimePoint::max(), completion_)); }

 private:
  Driver& driver_;
  std::vector<test::Sequence> sequences_;
  Pass pass_;
  Quantum decode_;
  Completion completion_;
};

TEST(Allocations, NoneInASteadyDecodeStep) {
  const Expected expected("qwen2");
  for (const char* model : {"qwen2", "qwen3moe"}) {
    for (const int threads : {1, 2, 3}) {
      Driver driver(model,
                    {.kernels = "auto", .threads = threads, .observe = false, .context = 512});
      SteadySteps steps(driver, expected.prompt, 4);
      int64_t before = 0;
      for (int step = 0; step < kSteps; ++step) {
        if (step == 2) before = allocations.load();
        steps.start(Group::kAll);
        steps.wait();
      }
      EXPECT_EQ(allocations.load() - before, 0) << threads;
    }
  }
}

TEST(Allocations, NoneWhileAPromptWalksBesideDecodeSteps) {
  const Expected expected("qwen2");
  Driver driver("qwen2", {.kernels = "auto",
                          .threads = 2,
                          .prefill_threads = 1,
                          .decode_threads = 1,
                          .observe = false,
                          .context = 512});
  // Top logprobs would give up their memory to a completion without output rows.
  SteadySteps steps(driver, expected.prompt, 0);
  auto prompt = driver.open(7);
  const Pass pass{
      .id = 1, .segments = {Driver::rows(prompt, expected.prompt, Outputs::kNone)}, .sends = 0};
  Quantum layer{0, {&pass}, 0, 0};
  int64_t before = 0;
  for (int step = 0; step < kSteps; ++step) {
    if (step == 8) before = allocations.load();
    layer.layer_begin = step % driver.layers();
    layer.layer_end = layer.layer_begin + 1;
    driver.executor().start(Group::kPrefill, layer);
    steps.start(Group::kDecode);
    steps.wait();
    steps.wait();
  }
  EXPECT_EQ(allocations.load() - before, 0);
}

TEST(Allocations, AreCounted) {
#if defined(WEFT_SANITIZED)
  ASSERT_GT(hooks, 0);
#endif
  const int64_t before = allocations.load();
  ::operator delete(::operator new(100));
  EXPECT_EQ(allocations.load() - before, 1);
}

}  // namespace
}  // namespace weft
