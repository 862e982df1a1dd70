#include "time/instruction_cost.h"

#include <cmath>
#include <string_view>

namespace weft::timing {
namespace {

// Fixed, since the documentation's table of theoretical performance says so.
constexpr double kRepeatBytes = 256;    // of a vector instruction's repeat; a cycle, but for these:
constexpr double kSpecialLanes = 32;    // elements a cycle of Exp, Ln, Sqrt and Div
constexpr double kReductionCycles = 7;  // of a repeat that is reduced
constexpr double kGatherLanes = 5;      // elements a cycle

double cube_steps(double size) { return std::ceil(size / kCubeStep); }

double cycles_of_repeat(std::string_view name, int element) {
  const double elements = kRepeatBytes / element;
  if (name == "Exp" || name == "Ln" || name == "Sqrt" || name == "Div")
    return elements / kSpecialLanes;
  if (name.starts_with("WholeReduce")) return kReductionCycles;
  // These are made of several instructions, of which the reduction of a repeat is the longest.
  if (name == "ReduceMax" || name == "ReduceMin" || name == "ReduceSum") return kReductionCycles;
  if (name == "Gather") return elements / kGatherLanes;
  return 1;
}

}  // namespace

double pipe_cycles(const ChipModel& model, const twin::Issued& issued) {
  const twin::Work& work = issued.work;
  switch (issued.pipe) {
    case PIPE_M: {
      const double steps = cube_steps(work.m) * cube_steps(work.n) * cube_steps(work.k);
      return model.cube_start + steps / model.cube_efficiency;
    }
    case PIPE_MTE1: {
      const bool left = work.buffer == twin::Buffer::kL0a;
      return model.load_start +
             static_cast<double>(work.bytes) / (left ? model.l0a_rate : model.l0b_rate);
    }
    case PIPE_V:
      return model.vector_start + work.repeats * cycles_of_repeat(issued.name, work.element);
    default:
      return 0;
  }
}

double latency_cycles(const ChipModel& model, pipe_t pipe) {
  switch (pipe) {
    case PIPE_M:
      return model.cube_latency;
    case PIPE_MTE1:
      return model.load_latency;
    case PIPE_V:
      return model.vector_latency;
    default:
      return 0;
  }
}

}  // namespace weft::timing
