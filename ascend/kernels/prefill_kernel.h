#pragma once
// PrefillKernel: one quantum on the cores of a team, launched by itself: a prompt's rows through
// some layers, each of which is sent to whoever follows once its keys and values are stored.

#include "layer_program.h"

namespace weft_ascend {

class PrefillKernel {
 public:
  __aicore__ inline PrefillKernel(AscendC::TPipe& pipe, Program& program)
      : program_(program), layers_(pipe, program) {}

  // False: the launch is lost.
  __aicore__ inline bool Run(GM_ADDR descriptor, int32_t team) {
    program_.At(kInDecision, 0);
    const bool wanted = program_.Decide(team, descriptor);
    if (!program_.failed() && (wanted ? layers_.Run(descriptor) : layers_.Skip(team))) return true;
    layers_.AbortSends(descriptor, team);
    return false;
  }

 private:
  Program& program_;
  LayerProgram layers_;
};

}  // namespace weft_ascend
