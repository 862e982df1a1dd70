#pragma once
// From a path to a served model: everything that `run`, `chat`, `serve` and `score` share.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "cli/ascend_device.h"
#include "cli/dummy_shapes.h"
#include "device/executor.h"
#include "kernels/kernel_table.h"
#include "model/model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace weft {

struct LoadOptions {
  std::filesystem::path model;
  std::optional<DummySpec> dummy;  // random weights instead of a file
  DeviceKind device = DeviceKind::kCpu;
  AscendFlags ascend;
  int context =
      0;  // longest sequence; 0: what the model was trained for, as far as the pool allows
  uint64_t kv_memory = 0;        // bytes of the KV pool; 0: half of what is free after the weights
  std::string kv_type = "auto";  // auto, f32, f16, bf16, q8_0
  int threads = 0;               // 0: CpuTopology::default_threads()
  bool pin = false;
  std::string isa = "auto";  // a KernelTable's name
  int max_sequences = 64;    // sequences on the device at once
  int pass_rows = 256;       // of prompts in a pass
  int passes = 2;            // open at once: a decode pass and one of prompts
  bool core_groups = false;  // one for prompts and one for streams, see CpuOptions
  int prefill_threads = 0;   // 0: what the other leaves
  int decode_threads = 0;    // 0: what the other leaves, or as few as read the weights in:
  Duration decode_step{};
};

// The type of that name; for "auto" the one that this CPU's kernels read best.
Result<KvType> find_kv_type(const std::string& name, const KernelTable& kernels);

// Cores that a quantum can be shared out among.
Result<int> device_cores(const LoadOptions& options);

struct LoadedModel {
  std::string name;              // the file's stem, or the shape's name
  std::unique_ptr<Model> model;  // its weights have no bytes any more: the executor has packed them
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;  // null where the file has none
  std::unique_ptr<Executor> executor;
  uint64_t weight_bytes = 0;             // packed
  uint64_t kv_bytes = 0;                 // of the pool
  const KernelTable* kernels = nullptr;  // that a CPU runs; null: another device
  KvType kv_type = KvType::kF16;
};

// Shows a bar on a terminal while it takes its time.
Result<LoadedModel> load_model(const LoadOptions& options);

}  // namespace weft
