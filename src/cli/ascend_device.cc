#include "cli/ascend_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "ascend/kernels/shapes.h"
#include "base/cpu.h"
#include "device/ascend/acl_device.h"
#include "device/ascend/ascend_executor.h"
#ifndef WEFT_CANN
#include "twin.h"
#endif

namespace weft {
namespace {

// The twin emulates each core's pipes one instruction at a time: few cores answer sooner.
constexpr int kTwinCores = 4;
// Of the smallest 910B.
constexpr int kCardCores = 20;
// Looks at a flag: on the twin only those count that find nothing else to do.
constexpr int64_t kTwinSpinCap = 3000;

AscendWeights weights_of(const AscendFlags& flags) {
  return flags.weights == "half" ? AscendWeights::kHalf : AscendWeights::kAuto;
}

#ifndef WEFT_CANN
Result<twin::Chip> find_twin_chip(const AscendFlags& flags) {
  if (const auto chip = twin::find_chip(flags.chip)) return *chip;
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("--ascend-chip '{}': there are 910B1, 910B2, 910B3, 910B4 and article",
                           flags.chip)};
}
#endif

}  // namespace

Result<DeviceKind> find_device(const std::string& name) {
  if (name == "cpu") return DeviceKind::kCpu;
#ifdef WEFT_CANN
  if (name == "ascend") return DeviceKind::kAscend;
  if (name == "ascend-twin") {
    return Error{ErrorKind::kUnsupported,
                 "this program was built for cards, with -DWEFT_CANN=ON; "
                 "build it without to have the twin"};
  }
#else
  if (name == "ascend-twin") return DeviceKind::kAscendTwin;
  if (name == "ascend") {
    return Error{ErrorKind::kUnsupported,
                 "this program was built without CANN; configure it with "
                 "-DWEFT_CANN=ON on a machine that has it, or take --device ascend-twin"};
  }
#endif
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("no device '{}'; there are cpu, ascend-twin and ascend", name)};
}

Result<int> ascend_cores(DeviceKind kind, const AscendFlags& flags) {
#ifndef WEFT_CANN
  WEFT_ASSIGN(const twin::Chip chip, find_twin_chip(flags));
  const int most = chip.cores;
#else
  const int most = weft_ascend::kMaxBlocks;
#endif
  if (flags.cores > most) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("--ascend-cores {}: a {} has {}", flags.cores, flags.chip, most)};
  }
  if (flags.cores > 0) return flags.cores;
  return kind == DeviceKind::kAscendTwin ? kTwinCores : kCardCores;
}

Result<uint64_t> ascend_memory(const AscendFlags& flags) {
#ifdef WEFT_CANN
  return free_card_memory(flags.ordinal);
#else
  WEFT_ASSIGN(const twin::Chip chip, find_twin_chip(flags));
  return std::min<uint64_t>(chip.hbm_bytes, available_memory());
#endif
}

Result<uint64_t> ascend_flags_weight_bytes(const Model& model, const AscendFlags& flags) {
  return ascend_weight_bytes(model, weights_of(flags));
}

Result<std::unique_ptr<Executor>> make_ascend_device(DeviceKind kind, const AscendFlags& flags,
                                                     const Model& model,
                                                     const Checkpoint& checkpoint,
                                                     const KernelTable& host_kernels,
                                                     const ExecutorLimits& limits, CoreSplit split,
                                                     const std::function<void(double)>& progress) {
  AscendOptions options;
  WEFT_ASSIGN(options.cores, ascend_cores(kind, flags));
  options.ordinal = flags.ordinal;
  options.kernels = flags.kernels;
  options.prefill_cores = split.prefill;
  options.decode_cores = split.decode;
  options.weights = weights_of(flags);
  options.host_kernels = &host_kernels;
  options.limits = limits;
  options.name = "ascend";
#ifndef WEFT_CANN
  options.name = fmt::format("ascend-twin {} seed {}", flags.chip, flags.seed);
  options.spin_cap = kTwinSpinCap;
  twin::Options device;
  WEFT_ASSIGN(device.chip, find_twin_chip(flags));
  device.seed = flags.seed;
  twin::set_acl_options(device);
#endif
  return make_ascend_executor(model, checkpoint, options, progress);
}

}  // namespace weft
