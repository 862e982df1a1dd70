// A steady step of the whole engine takes no memory: every allocation of every thread is counted.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "base/allocation_counter_test.h"
#include "device/cpu/cpu_executor.h"
#include "engine/engine_core.h"
#include "kernels/kernel_table.h"
#include "model/model.h"

namespace weft {
namespace {

constexpr int kStreams = 4;
constexpr int kSteps = 100;

class CountingSink : public EventSink {
 public:
  void on_event(EngineEvent event) override {
    if (event.kind == EngineEvent::Kind::kToken) ++tokens;
  }
  int tokens = 0;
};

class SteadyEngine : public testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Modes, SteadyEngine,
                         testing::Values(Mode::kSerial, Mode::kChunked, Mode::kFused, Mode::kSplit,
                                         Mode::kAuto),
                         [](const auto& info) { return std::string(mode_name(info.param)); });

TEST_P(SteadyEngine, StepsOfStreamsTakeNoMemory) {
  const Checkpoint checkpoint =
      *Checkpoint::open(std::filesystem::path(WEFT_TEST_DATA) / "tiny" / "qwen3" / "f32.gguf");
  const Model model = *build_model(checkpoint);
  CpuOptions cpu;
  cpu.kernels = *find_kernels("auto");
  cpu.threads = 2;
  cpu.prefill_threads = cpu.decode_threads = 1;
  cpu.limits = {
      .slots = 8, .passes = 9, .rows = 72, .output_rows = 8, .context = 256, .blocks = 32};
  const std::unique_ptr<Executor> executor = *make_cpu_executor(model, checkpoint, cpu);
  const SteadyClock clock;
  MetricsRegistry metrics("weft:", "tiny");
  EngineOptions options;
  options.mode = GetParam();
  options.limits.itl_target = std::chrono::milliseconds(4);
  CostModel::Costs costs;
  costs.rows.fill(4e5);  // so that steps are taken in several quanta
  options.costs = CostModel(costs);
  EngineCore core(*executor, metrics, clock, options);
  auto sink = std::make_shared<CountingSink>();
  for (int i = 0; i < kStreams; ++i) {
    Request request;
    request.prompt.assign(static_cast<size_t>(10 + i), 300);
    request.max_tokens = 200;
    request.sampling.temperature = 0;
    core.add(std::make_unique<Sequence>(static_cast<RequestId>(i), std::move(request), 1,
                                        core.context(), sink, clock.now()));
  }
  const auto run_to = [&](int tokens) {
    while (sink->tokens < tokens) {
      core.start();
      core.deliver();
      ASSERT_TRUE(core.started());
      core.wait();
      core.commit();
    }
  };
  run_to(20 * kStreams);  // prompts are done, storage has its size
  const int64_t before = allocations.load();
  run_to((20 + kSteps) * kStreams);
  // A block is taken every 64 positions and may enter the prefix index, whose memory is there.
  EXPECT_EQ(allocations.load() - before, 0);
  core.cancel_all();
  while (core.started()) {
    core.wait();
    core.commit();
  }
  core.cancel_all();
}

}  // namespace
}  // namespace weft
