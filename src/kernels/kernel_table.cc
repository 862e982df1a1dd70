#include "kernels/kernel_table.h"

#include <hwy/detect_targets.h>
#include <hwy/targets.h>

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

WEFT_TABLE(ref, "ref")
#if HWY_ARCH_X86
WEFT_TABLE(N_AVX2, "avx2")
#ifndef WEFT_ONE_SIMD_TARGET
WEFT_TABLE(N_AVX3, "avx512")
WEFT_TABLE(N_AVX3_DL, "avx512vnni")
#endif
#elif HWY_ARCH_ARM_A64
WEFT_TABLE(N_NEON, "neon")
#endif

namespace weft {
namespace {

std::vector<const KernelTable*> tables_for_this_cpu() {
  std::vector<const KernelTable*> tables;
#if HWY_ARCH_X86
  const int64_t targets = hwy::SupportedTargets();
#ifndef WEFT_ONE_SIMD_TARGET
  if ((targets & HWY_AVX3_DL) != 0 && __builtin_cpu_supports("avx512vnni") != 0) {
    tables.push_back(&N_AVX3_DL::kernel_table());
  }
  if ((targets & HWY_AVX3) != 0) tables.push_back(&N_AVX3::kernel_table());
#endif
  if ((targets & HWY_AVX2) != 0) tables.push_back(&N_AVX2::kernel_table());
#elif HWY_ARCH_ARM_A64
  tables.push_back(&N_NEON::kernel_table());
#endif
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
