#include "time/chip_model.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace weft::timing {
namespace {

constexpr std::string_view kPlatform = "platform file of the toolkit (Ascend910B1)";
constexpr std::string_view kTheory = "toolkit's documentation, theoretical performance";
constexpr std::string_view kCatalogue = "toolkit's documentation, hardware overview";

constexpr Constant kConstants[] = {
    {"cores", "cube cores", &ChipModel::cores, kPlatform},
    {"frequency", "Hz", &ChipModel::frequency, kPlatform},
    {"l2_bytes", "B", &ChipModel::l2_bytes, kPlatform},
    {"hbm_bytes", "B", &ChipModel::hbm_bytes, kPlatform},
    {"hbm_bandwidth", "B/s", &ChipModel::hbm_bandwidth,
     "toolkit's documentation, advice on L2 (1.6 TB/s; another page has 1.8)"},
    {"l2_bandwidth", "B/s", &ChipModel::l2_bandwidth,
     "toolkit's documentation, advice on L2 (about 7 TB/s, reads and writes)"},
    {"cube_hbm_rate", "B/s", &ChipModel::cube_hbm_rate, "reported: 135 GiB/s from memory to L1"},
    {"cube_l2_rate", "B/cycle", &ChipModel::cube_l2_rate, kPlatform},
    {"cube_write_rate", "B/cycle", &ChipModel::cube_write_rate, kPlatform},
    {"vector_hbm_rate", "B/s", &ChipModel::vector_hbm_rate,
     "reported: 101 GiB/s from memory to UB"},
    {"vector_l2_rate", "B/cycle", &ChipModel::vector_l2_rate, kPlatform},
    {"vector_write_rate", "B/cycle", &ChipModel::vector_write_rate, kPlatform},
    {"hbm_latency", "s", &ChipModel::hbm_latency, "assumed"},
    {"l2_latency", "s", &ChipModel::l2_latency, "assumed"},
    {"latency_spread", "share", &ChipModel::latency_spread,
     "assumed: without it all cores would go in step, as no chip does"},
    {"copy_start", "cycles", &ChipModel::copy_start, "assumed"},
    {"copy_piece", "cycles", &ChipModel::copy_piece, "assumed"},
    {"gather_row", "cycles", &ChipModel::gather_row, "assumed"},
    {"sector", "B", &ChipModel::sector, "assumed"},
    {"cube_efficiency", "of the peak", &ChipModel::cube_efficiency,
     "16 x 16 x 16 a cycle: "
     "toolkit's documentation, theoretical performance"},
    {"cube_start", "cycles", &ChipModel::cube_start,
     "assumed: the documentation's formula has a term for it without a value"},
    {"cube_latency", "cycles", &ChipModel::cube_latency, "assumed"},
    {"l0a_rate", "B/cycle", &ChipModel::l0a_rate, kTheory},
    {"l0b_rate", "B/cycle", &ChipModel::l0b_rate, kTheory},
    {"load_start", "cycles", &ChipModel::load_start,
     "assumed: the documentation's formula has a term for it without a value"},
    {"load_latency", "cycles", &ChipModel::load_latency, "assumed"},
    {"fixpipe_rate", "B/cycle", &ChipModel::fixpipe_rate,
     "toolkit's documentation, theoretical performance (L0C to L1; assumed the same to memory)"},
    {"fixpipe_start", "cycles", &ChipModel::fixpipe_start, "assumed"},
    {"vector_start", "cycles", &ChipModel::vector_start, "assumed"},
    {"vector_latency", "cycles", &ChipModel::vector_latency, "assumed"},
    {"flag_cycles", "cycles", &ChipModel::flag_cycles, "assumed"},
    {"scalar_issue", "cycles", &ChipModel::scalar_issue, "assumed"},
    {"scalar_flag", "cycles", &ChipModel::scalar_flag, "assumed"},
    {"scalar_cached", "cycles", &ChipModel::scalar_cached, "assumed"},
    {"scalar_refresh", "cycles", &ChipModel::scalar_refresh, "assumed"},
    {"issue_queue", "instructions", &ChipModel::issue_queue, "assumed"},
    {"cross_latency", "s", &ChipModel::cross_latency, "assumed"},
    {"flag_latency", "s", &ChipModel::flag_latency, "assumed"},
    {"scalar_miss", "s", &ChipModel::scalar_miss, "assumed"},
    {"host_turn", "s", &ChipModel::host_turn, "assumed"},
    {"launch", "s", &ChipModel::launch, "toolkit's documentation, analysis of performance data"},
};

}  // namespace

std::span<const Constant> constants() { return kConstants; }

std::string_view source_of(const ChipModel& model, const Constant& constant) {
  if (model.name == "article" && constant.name == "cores") return "the article";
  if (model.name == "article" && constant.source == kPlatform)
    return "platform file of the toolkit (Ascend910B1); the article does not say";
  if (constant.name == "cores" || constant.name == "frequency" || constant.name == "l2_bytes" ||
      constant.name == "hbm_bytes")
    return model.name == "910b1" ? kPlatform : kCatalogue;
  return constant.source;
}

twin::Chip ChipModel::chip() const {
  twin::Chip chip;
  chip.name = name;
  chip.cores = static_cast<int>(cores);
  chip.gigahertz = frequency / 1e9;
  chip.l2_bytes = static_cast<uint64_t>(l2_bytes);
  chip.hbm_bytes = uint64_t{1} << 40;  // models of time allocate addresses, not memory
  return chip;
}

Result<ChipModel> find_chip_model(std::string_view name) {
  ChipModel model;
  model.name = name;
  if (name == "article") {
    model.cores = 32;
    return model;
  }
  if (name == "910b1") return model;
  model.frequency = 1.80e9;
  if (name == "910b2") return model;
  model.cores = 20;
  if (name == "910b3") return model;
  if (name == "910b4") {
    model.frequency = 1.50e9;
    model.l2_bytes = 96.0 * (1 << 20);
    model.hbm_bytes = 32.0 * (1 << 30);
    return model;
  }
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("no preset '{}'; there are {}", name, fmt::join(kPresets, ", "))};
}

Status change(ChipModel& model, std::string_view text) {
  const size_t at = text.find_first_of("=*");
  const std::string_view name = text.substr(0, at);
  double number = 0;
  const std::string_view digits = at == std::string_view::npos ? "" : text.substr(at + 1);
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || end.ec != std::errc() || end.ptr != digits.data() + digits.size() ||
      !std::isfinite(number) || number < 0) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("'{}' is not name=number or name*factor", text)};
  }
  for (const Constant& constant : kConstants) {
    if (constant.name != name) continue;
    double& value = model.*constant.value;
    value = text[at] == '*' ? value * number : number;
    if (!(value > 0) && constant.unit != "s" && constant.unit != "cycles") {
      return Error{ErrorKind::kInvalidArgument, fmt::format("{}: {} must be above 0", text, name)};
    }
    return {};
  }
  std::string names;
  for (const Constant& constant : kConstants)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", constant.name);
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("no constant '{}'; there are {}", name, names)};
}

}  // namespace weft::timing
