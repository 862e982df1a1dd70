#include <gtest/gtest.h>

#include <vector>

#include "kernels/kernel_table.h"

namespace weft {
namespace {

TEST(Probes, CountWhatTheyDo) {
  for (const KernelTable* table : available_kernels()) {
    SCOPED_TRACE(table->name);
    for (const auto peak : {table->peak_int8, table->peak_f32, table->peak_bf16}) {
      EXPECT_EQ(peak(6), 2 * peak(3));
    }
    EXPECT_GT(table->peak_int8(1), 0);
    EXPECT_GT(table->peak_f32(1), 0);
  }
}

TEST(Probes, ReadNothingBeyondTheEnd) {
  for (const KernelTable* table : available_kernels()) {
    SCOPED_TRACE(table->name);
    const std::vector<uint64_t> memory(512 / 8);  // the address sanitizer watches its end
    table->read_memory(reinterpret_cast<const std::byte*>(memory.data()), 512, 4096);
  }
}

}  // namespace
}  // namespace weft
