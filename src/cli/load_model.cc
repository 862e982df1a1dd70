#include "cli/load_model.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "base/cpu.h"
#include "base/progress.h"
#include "cli/core_groups.h"
#include "cli/dummy_model.h"
#include "cli/memory_plan.h"
#include "device/ascend/ascend_model.h"
#include "device/cpu/cpu_executor.h"

namespace weft {
namespace {

constexpr int kMinOutputRows = 64;  // rows of a scored text that reach the head at once
constexpr uint64_t kProgressSteps = 1000;

// A checkpoint and, of random weights, the bytes behind it.
struct Source {
  std::vector<std::byte> bytes;
  std::unique_ptr<Checkpoint> checkpoint;
  std::string name;
};

Result<Source> open_source(const LoadOptions& options) {
  Source source;
  if (options.dummy) {
    source.name = options.dummy->shape.name;
    const DummyModel dummy = make_dummy_model(*options.dummy);
    ProgressBar bar("making weights", dummy.writer.data_bytes(), ProgressUnit::kBytes);
    source.bytes = dummy.writer.to_bytes([&](uint64_t done) { bar.update(done); });
    bar.clear();
    WEFT_ASSIGN(Checkpoint checkpoint, Checkpoint::parse(source.bytes, source.name));
    source.checkpoint = std::make_unique<Checkpoint>(std::move(checkpoint));
  } else {
    source.name = options.model.stem().string();
    WEFT_ASSIGN(Checkpoint checkpoint, Checkpoint::open(options.model));
    source.checkpoint = std::make_unique<Checkpoint>(std::move(checkpoint));
  }
  return source;
}

// Requires at least two threads where there are to be groups.
Status choose_groups(const LoadOptions& options, uint64_t weight_bytes, CpuOptions& cpu) {
  if (!options.core_groups) return {};
  cpu.decode_threads = options.decode_threads;
  if (cpu.decode_threads == 0 && options.prefill_threads > 0) {
    cpu.decode_threads = cpu.threads - options.prefill_threads;
  } else if (cpu.decode_threads == 0) {
    WEFT_ASSIGN(cpu.decode_threads,
                measure_decode_cores(*cpu.kernels, cpu.threads, weight_bytes, options.decode_step));
  }
  cpu.prefill_threads =
      options.prefill_threads > 0 ? options.prefill_threads : cpu.threads - cpu.decode_threads;
  return {};
}

ExecutorLimits limits_of(const LoadOptions& options, const MemoryPlan& plan) {
  return {.slots = options.max_sequences,
          .passes = options.passes,
          .rows = options.pass_rows + options.max_sequences,
          .output_rows = std::max(options.max_sequences, kMinOutputRows),
          .context = plan.context,
          .blocks = plan.blocks};
}

Result<CpuOptions> cpu_options(const LoadOptions& options, const Model& model,
                               LoadedModel& loaded) {
  CpuOptions cpu;
  WEFT_ASSIGN(cpu.kernels, find_kernels(options.isa));
  WEFT_ASSIGN(cpu.kv_type, find_kv_type(options.kv_type, *cpu.kernels));
  cpu.threads = options.threads > 0 ? options.threads : read_cpu_topology().default_threads();
  cpu.pin = options.pin;

  const auto block_bytes = static_cast<uint64_t>(kv_block_bytes(model, *cpu.kernels, cpu.kv_type));
  loaded.weight_bytes = static_cast<uint64_t>(packed_weight_bytes(model, *cpu.kernels));
  WEFT_RETURN_IF_ERROR(choose_groups(options, loaded.weight_bytes, cpu));
  WEFT_ASSIGN(const MemoryPlan plan, plan_memory({.available = available_memory(),
                                                  .weight_bytes = loaded.weight_bytes,
                                                  .block_bytes = block_bytes,
                                                  .kv_memory = options.kv_memory,
                                                  .trained_context = model.config.trained_context,
                                                  .context = options.context,
                                                  .max_sequences = options.max_sequences}));
  loaded.kv_bytes = static_cast<uint64_t>(plan.blocks) * block_bytes;
  loaded.kernels = cpu.kernels;
  loaded.kv_type = cpu.kv_type;
  cpu.limits = limits_of(options, plan);
  return cpu;
}

Status load_on_cpu(const LoadOptions& options, const Checkpoint& checkpoint,
                   const std::function<void(double)>& progress, LoadedModel& loaded) {
  WEFT_ASSIGN(const CpuOptions cpu, cpu_options(options, *loaded.model, loaded));
  WEFT_ASSIGN(loaded.executor, make_cpu_executor(*loaded.model, checkpoint, cpu, progress));
  return {};
}

// As many for prompts as for streams, where nothing is said.
Result<CoreSplit> ascend_split(const LoadOptions& options, int cores) {
  CoreSplit split;
  if (!options.core_groups) return split;
  split = {options.prefill_threads, options.decode_threads};
  if (split.prefill == 0 && split.decode == 0) split.decode = cores / 2;
  if (split.prefill == 0) split.prefill = cores - split.decode;
  if (split.decode == 0) split.decode = cores - split.prefill;
  if (split.prefill > 0 && split.decode > 0 && split.prefill + split.decode == cores) return split;
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("--prefill-cores {} and --decode-cores {} have to be the {} cores of "
                           "--ascend-cores together, at least one each",
                           split.prefill, split.decode, cores)};
}

Status load_on_ascend(const LoadOptions& options, const Checkpoint& checkpoint,
                      const std::function<void(double)>& progress, LoadedModel& loaded) {
  if (options.kv_type != "auto" && options.kv_type != "f16") {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("--kv-type {}: an Ascend device stores keys and values as f16",
                             options.kv_type)};
  }
  const Model& model = *loaded.model;
  WEFT_ASSIGN(const KernelTable* host_kernels, find_kernels(options.isa));
  WEFT_ASSIGN(const int cores, ascend_cores(options.device, options.ascend));
  WEFT_ASSIGN(const CoreSplit split, ascend_split(options, cores));
  WEFT_ASSIGN(const uint64_t memory, ascend_memory(options.ascend));
  WEFT_ASSIGN(loaded.weight_bytes, ascend_flags_weight_bytes(model, options.ascend));
  const auto block_bytes = static_cast<uint64_t>(ascend_kv_block_bytes(model));
  WEFT_ASSIGN(const MemoryPlan plan, plan_memory({.available = memory,
                                                  .weight_bytes = loaded.weight_bytes,
                                                  .block_bytes = block_bytes,
                                                  .kv_memory = options.kv_memory,
                                                  .trained_context = model.config.trained_context,
                                                  .context = options.context,
                                                  .max_sequences = options.max_sequences}));
  loaded.kv_bytes = static_cast<uint64_t>(plan.blocks) * block_bytes;
  WEFT_ASSIGN(loaded.executor,
              make_ascend_device(options.device, options.ascend, model, checkpoint, *host_kernels,
                                 limits_of(options, plan), split, progress));
  return {};
}

Status load_text(const Metadata& metadata, LoadedModel& loaded) {
  WEFT_ASSIGN(Tokenizer tokenizer, Tokenizer::from_metadata(metadata));
  loaded.tokenizer = std::make_unique<Tokenizer>(std::move(tokenizer));
  Result<ChatTemplate> chat_template = ChatTemplate::from_metadata(metadata);
  if (chat_template.ok()) {
    loaded.chat_template = std::make_unique<ChatTemplate>(std::move(chat_template).value());
  } else if (chat_template.error().kind != ErrorKind::kNotFound) {
    return chat_template.error();
  }
  return {};
}

}  // namespace

Result<KvType> find_kv_type(const std::string& name, const KernelTable& kernels) {
  if (name == "auto") {
    const bool bf16_dots = kernels.activation_format(DType::kBF16) == ActivationFormat::kBF16;
    return bf16_dots ? KvType::kBF16 : KvType::kF16;
  }
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0}) {
    if (kv_type_name(type) == name) return type;
  }
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("--kv-type '{}': there are auto, f32, f16, bf16, q8_0", name)};
}

Result<int> device_cores(const LoadOptions& options) {
  if (options.device != DeviceKind::kCpu) return ascend_cores(options.device, options.ascend);
  return options.threads > 0 ? options.threads : read_cpu_topology().default_threads();
}

Result<LoadedModel> load_model(const LoadOptions& options) {
  WEFT_ASSIGN(Source source, open_source(options));
  LoadedModel loaded;
  loaded.name = source.name;
  WEFT_RETURN_IF_ERROR(load_text(source.checkpoint->metadata(), loaded));
  WEFT_ASSIGN(Model model, build_model(*source.checkpoint));
  loaded.model = std::make_unique<Model>(std::move(model));

  ProgressBar bar("packing weights", kProgressSteps, ProgressUnit::kItems);
  const auto progress = [&](double share) {
    bar.update(static_cast<uint64_t>(share * kProgressSteps));
  };
  const bool on_cpu = options.device == DeviceKind::kCpu;
  WEFT_RETURN_IF_ERROR(
      (on_cpu ? load_on_cpu : load_on_ascend)(options, *source.checkpoint, progress, loaded));
  for (Weight& weight : loaded.model->weights) weight.view.bytes = {};
  return loaded;
}

}  // namespace weft
