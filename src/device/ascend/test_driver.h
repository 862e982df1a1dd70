#pragma once
// What the tests of the Ascend executor share: it runs on the twin.

#include <string>

#include "device/ascend/ascend_executor.h"
#include "device/executor_driver_test.h"
#include "twin.h"

namespace weft::test {

struct TwinOptions {
  std::string file = "f32.gguf";
  uint64_t seed = 1;
  int cores = 2;
  int prefill_cores = 0;
  int decode_cores = 0;
  int context = 256;
  int output_rows = 8;
  bool observe = true;
  AscendWeights weights = AscendWeights::kAuto;
  int64_t spin_cap = 3000;
  int64_t epoch_quanta = 1 << 20;
};

class TwinDriver : public ExecutorDriver {
 public:
  static constexpr int kRows = 640;

  explicit TwinDriver(const std::string& name, const TwinOptions& options = {})
      : ExecutorDriver(*Checkpoint::open(tiny(name, options.file)), options.context, kRows) {
    twin::Options device;
    device.chip.cores = options.cores;
    device.seed = options.seed;
    twin::set_acl_options(device);
    AscendOptions ascend;
    ascend.name = "twin";
    ascend.cores = options.cores;
    ascend.prefill_cores = options.prefill_cores;
    ascend.decode_cores = options.decode_cores;
    ascend.weights = options.weights;
    ascend.host_kernels = *find_kernels("ref");
    ascend.spin_cap = options.spin_cap;
    ascend.epoch_quanta = options.epoch_quanta;
    ascend.limits = limits(options.output_rows);
    if (options.observe) ascend.on_logits = observer();
    take(make_ascend_executor(model(), checkpoint(), ascend));
  }
};

}  // namespace weft::test
