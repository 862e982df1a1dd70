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
#include "engine/engine.h"
#include "engine/recording_sink_test.h"
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

// The twin with a model, and an engine on it.
class Host {
 public:
  explicit Host(const HostOptions& options)
      : checkpoint_(
            *Checkpoint::open(std::filesystem::path(WEFT_TEST_DATA) / "tiny/qwen2/f32.gguf")),
        model_(*build_model(checkpoint_)) {
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
    executor_ = std::move(*make_ascend_executor(model_, checkpoint_, ascend));
    EngineOptions engine;
    engine.mode = options.mode;
    engine.chunk_rows = options.chunk_rows;
    // As predicted, a pass takes about a quantum, so that it is left between layers.
    engine.limits.itl_target = std::chrono::milliseconds(4);
    CostModel::Costs costs;
    costs.rows.fill(4e5);
    engine.costs = CostModel(costs);
    engine_ = std::make_unique<Engine>(*executor_, metrics_, clock_, engine);
  }

  std::shared_ptr<RecordingSink> submit(const Request& request) {
    auto sink = std::make_shared<RecordingSink>();
    const auto id = engine_->submit(request, sink);
    EXPECT_TRUE(id.ok()) << id.error().message;
    return sink;
  }

 private:
  Checkpoint checkpoint_;
  Model model_;
  std::unique_ptr<Executor> executor_;
  MetricsRegistry metrics_{"weft:", "tiny"};
  SteadyClock clock_;
  std::unique_ptr<Engine> engine_;
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

std::vector<std::shared_ptr<RecordingSink>> play_alone(const std::vector<Request>& requests) {
  Host host({});
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (const Request& request : requests) {
    sinks.push_back(host.submit(request));
    sinks.back()->wait_finished();
  }
  return sinks;
}

TEST(EngineOnTheTwin, EveryModeGivesTheBitsOfARequestAlone) {
  const auto requests = some_requests(6);
  const auto alone = play_alone(requests);
  for (const HostOptions& options : {
           HostOptions{.mode = Mode::kSerial, .seed = 2},
           HostOptions{.mode = Mode::kLayered, .seed = 3},
           HostOptions{.mode = Mode::kFused, .seed = 4},
           HostOptions{.mode = Mode::kSplit, .seed = 5, .prefill_cores = 2, .decode_cores = 1},
           HostOptions{.mode = Mode::kAuto, .seed = 6, .prefill_cores = 1, .decode_cores = 2},
       }) {
    SCOPED_TRACE(mode_name(options.mode));
    Host host(options);
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (const Request& request : requests) sinks.push_back(host.submit(request));
    for (size_t i = 0; i < sinks.size(); ++i) {
      sinks[i]->wait_finished();
      EXPECT_TRUE(same_events(sinks[i]->events(), alone[i]->events())) << "request " << i;
      EXPECT_TRUE(same_events(sinks[i]->prompt(), alone[i]->prompt())) << "request " << i;
      EXPECT_TRUE(same_event(sinks[i]->end(), alone[i]->end())) << "request " << i;
    }
  }
}

// Prompts, streams and followers on both groups, and requests that wait for a slot.
TEST(EngineOnTheTwin, ACoreThatFailsTakesOnlyWhatItHeld) {
  const auto requests = some_requests(8);
  const auto alone = play_alone(requests);
  for (const int core : {0, 2}) {
    SCOPED_TRACE(core);
    Host host({.mode = Mode::kSplit, .seed = 9, .prefill_cores = 2, .decode_cores = 1, .slots = 4});
    twin::acl_device().set_injection(
        twin::Injection{.core = core, .sub_core = 1, .instruction = 9000});
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (const Request& request : requests) sinks.push_back(host.submit(request));
    int failed = 0;
    for (size_t i = 0; i < sinks.size(); ++i) {
      sinks[i]->wait_finished();
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
    auto again = host.submit(requests[0]);
    again->wait_finished();
    EXPECT_TRUE(same_events(again->events(), alone[0]->events()));
  }
}

}  // namespace
}  // namespace weft
