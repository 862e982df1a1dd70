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
//  - Variants: CMakeLists.txt compiles some files once more for CPUs that have one more instruction
//    than a target of Highway's. Vectors and namespace are the target's, the instruction may be
//    used where the macro says so, and a fill function named WEFT_FILL(rowwise) is fill_rowwise
//    without a variant and fill_rowwise_dot or fill_rowwise_bf16 in one:
//      WEFT_BYTE_DOTS  dot products of bytes: variant "dot" of AVX2 (AVX-VNNI) and NEON (dotprod),
//                      and "dot_evex", the former as AVX-512 encodes it, for tests
//      WEFT_BF16_DOTS  of bf16 pairs: variant "bf16" of N_AVX3_DL (AVX512-BF16) and NEON (dotprod
//      and
//                      bf16), and "bf16_emulated", in software, for tests on any CPU
//  - Say MulAdd where a fused multiply-add is meant: the compiler itself contracts nothing.

#ifndef HWY_WANT_AVX3_DL
#define HWY_WANT_AVX3_DL
#endif
#ifndef HWY_COMPILE_ALL_ATTAINABLE  // also the targets that the compiler's own flags supersede
#define HWY_COMPILE_ALL_ATTAINABLE
#endif
#undef WEFT_BYTE_DOTS
#undef WEFT_BF16_DOTS
#undef WEFT_FILL
#if defined(WEFT_VARIANT_DOT)
#define WEFT_BYTE_DOTS 1
#define WEFT_BF16_DOTS 0
#define WEFT_FILL(name) fill_##name##_dot
#elif defined(WEFT_VARIANT_DOT_EVEX)
#define WEFT_BYTE_DOTS 1
#define WEFT_BF16_DOTS 0
#define WEFT_FILL(name) fill_##name##_dot_evex
#elif defined(WEFT_VARIANT_BF16)
#define WEFT_BYTE_DOTS 1
#define WEFT_BF16_DOTS 1
#define WEFT_FILL(name) fill_##name##_bf16
#elif defined(WEFT_VARIANT_BF16_EMULATED)
#define WEFT_BYTE_DOTS 0
#define WEFT_BF16_DOTS 1
#define WEFT_FILL(name) fill_##name##_bf16_emulated
#else
#define WEFT_BYTE_DOTS 0
#define WEFT_BF16_DOTS 0
#define WEFT_FILL(name) fill_##name
#endif

#ifndef HWY_DISABLED_TARGETS
// Smaller x86 CPUs run the scalar table, SVE machines the NEON one.
#if defined(WEFT_ONE_SIMD_TARGET)  // see CMakeLists.txt
#define WEFT_X86_TARGETS HWY_AVX2
#elif WEFT_BF16_DOTS
#define WEFT_X86_TARGETS HWY_AVX3_DL
#elif WEFT_BYTE_DOTS
#define WEFT_X86_TARGETS HWY_AVX2
#else
#define WEFT_X86_TARGETS (HWY_AVX2 | HWY_AVX3 | HWY_AVX3_DL)
#endif
#define HWY_DISABLED_TARGETS (~(WEFT_X86_TARGETS | HWY_NEON | HWY_SCALAR | HWY_EMU128))
#endif

#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#undef WEFT_SIMD_TARGET
#undef WEFT_BEFORE_KERNELS
#undef WEFT_AFTER_KERNELS
#undef WEFT_TARGET_STR
#if HWY_TARGET == HWY_AVX3_DL
#if defined(WEFT_VARIANT_BF16)
#define WEFT_TARGET_STR HWY_TARGET_STR ",avx512vnni,avx512bf16"
#else
#define WEFT_TARGET_STR HWY_TARGET_STR ",avx512vnni"
#endif
#elif HWY_TARGET == HWY_AVX2 && defined(WEFT_VARIANT_DOT)
#define WEFT_TARGET_STR HWY_TARGET_STR ",avxvnni"
#elif HWY_TARGET == HWY_AVX2 && defined(WEFT_VARIANT_DOT_EVEX)
#define WEFT_TARGET_STR HWY_TARGET_STR ",avx512f,avx512vl,avx512vnni"
#elif HWY_TARGET == HWY_NEON && defined(WEFT_VARIANT_DOT)
#define WEFT_TARGET_STR "arch=armv8.2-a+crypto+dotprod"
#elif HWY_TARGET == HWY_NEON && defined(WEFT_VARIANT_BF16)
#define WEFT_TARGET_STR "arch=armv8.2-a+crypto+fp16+dotprod+bf16"
#endif
#if defined(WEFT_TARGET_STR)
#define WEFT_SIMD_TARGET 1
#define WEFT_BEFORE_KERNELS() HWY_PUSH_ATTRIBUTES(WEFT_TARGET_STR) static_assert(true, "")
#define WEFT_AFTER_KERNELS() HWY_POP_ATTRIBUTES static_assert(true, "")
#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
#define WEFT_SIMD_TARGET 1
#define WEFT_BEFORE_KERNELS() HWY_BEFORE_NAMESPACE()
#define WEFT_AFTER_KERNELS() HWY_AFTER_NAMESPACE()
#else
#define WEFT_SIMD_TARGET 0
#endif

#ifndef WEFT_INLINE_LAMBDA
#define WEFT_INLINE_LAMBDA __attribute__((always_inline))
// Before a loop of few turns: unrolled whole, so that arrays of vectors stay in registers.
#if HWY_COMPILER_CLANG
#define WEFT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define WEFT_UNROLL _Pragma("GCC unroll 16")
#endif
#endif
