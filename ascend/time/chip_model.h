#pragma once
// ChipModel: what a chip's instructions cost. What is not certain is a constant with a name by
// which it can be changed, a unit, a range, and where its value comes from; a source that begins
// with "assumed" has none but judgement. What is fixed, since the instruction set or the
// documentation's table says it, has a name where it is used (instruction_cost.cc, memory_system.h,
// recording.h).

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "twin.h"

namespace weft::timing {

// Of a Mmad's step, one a cycle: as many rows, columns and products of each as this.
inline constexpr double kCubeStep = 16;

struct ChipModel {
  ChipModel() : ChipModel(twin::Chip()) {}
  // What the twin's chip says, and for the rest the values below.
  explicit ChipModel(const twin::Chip& chip);

  std::string name;

  double cores = 0;  // cube cores; each drives two vector cores
  double frequency = 0;
  double l2_bytes = 0;
  double hbm_bytes = 0;

  // Memory, bytes a second of the whole chip.
  double hbm_bandwidth = 1.6e12;
  double l2_bandwidth = 7e12;
  // Of one core. What is fetched comes from HBM or, faster, from L2.
  double cube_hbm_rate = 135.0 * (1 << 30);
  double cube_l2_rate = 110;    // bytes a cycle
  double cube_write_rate = 86;  // bytes a cycle
  double vector_hbm_rate = 101.0 * (1 << 30);
  double vector_l2_rate = 110;    // bytes a cycle
  double vector_write_rate = 64;  // bytes a cycle
  double hbm_latency = 500e-9;
  double l2_latency = 200e-9;
  double latency_spread = 0.25;  // of both: each copy's differs by up to this share of it
  double copy_start = 40;        // cycles of a copy before its first byte
  double copy_piece = 1;         // cycles of each piece of a strided copy
  double gather_row = 2;         // cycles of each row that a copy turns into fractals
  double sector = 64;            // bytes: what a piece of a copy is rounded up to

  // Within a core, cycles.
  double cube_efficiency = 1;
  double cube_start = 16;
  double cube_latency = 20;
  double l0a_rate = 256;  // bytes a cycle
  double l0b_rate = 128;
  double load_start = 12;
  double load_latency = 20;
  double fixpipe_rate = 128;  // bytes a cycle of what is read of L0C, as halves or floats leave
  double fixpipe_start = 30;
  double vector_start = 2;
  double vector_latency = 24;
  double flag_cycles = 2;      // between two pipes of a core
  double scalar_issue = 10;    // the scalar unit's work for an instruction it issues
  double scalar_flag = 2;      // the same for a flag or a barrier
  double scalar_cached = 4;    // an access that the scalar cache holds
  double scalar_refresh = 20;  // to drop a line, or start to write it back
  double issue_queue = 32;     // instructions that wait before a pipe

  // Between cores, seconds.
  double cross_latency = 100e-9;  // of a flag within a block
  double flag_latency = 250e-9;   // until a line that was written back is in memory for others
  double scalar_miss = 250e-9;    // until a word that the scalar cache does not hold is there
  double launch = 20e-6;          // of a kernel on all cores
  double host_turn = 30e-6;       // from the end of a quantum to the next one's, on the host

  // Bytes a second, where the constant is bytes a cycle.
  double per_second(double bytes_a_cycle) const { return bytes_a_cycle * frequency; }
  // Of halves on the cube cores, two for a multiply-add.
  double peak_flops() const { return cores * frequency * kCubeStep * kCubeStep * kCubeStep * 2; }

  twin::Chip chip() const;
};

// Values between which the model means something.
struct ConstantRange {
  double least = 0;
  double most = 0;
  bool whole = false;  // no others than whole numbers
};

struct Constant {
  std::string_view name;
  std::string_view unit;
  double ChipModel::* value;
  ConstantRange range;
  std::string_view source;
};
std::span<const Constant> constants();
// Where a preset differs in it, the source of that; "--set" where the value is not the preset's.
std::string_view source_of(const ChipModel& model, const Constant& constant);

inline constexpr std::string_view kPresets[] = {"article", "910b1", "910b2", "910b3", "910b4"};
Result<ChipModel> find_chip_model(std::string_view name);

// "hbm_bandwidth=1.5e12", or "hbm_bandwidth*0.8" of what it is. An error names what is wrong, and
// leaves the model as it was.
Status change(ChipModel& model, std::string_view text);

}  // namespace weft::timing
