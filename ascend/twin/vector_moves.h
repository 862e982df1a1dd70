#pragma once
// Vector instructions that put values where they were not: Duplicate, Gather, Brcb.

#include "vector_span.h"

namespace weft::twin {

void duplicate_bits(const Call& call, const LocalMemory& dst, const void* scalar, uint32_t element,
                    const uint64_t* mask, int64_t repeats, int64_t block_stride,
                    int64_t repeat_stride);
void duplicate(const Call& call, const LocalMemory& dst, const void* scalar, uint32_t element,
               const Span& span);
void gather(const Call& call, const LocalMemory& dst, const LocalMemory& src,
            const LocalMemory& offsets, uint32_t base, uint32_t count, uint32_t element);
void broadcast_blocks(const Call& call, const LocalMemory& dst, const LocalMemory& src,
                      int64_t repeats, const AscendC::BrcbRepeatParams& params, uint32_t element);

}  // namespace weft::twin
