#pragma once
// DecodeKernel: stays on its cores and takes one quantum after the other from a ring that the host
// fills: steps of running streams, and the last rows of prompts that follow the other cores layer
// by layer.

#include "prefill_kernel.h"

namespace weft_ascend {

class DecodeKernel {
 public:
  __aicore__ inline DecodeKernel(AscendC::TPipe& pipe, Program& program)
      : program_(program), quanta_(pipe, program) {}

  // Until the host ends the epoch, its number of quanta is run, or an error has ended the launch.
  __aicore__ inline void Run() {
    const Launch& launch = program_.launch();
    const int32_t ring = program_.ring();
    Flag head(Pointer(launch.ring_heads[ring]));
    for (int64_t number = 0; number < launch.epoch_quanta; ++number) {
      program_.At(kInRing, 0);
      // A ring that nobody fills is no error. One that the host gives up is the end.
      if (head.Await(number + 1, 0) != WaitEnd::kDone) return program_.GiveUp();
      RingEntry entry = {};
      ReadStruct(Pointer(launch.rings[ring]) + number % launch.ring_entries * sizeof(RingEntry),
                 entry);
      if (entry.command == kEndEpoch) return;
      if (entry.command != kRunQuantum || !program_.InTeam(entry.team)) {
        return program_.Fail(kBadCommand);
      }
      if (!quanta_.Run(Pointer(entry.descriptor), entry.team)) return;
      program_.QuantaEnded(number + 1);
    }
  }

 private:
  Program& program_;
  PrefillKernel quanta_;
};

}  // namespace weft_ascend
