#include "time/chip_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace weft::timing {
namespace {

constexpr std::string_view kPlatform = "platform file of the toolkit (Ascend910B1)";
constexpr std::string_view kTheory = "toolkit's documentation, theoretical performance";
constexpr std::string_view kCatalogue = "toolkit's documentation, hardware overview";

// Beyond these nothing is simulated that a chip could be, and the clock's nanoseconds could run
// out.
constexpr ConstantRange kBandwidth = {1e9, 1e16};
constexpr ConstantRange kRate = {1, 1e5};
constexpr ConstantRange kCycles = {0, 1e4};
constexpr ConstantRange kLatency = {0, 1e-3};
constexpr ConstantRange kHostTime = {0, 1};

constexpr Constant kConstants[] = {
    {"cores", "cube cores", &ChipModel::cores, {1, 64, true}, kPlatform},
    {"frequency", "Hz", &ChipModel::frequency, {1e8, 1e11}, kPlatform},
    {"l2_bytes", "B", &ChipModel::l2_bytes, {1 << 20, 1 << 30, true}, kPlatform},
    {"hbm_bytes", "B", &ChipModel::hbm_bytes, {1 << 20, 256.0 * (1 << 30), true}, kPlatform},
    {"hbm_bandwidth", "B/s", &ChipModel::hbm_bandwidth, kBandwidth,
     "toolkit's documentation, advice on L2 (1.6 TB/s; another page has 1.8)"},
    {"l2_bandwidth", "B/s", &ChipModel::l2_bandwidth, kBandwidth,
     "toolkit's documentation, advice on L2 (about 7 TB/s, reads and writes)"},
    {"cube_hbm_rate", "B/s", &ChipModel::cube_hbm_rate, kBandwidth,
     "reported: 135 GiB/s from memory to L1"},
    {"cube_l2_rate", "B/cycle", &ChipModel::cube_l2_rate, kRate, kPlatform},
    {"cube_write_rate", "B/cycle", &ChipModel::cube_write_rate, kRate, kPlatform},
    {"vector_hbm_rate", "B/s", &ChipModel::vector_hbm_rate, kBandwidth,
     "reported: 101 GiB/s from memory to UB"},
    {"vector_l2_rate", "B/cycle", &ChipModel::vector_l2_rate, kRate, kPlatform},
    {"vector_write_rate", "B/cycle", &ChipModel::vector_write_rate, kRate, kPlatform},
    {"hbm_latency", "s", &ChipModel::hbm_latency, kLatency, "assumed"},
    {"l2_latency", "s", &ChipModel::l2_latency, kLatency, "assumed"},
    {"latency_spread",
     "share",
     &ChipModel::latency_spread,
     {0, 1},
     "assumed: without it all cores would go in step, as no chip does"},
    {"copy_start", "cycles", &ChipModel::copy_start, kCycles, "assumed"},
    {"copy_piece", "cycles", &ChipModel::copy_piece, kCycles, "assumed"},
    {"gather_row", "cycles", &ChipModel::gather_row, kCycles, "assumed"},
    {"sector", "B", &ChipModel::sector, {1, 4096, true}, "assumed"},
    {"cube_efficiency",
     "of the peak",
     &ChipModel::cube_efficiency,
     {0.01, 10},
     "16 x 16 x 16 a cycle: "
     "toolkit's documentation, theoretical performance"},
    {"cube_start", "cycles", &ChipModel::cube_start, kCycles,
     "assumed: the documentation's formula has a term for it without a value"},
    {"cube_latency", "cycles", &ChipModel::cube_latency, kCycles, "assumed"},
    {"l0a_rate", "B/cycle", &ChipModel::l0a_rate, kRate, kTheory},
    {"l0b_rate", "B/cycle", &ChipModel::l0b_rate, kRate, kTheory},
    {"load_start", "cycles", &ChipModel::load_start, kCycles,
     "assumed: the documentation's formula has a term for it without a value"},
    {"load_latency", "cycles", &ChipModel::load_latency, kCycles, "assumed"},
    {"fixpipe_rate", "B/cycle", &ChipModel::fixpipe_rate, kRate,
     "toolkit's documentation, theoretical performance (L0C to L1; assumed the same to memory)"},
    {"fixpipe_start", "cycles", &ChipModel::fixpipe_start, kCycles, "assumed"},
    {"vector_start", "cycles", &ChipModel::vector_start, kCycles, "assumed"},
    {"vector_latency", "cycles", &ChipModel::vector_latency, kCycles, "assumed"},
    {"flag_cycles", "cycles", &ChipModel::flag_cycles, kCycles, "assumed"},
    {"scalar_issue", "cycles", &ChipModel::scalar_issue, kCycles, "assumed"},
    {"scalar_flag", "cycles", &ChipModel::scalar_flag, kCycles, "assumed"},
    {"scalar_cached", "cycles", &ChipModel::scalar_cached, kCycles, "assumed"},
    {"scalar_refresh", "cycles", &ChipModel::scalar_refresh, kCycles, "assumed"},
    {"issue_queue", "instructions", &ChipModel::issue_queue, {1, 1024, true}, "assumed"},
    {"cross_latency", "s", &ChipModel::cross_latency, kLatency, "assumed"},
    {"flag_latency", "s", &ChipModel::flag_latency, kLatency, "assumed"},
    {"scalar_miss", "s", &ChipModel::scalar_miss, kLatency, "assumed"},
    {"host_turn", "s", &ChipModel::host_turn, kHostTime, "assumed"},
    {"launch", "s", &ChipModel::launch, kHostTime,
     "toolkit's documentation, analysis of performance data"},
};

}  // namespace

std::span<const Constant> constants() { return kConstants; }

std::string_view source_of(const ChipModel& model, const Constant& constant) {
  const Result<ChipModel> preset = find_chip_model(model.name);
  if (preset.ok() && model.*constant.value != (*preset).*constant.value) return "--set";
  if (model.name == "article" && constant.name == "cores") return "the article";
  if (model.name == "article" && constant.source == kPlatform)
    return "platform file of the toolkit (Ascend910B1); the article does not say";
  if (constant.name == "cores" || constant.name == "frequency" || constant.name == "l2_bytes" ||
      constant.name == "hbm_bytes")
    return model.name == "910b1" ? kPlatform : kCatalogue;
  return constant.source;
}

ChipModel::ChipModel(const twin::Chip& chip)
    : cores(chip.cores),
      frequency(chip.gigahertz * 1e9),
      l2_bytes(static_cast<double>(chip.l2_bytes)),
      hbm_bytes(static_cast<double>(chip.hbm_bytes)) {}

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
  if (std::find(std::begin(kPresets), std::end(kPresets), name) == std::end(kPresets)) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("no preset '{}'; there are {}", name, fmt::join(kPresets, ", "))};
  }
  // The article says how many cores there are; the rest of its chip is a 910B1.
  const bool article = name == "article";
  std::string chip(article ? "910b1" : name);
  std::replace(chip.begin(), chip.end(), 'b', 'B');
  ChipModel model(twin::find_chip(chip).value());
  if (article) model.cores = twin::find_chip("article").value().cores;
  model.name = name;
  return model;
}

namespace {

Result<const Constant*> find_constant(std::string_view name) {
  std::string names;
  for (const Constant& constant : kConstants) {
    if (constant.name == name) return &constant;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", constant.name);
  }
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("no constant '{}'; there are {}", name, names)};
}

}  // namespace

Status change(ChipModel& model, std::string_view text) {
  const size_t at = text.find_first_of("=*");
  double number = 0;
  const std::string_view digits = at == std::string_view::npos ? "" : text.substr(at + 1);
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || end.ec != std::errc() || end.ptr != digits.data() + digits.size()) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("'{}' is not name=number or name*factor", text)};
  }
  WEFT_ASSIGN(const Constant* constant, find_constant(text.substr(0, at)));
  const double value = text[at] == '*' ? model.*constant->value * number : number;
  const ConstantRange& range = constant->range;
  if (!(value >= range.least && value <= range.most) ||
      (range.whole && value != std::floor(value))) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("'{}': {} would be {:.6g} {}; it has to be a {}number from {:.6g} to "
                             "{:.6g}",
                             text, constant->name, value, constant->unit,
                             range.whole ? "whole " : "", range.least, range.most)};
  }
  model.*constant->value = value;
  return {};
}

}  // namespace weft::timing
