// The engine on the Ascend executor over the twin: every mode gives the same bits, and a core that
// fails takes only the requests along that it held.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device/ascend/ascend_executor.h"
#include "engine/engine_host_test.h"
#include "kernels/kernel_table.h"
#include "model/model.h"
#include "twin.h"

namespace weft {
namespace {

using testing::HasSubstr;

struct HostOptions {
  Mode mode = Mode::kChunked;
  uint64_t seed = 1;
  int prefill_cores = 0;
  int decode_cores = 0;
  int chunk_rows = 64;
  int slots = 8;
};

std::unique_ptr<Executor> executor_of(const Model& model, const Checkpoint& checkpoint,
                                      const HostOptions& options) {
  twin::Options device;
  device.chip.cores = 3;
  device.seed = options.seed;
  twin::set_acl_options(device);
  AscendOptions ascend;
  ascend.cores = 3;
  ascend.prefill_cores = options.prefill_cores;
  ascend.decode_cores = options.decode_cores;
  ascend.host_kernels = *find_kernels("ref");
  ascend.spin_cap = 3000;
  ascend.limits = {.slots = options.slots,
                   .passes = 9,
                   .rows = options.chunk_rows + options.slots,
                   .output_rows = options.slots,
                   .context = 192,
                   .blocks = 24};
  return std::move(*make_ascend_executor(model, checkpoint, ascend));
}

// The twin with a model, and an engine on it.
struct Host {
  explicit Host(const HostOptions& options)
      : checkpoint(
            *Checkpoint::open(std::filesystem::path(WEFT_TEST_DATA) / "tiny/qwen2/f32.gguf")),
        model(*build_model(checkpoint)),
        engine(executor_of(model, checkpoint, options), options.mode, options.chunk_rows) {}

  Checkpoint checkpoint;
  Model model;
  EngineHost engine;
};

// Prompts of many lengths, tokens drawn on the device and on the host.
std::vector<Request> some_requests(int count) {
  std::vector<Request> requests;
  std::mt19937 random(7);
  for (int i = 0; i < count; ++i) {
    Request request;
    const int length = i == 2 ? 1 : 9 + 14 * (i % 5);
    for (int t = 0; t < length; ++t) {
      request.prompt.push_back(static_cast<TokenId>(random() % 512));
    }
    request.max_tokens = 5 + i % 4;
    request.seed = random();
    request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.9F;
    request.sampling.top_p = 0.95F;
    request.sampling.top_k = i % 3 == 0 ? 40 : 0;
    request.sampling.repetition_penalty = i == 3 ? 1.2F : 1.0F;
    request.sampling.top_logprobs = i % 3 == 1 ? 3 : -1;
    request.prompt_logprobs = i == 4 ? 1 : -1;
    requests.push_back(std::move(request));
  }
  return requests;
}

TEST(EngineOnTheTwin, EveryModeGivesTheBitsOfARequestAlone) {
  const auto requests = some_requests(6);
  const auto alone = Host({}).engine.play_alone(requests);
  for (const HostOptions& options : {
           HostOptions{.mode = Mode::kSerial, .seed = 2},
           HostOptions{.mode = Mode::kLayered, .seed = 3},
           HostOptions{.mode = Mode::kFused, .seed = 4},
           HostOptions{.mode = Mode::kSplit, .seed = 5, .prefill_cores = 2, .decode_cores = 1},
           HostOptions{.mode = Mode::kAuto, .seed = 6, .prefill_cores = 1, .decode_cores = 2},
       }) {
    SCOPED_TRACE(mode_name(options.mode));
    Host host(options);
    expect_same(host.engine.play_together(requests), alone);
  }
}

// Prompts, streams and followers on both groups, and requests that wait for a slot.
TEST(EngineOnTheTwin, ACoreThatFailsTakesOnlyWhatItHeld) {
  const auto requests = some_requests(8);
  const auto alone = Host({}).engine.play_alone(requests);
  for (const int core : {0, 2}) {
    SCOPED_TRACE(core);
    Host host({.mode = Mode::kSplit, .seed = 9, .prefill_cores = 2, .decode_cores = 1, .slots = 4});
    twin::acl_device().set_injection(
        twin::Injection{.core = core, .sub_core = 1, .instruction = 9000});
    const Sinks sinks = host.engine.play_together(requests);
    int failed = 0;
    for (size_t i = 0; i < sinks.size(); ++i) {
      const EngineEvent end = sinks[i]->end();
      if (end.reason == FinishReason::kError) {
        ++failed;
        EXPECT_THAT(end.message, HasSubstr("a fault injected into this core"));
        EXPECT_THAT(end.message, HasSubstr("AIV 0"));
        continue;
      }
      EXPECT_TRUE(same_events(sinks[i]->events(), alone[i]->events())) << "request " << i;
    }
    EXPECT_GT(failed, 0);
    EXPECT_LE(failed, 4);  // slots
    // The device goes on.
    auto again = host.engine.submit(requests[0]);
    again->wait_finished();
    EXPECT_TRUE(same_events(again->events(), alone[0]->events()));
  }
}

}  // namespace
}  // namespace weft
