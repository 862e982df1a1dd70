#pragma once
// What the tests of the CPU executor share.

#include <span>
#include <string>
#include <vector>

#include "device/cpu/cpu_executor.h"
#include "device/executor_driver_test.h"

namespace weft::test {

struct DriverOptions {
  std::string file = "f32.gguf";
  std::string kernels = "ref";
  int threads = 1;
  int prefill_threads = 0;
  int decode_threads = 0;
  bool observe = true;  // keep logits; not while two groups run at once
  KvType kv_type = KvType::kF32;
  int context = 256;
};

class Driver : public ExecutorDriver {
 public:
  static constexpr int kRows = 512;

  explicit Driver(const std::string& name, const DriverOptions& options = {})
      : Driver(*Checkpoint::open(tiny(name, options.file)), options) {}
  Driver(std::span<const std::byte> file, const DriverOptions& options)
      : Driver(*Checkpoint::parse(file, "test"), options) {}

 private:
  Driver(Checkpoint checkpoint, const DriverOptions& options)
      : ExecutorDriver(std::move(checkpoint), options.context, kRows) {
    CpuOptions cpu;
    cpu.kernels = *find_kernels(options.kernels);
    cpu.threads = options.threads;
    cpu.prefill_threads = options.prefill_threads;
    cpu.decode_threads = options.decode_threads;
    cpu.kv_type = options.kv_type;
    cpu.limits = limits(kSlots);
    if (options.observe) cpu.on_logits = observer();
    take(make_cpu_executor(model(), this->checkpoint(), cpu));
  }
};

inline std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const KernelTable* table : available_kernels()) names.emplace_back(table->name);
  return names;
}

}  // namespace weft::test
