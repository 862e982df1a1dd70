#include "kernels/kernel_table.h"

#include <hwy/detect_targets.h>
#include <hwy/targets.h>

#if HWY_ARCH_X86
#include <cpuid.h>
#elif HWY_ARCH_ARM_A64
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <string>
#include <vector>

// The functions that make up a table: each sets the members it implements. See kernels/simd.h.
#define WEFT_FILL_FUNCTIONS(FILL) \
  FILL(fill_matmul) FILL(fill_attention) FILL(fill_rowwise) FILL(fill_logits) FILL(fill_probes)

#define WEFT_DECLARE_FILL(function) void function(KernelTable& table);
#define WEFT_CALL_FILL(function) function(table);
#define WEFT_TABLE(ns, table_name)                      \
  namespace weft::ns {                                  \
  WEFT_FILL_FUNCTIONS(WEFT_DECLARE_FILL)                \
  static const KernelTable& kernel_table() {            \
    static const KernelTable filled = [] {              \
      KernelTable table = {};                           \
      table.name = table_name;                          \
      WEFT_FILL_FUNCTIONS(WEFT_CALL_FILL) return table; \
    }();                                                \
    return filled;                                      \
  }                                                     \
  }  // namespace weft::ns

// A table that has those functions of its own and all others of the table it is a variant of.
#define WEFT_VARIANT_TABLE(ns, variant, base, table_name, FUNCTIONS) \
  namespace weft::ns {                                               \
  FUNCTIONS(WEFT_DECLARE_FILL)                                       \
  static const KernelTable& kernel_table_##variant() {               \
    static const KernelTable filled = [] {                           \
      KernelTable table = base();                                    \
      table.name = table_name;                                       \
      FUNCTIONS(WEFT_CALL_FILL) return table;                        \
    }();                                                             \
    return filled;                                                   \
  }                                                                  \
  }  // namespace weft::ns
#define WEFT_DOT_FUNCTIONS(FILL) FILL(fill_matmul_dot) FILL(fill_probes_dot)
#define WEFT_BF16_FUNCTIONS(FILL) \
  FILL(fill_matmul_bf16) FILL(fill_attention_bf16) FILL(fill_probes_bf16)

WEFT_TABLE(ref, "ref")
#if HWY_ARCH_X86
WEFT_TABLE(N_AVX2, "avx2")
#ifndef WEFT_ONE_SIMD_TARGET
WEFT_TABLE(N_AVX3, "avx512")
WEFT_TABLE(N_AVX3_DL, "avx512vnni")
WEFT_VARIANT_TABLE(N_AVX2, dot, kernel_table, "avx2vnni", WEFT_DOT_FUNCTIONS)
WEFT_VARIANT_TABLE(N_AVX3_DL, bf16, kernel_table, "avx512bf16", WEFT_BF16_FUNCTIONS)
#endif
#elif HWY_ARCH_ARM_A64
WEFT_TABLE(N_NEON, "neon")
#ifndef WEFT_ONE_SIMD_TARGET
WEFT_VARIANT_TABLE(N_NEON, dot, kernel_table, "neondot", WEFT_DOT_FUNCTIONS)
WEFT_VARIANT_TABLE(N_NEON, bf16, kernel_table_dot, "neonbf16", WEFT_BF16_FUNCTIONS)
#endif
#endif

namespace weft {
namespace {

#if HWY_ARCH_X86
#ifndef WEFT_ONE_SIMD_TARGET
// What Highway does not look for.
uint32_t cpu_features_7_1() {
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 ? eax : 0;
}
bool has_avx_vnni() { return (cpu_features_7_1() & (1U << 4)) != 0; }
bool has_avx512_bf16() { return (cpu_features_7_1() & (1U << 5)) != 0; }
#endif

std::vector<const KernelTable*> simd_tables() {
  std::vector<const KernelTable*> tables;
  const int64_t targets = hwy::SupportedTargets();
#ifndef WEFT_ONE_SIMD_TARGET
  if ((targets & HWY_AVX3_DL) != 0 && __builtin_cpu_supports("avx512vnni") != 0) {
    if (has_avx512_bf16()) tables.push_back(&N_AVX3_DL::kernel_table_bf16());
    tables.push_back(&N_AVX3_DL::kernel_table());
  }
  if ((targets & HWY_AVX3) != 0) tables.push_back(&N_AVX3::kernel_table());
  if ((targets & HWY_AVX2) != 0 && has_avx_vnni()) {
    tables.push_back(&N_AVX2::kernel_table_dot());
  }
#endif
  if ((targets & HWY_AVX2) != 0) tables.push_back(&N_AVX2::kernel_table());
  return tables;
}
#elif HWY_ARCH_ARM_A64
std::vector<const KernelTable*> simd_tables() {
  std::vector<const KernelTable*> tables;
#ifndef WEFT_ONE_SIMD_TARGET
  const uint64_t features = getauxval(AT_HWCAP);
  if ((features & HWCAP_ASIMDDP) != 0) {
    // g++ makes constants by instructions of FP16, which every CPU with BF16 has.
    const bool bf16 = (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0 && (features & HWCAP_ASIMDHP) != 0;
    if (bf16) tables.push_back(&N_NEON::kernel_table_bf16());
    tables.push_back(&N_NEON::kernel_table_dot());
  }
#endif
  tables.push_back(&N_NEON::kernel_table());
  return tables;
}
#else
std::vector<const KernelTable*> simd_tables() { return {}; }
#endif

std::vector<const KernelTable*> tables_for_this_cpu() {
  std::vector<const KernelTable*> tables = simd_tables();
  tables.push_back(&ref::kernel_table());
  return tables;
}

}  // namespace

std::span<const KernelTable* const> available_kernels() {
  static const std::vector<const KernelTable*> tables = tables_for_this_cpu();
  return tables;
}

Result<const KernelTable*> find_kernels(std::string_view name) {
  const auto tables = available_kernels();
  if (name == "auto") return tables.front();
  std::string names = "auto";
  for (const KernelTable* table : tables) {
    if (table->name == name) return table;
    names.append(", ").append(table->name);
  }
  return Error{ErrorKind::kUnsupported,
               fmt::format("kernels '{}' do not exist or this CPU cannot run them; it has: {}",
                           name, names)};
}

}  // namespace weft
