// The executor as the engine drives it: quanta over runs of layers, several passes, any number of
// threads, slots and what is reported of output rows.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "checkpoint/gguf_writer.h"
#include "device/cpu/cpu_executor.h"
#include "device/cpu/test_driver.h"

namespace weft {
namespace {

using test::Driver;
using test::DriverOptions;
using test::Expected;
using test::Logits;
using test::same_bits;
using test::Tokens;
using ::testing::HasSubstr;

class QuantaTest : public ::testing::TestWithParam<std::string> {
 protected:
  DriverOptions options() const { return {.kernels = GetParam(), .threads = 2}; }
};

INSTANTIATE_TEST_SUITE_P(All, QuantaTest, ::testing::ValuesIn(test::kernel_names()),
                         [](const auto& info) { return info.param; });

TEST_P(QuantaTest, RunsOfLayersGiveTheSameBits) {
  const Expected expected("llama3-rope");
  Driver driver("llama3-rope", options());
  auto whole = driver.open(0);
  driver.run({Driver::rows(whole, expected.prompt, Outputs::kLast)});
  const std::vector<Logits> wanted = {driver.logits(0)};
  const std::vector<std::vector<int>> cuts = {{2, 4}, {1, 2, 3, 4}, {3, 4}};
  for (const std::vector<int>& ends : cuts) {
    auto sequence = driver.open(1);
    const Pass pass{3, {Driver::rows(sequence, expected.prompt, Outputs::kLast)}};
    int begin = 0;
    for (const int end : ends) {
      const auto outputs = driver.run({&pass}, begin, end);
      EXPECT_EQ(outputs.size(), end == 4 ? 1U : 0U);
      begin = end;
    }
    EXPECT_TRUE(same_bits({driver.logits(0)}, wanted));
  }
}

// A prompt walks through the layers while two other sequences decode and a third prompt overtakes
// it.
TEST_P(QuantaTest, PassesShareQuantaAndWaitAtBoundaries) {
  const Expected expected("qwen3");
  const Tokens short_prompt(expected.prompt.begin() + 5, expected.prompt.begin() + 25);
  Driver driver("qwen3", options());
  auto alone = driver.open(7);
  const Tokens wanted = driver.generate(alone, expected.prompt, 6);
  alone = driver.open(7);
  const Tokens wanted_short = driver.generate(alone, short_prompt, 6);

  std::vector<test::Sequence> s;
  s.reserve(4);
  for (SlotId slot = 0; slot < 4; ++slot) s.push_back(driver.open(slot));
  std::vector<Tokens> got(4);
  for (size_t i = 0; i < 2; ++i) {
    got[i].push_back(driver.run({Driver::rows(s[i], short_prompt, Outputs::kLast)})[0].token);
  }
  const auto decode = [&] { return Pass{0, {Driver::next(s[0]), Driver::next(s[1])}}; };
  const auto take = [&](const std::vector<OutputRow>& outputs) {
    for (const OutputRow& output : outputs) {
      const size_t owner = output.pass == 0 ? static_cast<size_t>(output.segment)
                                            : static_cast<size_t>(output.pass) + 1;
      got[owner].push_back(output.token);
    }
  };

  const std::span<const TokenId> prompt = expected.prompt;
  const Pass first_chunk{1, {Driver::rows(s[2], prompt.first(60), Outputs::kNone)}};
  Pass rows = decode();
  take(driver.run({&rows, &first_chunk}, 0, 2));  // together on layers 0 and 1
  take(driver.run({&rows}, 2, 4));                // decode goes on alone
  const Pass overtaking{2, {Driver::rows(s[3], short_prompt, Outputs::kLast)}};
  take(driver.run({&overtaking}, 0, 4));
  rows = decode();
  take(driver.run({&rows}, 0, 2));
  take(driver.run({&first_chunk, &rows}, 2, 4));  // the chunk joins again, in another order
  const Pass second_chunk{1, {Driver::rows(s[2], prompt.subspan(60), Outputs::kLast)}};
  rows = decode();
  take(driver.run({&rows, &second_chunk}, 0, 4));
  rows = decode();
  rows.segments.push_back(Driver::next(s[3]));
  const auto outputs = driver.run({&rows}, 0, 4);
  got[0].push_back(outputs[0].token);
  got[1].push_back(outputs[1].token);
  got[3].push_back(outputs[2].token);

  EXPECT_EQ(got[0], Tokens(wanted_short.begin(), wanted_short.begin() + 5));
  EXPECT_EQ(got[1], got[0]);
  EXPECT_EQ(got[2], Tokens(wanted.begin(), wanted.begin() + 1));
  EXPECT_EQ(got[3], Tokens(wanted_short.begin(), wanted_short.begin() + 2));
}

TEST_P(QuantaTest, ADroppedPassLeavesNothingBehind) {
  const Expected expected("llama");
  Driver driver("llama", options());
  auto sequence = driver.open(0);
  const Pass dropped{
      1, {Driver::rows(sequence, std::span(expected.prompt).first(30), Outputs::kNone)}};
  driver.run({&dropped}, 0, 3);
  driver.executor().drop_pass(1);
  driver.executor().close_slot(0);
  sequence = driver.open(0);
  const Pass again{1, {Driver::rows(sequence, expected.prompt, Outputs::kLast)}};
  EXPECT_EQ(driver.run({&again}, 0, 4)[0].token, expected.greedy[0]);
}

// Contexts over kSegmentKeys, where one decode row is cut into segments if that balances better,
// alone and beside short ones; experts with few rows and with many.
void any_number_of_threads_gives_the_same_bits(const std::string& name,
                                               const DriverOptions& options) {
  const Expected expected(name);
  Tokens prompt;
  while (prompt.size() < 700)
    prompt.insert(prompt.end(), expected.prompt.begin(), expected.prompt.end());
  std::vector<Logits> wanted;
  for (const int threads : {1, 2, 3}) {
    DriverOptions long_context = options;
    long_context.threads = threads;
    long_context.context = 900;
    Driver driver(name, long_context);
    EXPECT_EQ(driver.executor().cores(Group::kAll), threads);
    auto deep = driver.open(0);
    auto shallow = driver.open(1);
    std::vector<Logits> got;
    for (size_t at = 0; at < prompt.size(); at += 400) {
      const auto chunk = std::span(prompt).subspan(at, std::min<size_t>(400, prompt.size() - at));
      driver.run({Driver::rows(deep, chunk, Outputs::kLast)});
      got.push_back(driver.logits(0));
    }
    driver.run({Driver::rows(shallow, expected.prompt, Outputs::kLast)});
    for (int i = 0; i < 3; ++i) {
      driver.run({Driver::next(deep)});
      got.push_back(driver.logits(0));
      driver.run({Driver::next(shallow), Driver::next(deep)});
      got.push_back(driver.logits(0));
      got.push_back(driver.logits(1));
    }
    if (wanted.empty()) wanted = got;
    EXPECT_TRUE(same_bits(got, wanted)) << threads;
  }
}
TEST_P(QuantaTest, AnyNumberOfThreadsGivesTheSameBits) {
  any_number_of_threads_gives_the_same_bits("qwen2", options());
}
TEST_P(QuantaTest, AnyNumberOfThreadsGivesTheSameBitsOfExperts) {
  any_number_of_threads_gives_the_same_bits("qwen3moe", options());
}

TEST_P(QuantaTest, SeededTokensSurvivePreemptionAndNeighbours) {
  const Expected expected("llama");
  SamplingParams sampling;
  sampling.top_p = 0.9F;
  sampling.repetition_penalty = 1.1F;
  sampling.frequency_penalty = 0.2F;
  Driver driver("llama", options());
  auto sequence = driver.open(0, sampling, expected.prompt, {}, 42, 3);
  const Tokens wanted = driver.generate(sequence, expected.prompt, 24);
  EXPECT_NE(wanted, Tokens(expected.greedy.begin(), expected.greedy.begin() + 24));
  auto other = driver.open(1, sampling, expected.prompt, {}, 43, 3);
  EXPECT_NE(driver.generate(other, expected.prompt, 24), wanted);

  // Preempted after 10 tokens: what was generated is recomputed as a prompt, in chunks.
  const Tokens output(wanted.begin(), wanted.begin() + 10);
  sequence = driver.open(2, sampling, expected.prompt, output, 42, 3);
  Tokens recomputed = expected.prompt;
  recomputed.insert(recomputed.end(), output.begin(), output.end());
  driver.run({Driver::rows(sequence, std::span(recomputed).first(70), Outputs::kNone)});
  Tokens got = output;
  got.push_back(
      driver.run({Driver::rows(sequence, std::span(recomputed).subspan(70), Outputs::kLast)})[0]
          .token);
  auto neighbour = driver.open(3);
  driver.run({Driver::rows(neighbour, expected.prompt, Outputs::kLast)});
  while (got.size() < wanted.size()) {
    got.push_back(driver.run({Driver::next(neighbour), Driver::next(sequence)})[1].token);
  }
  EXPECT_EQ(got, wanted);
}

TEST_P(QuantaTest, OutputRowsReportTargetsSamplesAndTopLogprobs) {
  const Expected expected("qwen2");
  Driver driver("qwen2", options());
  SamplingParams sampling = test::greedy();
  sampling.top_logprobs = 3;
  auto sequence = driver.open(0, sampling);
  Tokens targets(expected.prompt.begin() + 1, expected.prompt.end());
  targets.push_back(kSample);
  const auto outputs =
      driver.run({Driver::rows(sequence, expected.prompt, Outputs::kAll, targets)});
  ASSERT_EQ(outputs.size(), expected.prompt.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputRow& row = outputs[i];
    const Logits& logits = driver.logits(i);
    double sum = 0;
    for (const float x : logits) sum += std::exp(double{x});
    EXPECT_EQ(row.row, static_cast<int>(i));
    EXPECT_EQ(row.token, i + 1 < outputs.size() ? targets[i] : expected.greedy[0]);
    EXPECT_TRUE(row.finite);
    EXPECT_NEAR(row.logprob, logits[static_cast<size_t>(row.token)] - std::log(sum), 1e-4);
    EXPECT_NEAR(row.logprob + row.log_sum_exp, logits[static_cast<size_t>(row.token)], 1e-4);
    ASSERT_EQ(row.top.size(), 3U);
    EXPECT_GE(row.top[0].logprob, row.top[1].logprob);
    EXPECT_FLOAT_EQ(row.top[0].logprob,
                    *std::max_element(logits.begin(), logits.end()) - row.log_sum_exp);
  }
  // The sampled row counts: decoding goes on from it.
  EXPECT_EQ(driver.run({Driver::next(sequence)})[0].token, expected.greedy[1]);
}

// The file of a tiny model, as bytes that a test may change.
std::vector<std::byte> file_bytes(const std::string& name) {
  const auto path = test::tiny(name, "f32.gguf");
  std::vector<std::byte> bytes(std::filesystem::file_size(path));
  std::ifstream(path, std::ios::binary)
      .read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

std::span<std::byte> tensor_bytes(std::vector<std::byte>& file, const std::string& name) {
  const auto checkpoint = Checkpoint::parse(file, "test");
  const auto view = checkpoint->find(name)->bytes;
  return std::span(file).subspan(static_cast<size_t>(view.data() - file.data()), view.size());
}

void a_logit_that_is_no_number_is_reported_and_harms_nobody_else(const std::string& name,
                                                                 const DriverOptions& options) {
  std::vector<std::byte> file = file_bytes(name);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // Token 9's embedding is broken: only rows that follow it are.
  std::memcpy(tensor_bytes(file, "token_embd.weight").subspan(9 * 64 * sizeof(float)).data(), &nan,
              sizeof nan);
  const Expected expected(name);
  Driver driver(file, options);
  auto healthy = driver.open(0);
  auto broken = driver.open(1);
  Tokens prompt = expected.prompt;
  std::replace(prompt.begin(), prompt.end(), 9, 10);
  auto alone = driver.open(2);
  const Tokens wanted = driver.generate(alone, prompt, 3);
  const Tokens bad_prompt = {1, 2, 9, 4};
  const auto outputs = driver.run({Driver::rows(healthy, prompt, Outputs::kLast),
                                   Driver::rows(broken, bad_prompt, Outputs::kLast)});
  EXPECT_TRUE(outputs[0].finite);
  EXPECT_EQ(outputs[0].token, wanted[0]);
  EXPECT_FALSE(outputs[1].finite);
  const auto second = driver.run({Driver::next(healthy), Driver::next(broken)});
  EXPECT_EQ(second[0].token, wanted[1]);
}
TEST_P(QuantaTest, ALogitThatIsNoNumberIsReportedAndHarmsNobodyElse) {
  a_logit_that_is_no_number_is_reported_and_harms_nobody_else("llama", options());
  a_logit_that_is_no_number_is_reported_and_harms_nobody_else("qwen3moe", options());
}

TEST_P(QuantaTest, TheFileIsNotReadAfterLoading) {
  const Expected expected("llama3-rope");
  std::vector<std::byte> file = file_bytes("llama3-rope");
  Driver driver(file, options());
  std::fill(file.begin(), file.end(), std::byte{0xff});
  auto sequence = driver.open(0);
  EXPECT_EQ(driver.generate(sequence, expected.prompt, 4),
            Tokens(expected.greedy.begin(), expected.greedy.begin() + 4));
}

TEST_P(QuantaTest, WeightsOfDifferentTypesShareAMultiplication) {
  // Q in F32, K in Q8_0, V in BF16: three formats of activations at most, one multiplication.
  const auto plain = Checkpoint::open(test::tiny("llama", "f32.gguf"));
  const auto q8 = Checkpoint::open(test::tiny("llama", "q8_0.gguf"));
  ASSERT_TRUE(plain.ok() && q8.ok());
  GgufWriter writer;
  for (const auto& [key, value] : plain->metadata().entries()) writer.add(key, value);
  for (const NamedTensor& tensor : plain->tensors()) {
    const TensorView* from = &tensor.view;
    const bool quantized =
        tensor.name.ends_with("attn_k.weight") || tensor.name.ends_with("ffn_up.weight");
    if (quantized) from = q8->find(tensor.name);
    if (tensor.name.ends_with("attn_v.weight")) {
      writer.add_tensor(tensor.name, DType::kBF16, from->shape, [from](std::span<std::byte> out) {
        for (size_t i = 0; i < out.size() / 2; ++i) {
          std::memcpy(out.data() + 2 * i, from->bytes.data() + 4 * i + 2, 2);
        }
      });
      continue;
    }
    writer.add_tensor(tensor.name, from->dtype, from->shape, [from](std::span<std::byte> out) {
      std::memcpy(out.data(), from->bytes.data(), out.size());
    });
  }
  const std::vector<std::byte> file = writer.to_bytes();
  const Expected expected("llama");
  Driver driver(file, options());
  auto sequence = driver.open(0);
  const auto logits = driver.all_logits(sequence, expected.prompt, 50);
  double squares = 0;
  double reference = 0;
  for (size_t i = 0; i < expected.logits.size(); ++i) {
    const float got = logits[i / logits[0].size()][i % logits[0].size()];
    squares += std::pow(double{got} - expected.logits[i], 2);
    reference += std::pow(double{expected.logits[i]}, 2);
  }
  EXPECT_LT(std::sqrt(squares / reference), 0.05);
}

TEST(CpuExecutorTest, SaysWhatItIs) {
  Driver driver("llama", {.threads = 2, .kv_type = KvType::kF16});
  EXPECT_EQ(driver.executor().description(), "cpu ref, 2 threads, kv f16");
  EXPECT_EQ(driver.executor().layers(), 4);
  EXPECT_EQ(driver.executor().vocab(), 512);
  EXPECT_EQ(driver.executor().cores(Group::kPrefill), 0);
  EXPECT_EQ(driver.executor().limits().context, 256);
}

TEST(CpuExecutorTest, SizesAndProgress) {
  const auto checkpoint = Checkpoint::open(test::tiny("llama3-rope", "f32.gguf"));
  ASSERT_TRUE(checkpoint.ok());
  const auto model = build_model(*checkpoint);
  ASSERT_TRUE(model.ok());
  const KernelTable& ref = **find_kernels("ref");
  // 4 layers x (keys and values) x 2 heads x 16 dimensions x 64 positions.
  EXPECT_EQ(kv_block_bytes(*model, ref, KvType::kF32), 4 * 2 * 2 * 16 * 64 * 4);
  EXPECT_EQ(kv_block_bytes(*model, ref, KvType::kF16), 4 * 2 * 2 * 16 * 64 * 2);
  // The tied embedding once.
  int64_t elements = 0;
  for (const NamedTensor& tensor : checkpoint->tensors()) {
    if (tensor.name != "rope_freqs.weight") elements += tensor.view.shape.elements();
  }
  EXPECT_EQ(packed_weight_bytes(*model, ref), elements * 4);

  CpuOptions options;
  options.kernels = &ref;
  options.limits = {1, 1, 8, 1, 64, 1};
  std::vector<double> shares;
  ASSERT_TRUE(
      make_cpu_executor(*model, *checkpoint, options, [&](double s) { shares.push_back(s); }).ok());
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_GT(shares.size(), 10U);
  EXPECT_EQ(shares.back(), 1.0);
}

TEST(CpuExecutorTest, RefusesLimitsThatCannotBe) {
  const auto checkpoint = Checkpoint::open(test::tiny("llama", "f32.gguf"));
  ASSERT_TRUE(checkpoint.ok());
  const auto model = build_model(*checkpoint);
  const auto refusal = [&](const ExecutorLimits& limits, int threads, bool pin = false) {
    CpuOptions options;
    options.kernels = *find_kernels("ref");
    options.threads = threads;
    options.pin = pin;
    options.limits = limits;
    options.kv_type = KvType::kF32;
    const auto executor = make_cpu_executor(*model, *checkpoint, options);
    return executor.ok() ? "accepted" : executor.error().message;
  };
  EXPECT_EQ(refusal({1, 1, 8, 1, 64, 1}, 1), "accepted");
  EXPECT_THAT(refusal({1, 1, 8, 1, 64, 0}, 1), HasSubstr("0 KV blocks"));
  EXPECT_THAT(refusal({1, 1, 8, 1, -5, 1}, 1), HasSubstr("-5 context"));
  EXPECT_THAT(refusal({1, 2000000000, 8, 1, 64, 1}, 1), HasSubstr("2000000000 passes"));
  EXPECT_THAT(refusal({8, 1, 8, 1, 64, 1}, 1), HasSubstr("8 rows: a row of each of 8 sequences"));
  EXPECT_THAT(refusal({1, 1, 8, 1, 64, 1}, 0), HasSubstr("0 threads"));
  EXPECT_THAT(refusal({1, 1, 8, 1, 64, 1}, 5000, true), HasSubstr("cannot pin 5000 threads"));
  EXPECT_THAT(refusal({1, 1, 8, 1, 64, 2000000000}, 1), HasSubstr("2000000000 KV blocks"));
}

}  // namespace
}  // namespace weft
