#include "kernels/kernel_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft {
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
  EXPECT_THAT(result.error().message, testing::HasSubstr("'mmx'"));
  EXPECT_THAT(result.error().message, testing::HasSubstr("ref"));
}

}  // namespace
}  // namespace weft
