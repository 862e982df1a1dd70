#include "kernels/kernel_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/detect_targets.h>

#include <initializer_list>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "kernels/testing.h"

#if HWY_ARCH_ARM_A64
#define WEFT_BF16_BASE "neon"
#define WEFT_BF16_NAMESPACE N_NEON
#elif defined(WEFT_ONE_SIMD_TARGET)
#define WEFT_BF16_BASE "avx2"
#define WEFT_BF16_NAMESPACE N_AVX2
#else
#define WEFT_BF16_BASE "avx512vnni"
#define WEFT_BF16_NAMESPACE N_AVX3_DL
namespace weft::N_AVX2 {
void fill_matmul_dot_evex(KernelTable& table);
}
#endif
namespace weft::WEFT_BF16_NAMESPACE {
void fill_matmul_bf16_emulated(KernelTable& table);
void fill_attention_bf16_emulated(KernelTable& table);
}  // namespace weft::WEFT_BF16_NAMESPACE

namespace weft {
namespace {

// `base` with those functions replaced.
KernelTable variant_of(const KernelTable& base, std::string_view name,
                       std::initializer_list<void (*)(KernelTable&)> fills) {
  KernelTable table = base;
  for (const auto fill : fills) fill(table);
  table.name = name;
  return table;
}

}  // namespace

std::vector<const KernelTable*> testing::tested_tables() {
  const auto available = available_kernels();
  std::vector<const KernelTable*> tables(available.begin(), available.end());
  if (const auto base = find_kernels(WEFT_BF16_BASE); base.ok()) {
    static const KernelTable emulated =
        variant_of(**base, "bf16emulated",
                   {WEFT_BF16_NAMESPACE::fill_matmul_bf16_emulated,
                    WEFT_BF16_NAMESPACE::fill_attention_bf16_emulated});
    tables.push_back(&emulated);
  }
#if HWY_ARCH_X86 && !defined(WEFT_ONE_SIMD_TARGET)
  if (find_kernels("avx512vnni").ok()) {
    static const KernelTable evex =
        variant_of(*find_kernels("avx2").value(), "avx2vnnievex", {N_AVX2::fill_matmul_dot_evex});
    tables.push_back(&evex);
  }
#endif
  return tables;
}

const KernelTable& testing::tested_table(std::string_view name) {
  for (const KernelTable* table : tested_tables()) {
    if (table->name == name) return *table;
  }
  WEFT_CHECK(false, "no table {}", name);
}

namespace {

TEST(KernelTableTest, AutoIsTheFirstAndRefTheLast) {
  const auto tables = available_kernels();
  ASSERT_FALSE(tables.empty());
  EXPECT_EQ(find_kernels("auto").value(), tables.front());
  EXPECT_EQ(tables.back()->name, "ref");
}

TEST(KernelTableTest, EveryTableIsFoundByItsName) {
  for (const KernelTable* table : available_kernels()) {
    EXPECT_EQ(find_kernels(table->name).value(), table);
  }
}

TEST(KernelTableTest, AnUnknownNameIsRefusedWithTheKnownOnes) {
  const auto result = find_kernels("mmx");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(result.error().message, ::testing::HasSubstr("'mmx'"));
  EXPECT_THAT(result.error().message, ::testing::HasSubstr("ref"));
}

}  // namespace
}  // namespace weft
