#pragma once
// The cube core: fractals from L1 to L0A and L0B (MTE1), the multiplication (M), results out of L0C
// (FIX). half x half -> float is the only arithmetic emulated.

#include "checks.h"
#include "data_copy.h"
#include "params.h"
#include "tensor.h"

namespace weft::twin {

void load_fractals(const Call& call, const LocalMemory& target, const LocalMemory& source,
                   const AscendC::LoadData2DParams& params);
void load_transposed(const Call& call, const LocalMemory& target, const LocalMemory& source,
                     const AscendC::LoadData2dTransposeParams& params);
void multiply(const Call& call, const LocalMemory& c, const LocalMemory& a, const LocalMemory& b,
              const AscendC::MmadParams& params);
void fixpipe(const Call& call, void* target, const LocalMemory& source,
             const AscendC::FixpipeParamsV220& params, Element element);

}  // namespace weft::twin

namespace AscendC {

// repeatTimes fractals of 512 bytes, srcStride fractals apart, to places dstGap fractals apart.
template <class T>
__aicore__ inline void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                                const LoadData2DParams& loadDataParams,
                                Where where = Where::current()) {
  weft::twin::load_fractals({weft::twin::here(), "LoadData", where}, dst.memory(), src.memory(),
                            loadDataParams);
}

// The same for squares of 16 x 16 halves, each transposed.
template <class T>
__aicore__ inline void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                                             const LoadData2dTransposeParams& loadDataParams,
                                             Where where = Where::current()) {
  static_assert(sizeof(T) == 2, "the twin transposes 16-bit elements only");
  weft::twin::load_transposed({weft::twin::here(), "LoadDataWithTranspose", where}, dst.memory(),
                              src.memory(), loadDataParams);
}

// dst[m, n] (+)= fm[m, k] * filter[k, n]; dst in L0C as columns of 16-wide strips of floats, fm in
// L0A as rows of row-major 16 x 16 fractals, filter in L0B as rows of column-major ones. With m = 1
// the chip reads fm as one plain row.
template <class T, class U, class S>
__aicore__ inline void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm,
                            const LocalTensor<S>& filter, const MmadParams& mmadParams,
                            Where where = Where::current()) {
  static_assert(std::is_same_v<T, float> && std::is_same_v<U, half> && std::is_same_v<S, half>,
                "the twin multiplies half by half to float only");
  weft::twin::multiply({weft::twin::here(), "Mmad", where}, dst.memory(), fm.memory(),
                       filter.memory(), mmadParams);
}

// L0C to global memory, as rows of dstStride elements.
template <class T, class U, const FixpipeConfig& config = CFG_ROW_MAJOR>
__aicore__ inline void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src,
                               const FixpipeParamsV220& intriParams,
                               Where where = Where::current()) {
  static_assert(config.format == CO2Layout::ROW_MAJOR, "the twin copies to rows only");
  static_assert(std::is_same_v<U, float>, "L0C holds floats in the twin");
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, half>, "to float or half");
  weft::twin::fixpipe({weft::twin::here(), "Fixpipe", where}, dst.GetPhyAddr(), src.memory(),
                      intriParams, weft::twin::element_of<T>());
}

}  // namespace AscendC
