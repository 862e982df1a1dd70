#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/printable.h"
#include "cli/byte_size.h"
#include "cli/commands.h"
#include "device/cpu/cpu_executor.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kKvTypes = {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0};

// What running the model takes on this CPU, or why it cannot run.
struct Needs {
  std::string obstacle;
  uint64_t packed_bytes = 0;
  std::map<KvType, uint64_t> kv_bytes_per_token;
  int trained_context = 0;
};

Needs find_needs(const Checkpoint& checkpoint) {
  Needs needs;
  const Result<Model> model = build_model(checkpoint);
  const Result<const KernelTable*> kernels = find_kernels("auto");
  if (!model.ok() || !kernels.ok()) {
    needs.obstacle = model.ok() ? kernels.error().message : model.error().message;
    return needs;
  }
  needs.packed_bytes = static_cast<uint64_t>(packed_weight_bytes(*model, **kernels));
  for (const KvType type : kKvTypes) {
    needs.kv_bytes_per_token[type] =
        static_cast<uint64_t>(kv_block_bytes(*model, **kernels, type)) / kBlockPositions;
  }
  needs.trained_context = model->config.trained_context;
  return needs;
}

int64_t parameters(const Checkpoint& checkpoint) {
  int64_t count = 0;
  for (const NamedTensor& tensor : checkpoint.tensors()) count += tensor.view.shape.elements();
  return count;
}

Json shape_json(const Shape& shape) {
  Json extents = Json::array();
  for (int axis = 0; axis < shape.rank(); ++axis) extents.push_back(shape[axis]);
  return extents;
}

Json value_json(const MetaValue& value) {
  return std::visit(
      [](const auto& v) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, MetaArray>) {
          return std::visit([](const auto& elements) -> Json { return elements; }, v);
        } else {
          return v;
        }
      },
      value);
}

void print_json(const Checkpoint& checkpoint, const Needs& needs) {
  Json out = {{"schema", "weft.inspect.v1"},
              {"file", checkpoint.path().string()},
              {"file_bytes", checkpoint.file_bytes()},
              {"parameters", parameters(checkpoint)}};
  for (const auto& [key, value] : checkpoint.metadata().entries())
    out["metadata"][key] = value_json(value);
  out["tensors"] = Json::array();
  for (const NamedTensor& tensor : checkpoint.tensors()) {
    out["tensors"].push_back({{"name", tensor.name},
                              {"type", dtype_info(tensor.view.dtype).name},
                              {"shape", shape_json(tensor.view.shape)},
                              {"bytes", tensor.view.bytes.size()}});
  }
  if (needs.obstacle.empty()) {
    Json& memory = out["memory"];
    memory["weights"] = needs.packed_bytes;
    for (const auto& [type, bytes] : needs.kv_bytes_per_token)
      memory["kv_per_token"][std::string(kv_type_name(type))] = bytes;
    memory["trained_context"] = needs.trained_context;
  } else {
    out["cannot_run"] = needs.obstacle;
  }
  // Strings of a file need not be UTF-8.
  fmt::print("{}\n", out.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_tensors(const Checkpoint& checkpoint) {
  size_t width = 0;
  for (const NamedTensor& tensor : checkpoint.tensors())
    width = std::max(width, tensor.name.size());
  for (const NamedTensor& tensor : checkpoint.tensors()) {
    fmt::print("  {:{}}  {:8}  {:20}  {}\n", printable(tensor.name), width,
               dtype_info(tensor.view.dtype).name, tensor.view.shape.str(),
               format_bytes(tensor.view.bytes.size()));
  }
}

void print_needs(const Checkpoint& checkpoint, const Needs& needs) {
  fmt::print("\nmemory\n  file               {}\n", format_bytes(checkpoint.file_bytes()));
  if (!needs.obstacle.empty()) {
    fmt::print("  cannot be run: {}\n", needs.obstacle);
    return;
  }
  fmt::print("  packed weights     {}\n", format_bytes(needs.packed_bytes));
  for (const auto& [type, bytes] : needs.kv_bytes_per_token) {
    fmt::print("  keys and values    {:>9} a token in {:5} {:>9} for the trained {}\n",
               format_bytes(bytes), std::string(kv_type_name(type)) + ",",
               format_bytes(bytes * static_cast<uint64_t>(needs.trained_context)),
               needs.trained_context);
  }
}

}  // namespace

Result<int> inspect_command(const InspectOptions& options) {
  WEFT_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(options.model));
  const Needs needs = find_needs(checkpoint);
  if (options.json) {
    print_json(checkpoint, needs);
    return kExitOk;
  }
  fmt::print("{}: {} tensors, {:.1f} million parameters, {}\n\nmetadata\n",
             checkpoint.path().string(), checkpoint.tensors().size(),
             static_cast<double>(parameters(checkpoint)) / 1e6,
             format_bytes(checkpoint.file_bytes()));
  for (const auto& [key, value] : checkpoint.metadata().entries())
    fmt::print("  {} = {}\n", printable(key), describe(value));
  fmt::print("\ntensors\n");
  print_tensors(checkpoint);
  print_needs(checkpoint, needs);
  return kExitOk;
}

}  // namespace weft
