#pragma once
// ResidentKernel: both groups of cores in one launch. The first blocks take the quanta of prompts,
// the others those of streams, each from a ring of its own; a quantum of all cores comes in both.
//
// Either group may run any quantum, so that an idle group's cores can help. What differs is what
// the host puts in its ring.

#include "decode_kernel.h"

namespace weft_ascend {

__aicore__ inline void ResidentKernel(GM_ADDR launch) {
  AscendC::TPipe pipe;
  Program program(pipe, launch);
  DecodeKernel kernel(pipe, program);
  kernel.Run();
}

}  // namespace weft_ascend
