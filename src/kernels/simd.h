// The glue between kernels written over Highway's vector types and the per-ISA tables.
// On purpose without an include guard: Highway compiles a kernel file once for each target by
// including it again.
//
// How to add a file of SIMD kernels, say rowwise.cc. Its frame:
// clang-format off
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/rowwise.cc"  // this file, as found from src/
//   #include "kernels/simd.h"
//   #include "kernels/kernel_table.h"                // and whatever else it needs
//
//   #if WEFT_SIMD_TARGET                             // the scalar pass of Highway stays empty
//   WEFT_BEFORE_KERNELS();
//   namespace weft::HWY_NAMESPACE {
//   namespace {
//   namespace hn = hwy::HWY_NAMESPACE;
//   void head_norm(float* x, int heads, ...) { ... hn::MulAdd(...) ... }
//   }  // namespace
//   void fill_rowwise(KernelTable& table) { table.head_norm = head_norm; }
//   }  // namespace weft::HWY_NAMESPACE
//   WEFT_AFTER_KERNELS();
//   #endif
//
// clang-format on
// Then name fill_rowwise in WEFT_FILL_FUNCTIONS of kernel_table.cc. The scalar twin lives in ref/,
// in namespace weft::ref, with a fill function of the same name. Rules:
//
//  - What touches vectors stands between WEFT_BEFORE_KERNELS and WEFT_AFTER_KERNELS: only there may
//    the compiler use the target's instructions. Includes go before. Helpers of several files go
//    into a *-inl.h with Highway's guard, #if defined(WEFT_X_INL_H) == defined(HWY_TARGET_TOGGLE).
//  - Nothing in such a file has external linkage but what is in namespace weft::HWY_NAMESPACE: an
//    inline function outside it would be compiled for one target and run on all.
//  - Lambdas and templates inherit the attributes; say HWY_INLINE where a call must vanish.
//  - Targets: N_AVX2 (avx2), N_AVX3 (avx512), N_AVX3_DL (avx512vnni: intrinsics of AVX-512 VNNI,
//    VBMI and VBMI2 may be used there), N_NEON (neon); HWY_TARGET tells them apart. Vectors have
//    32, 64, 64 and 16 bytes.
//  - Say MulAdd where a fused multiply-add is meant: the compiler itself contracts nothing.

#ifndef HWY_WANT_AVX3_DL
#define HWY_WANT_AVX3_DL
#endif
#ifndef HWY_COMPILE_ALL_ATTAINABLE  // also the targets that the compiler's own flags supersede
#define HWY_COMPILE_ALL_ATTAINABLE
#endif
#ifndef HWY_DISABLED_TARGETS
// Smaller x86 CPUs run the scalar table, SVE machines the NEON one.
#ifdef WEFT_ONE_SIMD_TARGET  // see CMakeLists.txt
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_NEON | HWY_SCALAR | HWY_EMU128))
#else
#define HWY_DISABLED_TARGETS \
  (~(HWY_AVX2 | HWY_AVX3 | HWY_AVX3_DL | HWY_NEON | HWY_SCALAR | HWY_EMU128))
#endif
#endif

#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#undef WEFT_SIMD_TARGET
#undef WEFT_BEFORE_KERNELS
#undef WEFT_AFTER_KERNELS
#if HWY_TARGET == HWY_AVX3_DL
#define WEFT_SIMD_TARGET 1
#define WEFT_BEFORE_KERNELS() \
  HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni") static_assert(true, "")
#define WEFT_AFTER_KERNELS() HWY_POP_ATTRIBUTES static_assert(true, "")
#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
#define WEFT_SIMD_TARGET 1
#define WEFT_BEFORE_KERNELS() HWY_BEFORE_NAMESPACE()
#define WEFT_AFTER_KERNELS() HWY_AFTER_NAMESPACE()
#else
#define WEFT_SIMD_TARGET 0
#endif
