// The engine on the CPU executor with a model whose greedy text an independent implementation
// computed.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "device/cpu/cpu_executor.h"
#include "engine/engine_host_test.h"
#include "kernels/kernel_table.h"
#include "model/model.h"

namespace weft {
namespace {

// The prompt of tests/data/tiny/qwen3/expected.json and its greedy tokens.
const std::vector<TokenId> kPrompt{
    28,  201, 10,  19,  11,  374, 461, 86,  485, 372, 269, 407, 453, 14,  326, 384,
    20,  11,  280, 433, 297, 336, 339, 201, 73,  454, 285, 297, 318, 71,  73,  292,
    446, 483, 284, 357, 14,  492, 452, 71,  326, 17,  263, 448, 91,  344, 307, 223,
    427, 263, 269, 308, 71,  313, 78,  507, 261, 85,  9,   326, 260, 87,  312, 263,
    85,  9,   319, 86,  363, 278, 14,  269, 370, 50,  46,  267, 439, 300, 320, 389,
    82,  78,  497, 85,  201, 312, 270, 262, 261, 71,  341, 305, 81,  275, 300, 84};
const std::vector<TokenId> kGreedy{424, 188, 196, 460, 497, 301, 340, 497, 301, 38,  349, 73,
                                   196, 353, 151, 460, 133, 334, 366, 509, 452, 476, 54,  51,
                                   73,  196, 353, 151, 460, 405, 23,  193, 497, 497, 497, 36,
                                   476, 215, 117, 313, 327, 270, 327, 421, 117, 312, 271, 366};

struct HostOptions {
  std::string model = "qwen3";
  KvType kv_type = KvType::kF32;
  int threads = 1;
  int chunk_rows = 256;
  int blocks = 32;
  int slots = 8;
  Mode mode = Mode::kChunked;
  int prefill_threads = 0;
  int decode_threads = 0;
};

std::unique_ptr<Executor> executor_of(const Model& model, const Checkpoint& checkpoint,
                                      const HostOptions& options) {
  CpuOptions cpu;
  cpu.kernels = *find_kernels("auto");
  cpu.threads = options.threads;
  cpu.kv_type = options.kv_type;
  cpu.limits = {.slots = options.slots,
                .passes = 9,
                .rows = options.chunk_rows + options.slots,
                .output_rows = options.slots,
                .context = 256,
                .blocks = options.blocks};
  cpu.prefill_threads = options.prefill_threads;
  cpu.decode_threads = options.decode_threads;
  return std::move(*make_cpu_executor(model, checkpoint, cpu));
}

// A device with the model, and an engine on it.
struct Host {
  explicit Host(const HostOptions& options)
      : checkpoint(*Checkpoint::open(std::filesystem::path(WEFT_TEST_DATA) / "tiny" /
                                     options.model / "f32.gguf")),
        model(*build_model(checkpoint)),
        engine(executor_of(model, checkpoint, options), options.mode, options.chunk_rows) {}

  Checkpoint checkpoint;
  Model model;
  EngineHost engine;
};

Request greedy_request() {
  Request request;
  request.prompt = kPrompt;
  request.max_tokens = static_cast<int>(kGreedy.size());
  request.sampling.temperature = 0;
  request.sampling.top_logprobs = 5;
  request.prompt_logprobs = 2;
  return request;
}

// Eight requests of different lengths and sampling; the first is the greedy one.
std::vector<Request> eight_requests() {
  std::vector<Request> requests{greedy_request()};
  std::mt19937 random(5);
  for (int i = 1; i < 8; ++i) {
    Request request;
    // Two blocks each before they end, so that a small pool runs out.
    const int length = i == 7 ? 1 : 40 + 3 * i;
    for (int t = 0; t < length; ++t) {
      request.prompt.push_back(kPrompt[random() % kPrompt.size()]);
    }
    request.max_tokens = 36;
    request.seed = random();
    request.choice = static_cast<uint32_t>(i % 3);
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    request.sampling.top_p = 0.95F;
    request.sampling.repetition_penalty = i % 3 == 0 ? 1.2F : 1.0F;
    request.sampling.frequency_penalty = i % 3 == 1 ? 0.5F : 0.0F;
    request.sampling.top_logprobs = 3;
    request.prompt_logprobs = i % 4 == 0 ? 1 : -1;
    requests.push_back(std::move(request));
  }
  return requests;
}

class EngineOnTheCpu : public testing::TestWithParam<std::tuple<std::string, KvType>> {
 protected:
  HostOptions host(HostOptions options) const {
    options.model = std::get<0>(GetParam());
    options.kv_type = std::get<1>(GetParam());
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(KvTypes, EngineOnTheCpu,
                         testing::Combine(testing::Values("qwen3", "qwen3moe"),
                                          testing::Values(KvType::kF32, KvType::kF16, KvType::kBF16,
                                                          KvType::kQ8_0)));

TEST(EngineOnACpu, GreedyTextIsTheReferences) {
  Host host({});
  auto sink = host.engine.submit(greedy_request());
  sink->wait_finished();
  EXPECT_EQ(sink->tokens(), kGreedy);
  ASSERT_EQ(sink->prompt().size(), kPrompt.size() - 1);
  for (const EngineEvent& event : sink->events()) {
    ASSERT_EQ(event.top.size(), 5U);
    EXPECT_EQ(event.top[0].token, event.token);
    EXPECT_EQ(event.top[0].logprob, event.logprob);
  }
}

// Bitwise: every token, logprob and alternative.
TEST_P(EngineOnTheCpu, AloneOrAmongSevenOthersIsTheSame) {
  const auto requests = eight_requests();
  const auto alone = Host(host({})).engine.play_alone(requests);
  const std::vector<HostOptions> hosts = {
      host({.threads = 2}),
      host({.chunk_rows = 7}),
      host({.chunk_rows = 64, .slots = 3}),
      host({.chunk_rows = 33, .blocks = 6}),
      host({.threads = 2, .mode = Mode::kSerial}),
      host({.threads = 2, .chunk_rows = 32, .mode = Mode::kLayered}),
      host({.threads = 2, .mode = Mode::kFused}),
      host({.threads = 2, .chunk_rows = 40, .blocks = 6, .mode = Mode::kFused}),
      host({.threads = 2, .mode = Mode::kSplit, .prefill_threads = 1, .decode_threads = 1}),
      host({.threads = 3,
            .chunk_rows = 40,
            .blocks = 6,
            .mode = Mode::kSplit,
            .prefill_threads = 2,
            .decode_threads = 1}),
      host({.threads = 2, .mode = Mode::kAuto, .prefill_threads = 1, .decode_threads = 1}),
  };
  for (const HostOptions& options : hosts) {
    SCOPED_TRACE(fmt::format("chunks of {}, mode {}", options.chunk_rows, mode_name(options.mode)));
    Host host(options);
    expect_same(host.engine.play_together(requests), alone);
    if (options.blocks == 6 && options.mode == Mode::kChunked) {
      EXPECT_GT(host.engine.preemptions(), 0);
    }
  }
}

}  // namespace
}  // namespace weft
