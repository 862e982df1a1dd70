#include "time/instruction_cost.h"

#include <cmath>
#include <string_view>

namespace weft::timing {
namespace {

double ceil_div(double a, double b) { return std::ceil(a / b); }

// Elements of a cycle, by the documentation's table; `element` bytes each.
double lanes_of(std::string_view name, int element) {
  const double full = 256.0 / element;
  if (name == "Exp" || name == "Ln" || name == "Sqrt" || name == "Div") return 32;
  if (name.starts_with("WholeReduce")) return full / 7;
  // These are made of several instructions, of which the reduction of a repeat is the longest.
  if (name == "ReduceMax" || name == "ReduceMin" || name == "ReduceSum") return full / 7;
  if (name == "Gather") return 5;
  return full;
}

}  // namespace

double pipe_cycles(const ChipModel& model, const twin::Issued& issued) {
  const twin::Work& work = issued.work;
  switch (issued.pipe) {
    case PIPE_M: {
      const double steps = ceil_div(work.m, 16) * ceil_div(work.n, 16) * ceil_div(work.k, 16);
      return model.cube_start + steps / model.cube_efficiency;
    }
    case PIPE_MTE1: {
      const bool left = work.buffer == twin::Buffer::kL0a;
      return model.load_start +
             static_cast<double>(work.bytes) / (left ? model.l0a_rate : model.l0b_rate);
    }
    case PIPE_V: {
      const double elements_of_repeat = 256.0 / work.element;
      const double cycles = elements_of_repeat / lanes_of(issued.name, work.element);
      return model.vector_start + work.repeats * cycles;
    }
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
