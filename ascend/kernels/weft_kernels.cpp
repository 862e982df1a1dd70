// The kernels' entry points. This file is compiled by bisheng for the card, and by the host's
// compiler against the twin's headers.

#include "resident_kernel.h"
#ifdef WEFT_ASCEND_TWIN
#include "twin.h"
#endif

// `launch`: a weft_ascend::Launch. Blocks: those of both rings, at most as many as there are cube
// cores, or a waiting block could keep a sending one from starting.
extern "C" __global__ __aicore__ void weft_resident(GM_ADDR launch) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  weft_ascend::ResidentKernel(launch);
}

// The two programs of weft_resident by themselves, to launch one group alone: here all blocks run
// this one weft_ascend::Descriptor, as the launch's first team.
extern "C" __global__ __aicore__ void weft_prefill(GM_ADDR launch, GM_ADDR descriptor) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  AscendC::TPipe pipe;
  weft_ascend::Program program(pipe, launch);
  weft_ascend::PrefillKernel kernel(pipe, program);
  kernel.Run(descriptor, weft_ascend::kTeamAll);
}

// All blocks serve the launch's first ring.
extern "C" __global__ __aicore__ void weft_decode(GM_ADDR launch) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  AscendC::TPipe pipe;
  weft_ascend::Program program(pipe, launch);
  weft_ascend::DecodeKernel kernel(pipe, program);
  kernel.Run();
}

#ifdef WEFT_ASCEND_TWIN
WEFT_TWIN_KERNEL(weft_resident);
WEFT_TWIN_KERNEL(weft_prefill);
WEFT_TWIN_KERNEL(weft_decode);
#endif
