#include "tensor/buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace weft {
namespace {

TEST(Buffer, IsZeroedAlignedAndWritable) {
  for (const size_t bytes :
       {size_t{1}, size_t{64}, size_t{4096}, size_t{4097}, (size_t{2} << 20) - 1, size_t{2} << 20,
        (size_t{2} << 20) + 1, size_t{5} << 20}) {
    Result<Buffer> buffer = Buffer::allocate(bytes);
    ASSERT_TRUE(buffer.ok()) << buffer.error().message;
    EXPECT_GE(buffer->size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
    EXPECT_TRUE(std::all_of(buffer->data(), buffer->data() + bytes,
                            [](std::byte b) { return b == std::byte{0}; }));
    std::fill(buffer->data(), buffer->data() + buffer->size(), std::byte{0xab});
    EXPECT_EQ(buffer->as<uint8_t>()[bytes - 1], 0xab);
  }
}

TEST(Buffer, NothingIsNothing) {
  const Result<Buffer> buffer = Buffer::allocate(0);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->size(), 0u);
  EXPECT_EQ(buffer->data(), nullptr);
}

TEST(Buffer, MovesItsMemory) {
  Result<Buffer> first = Buffer::allocate(100);
  ASSERT_TRUE(first.ok());
  Buffer a = *std::move(first);
  a.data()[0] = std::byte{1};
  const std::byte* where = a.data();
  Buffer b = std::move(a);
  EXPECT_EQ(b.data(), where);
  Buffer c;
  c = std::move(b);
  EXPECT_EQ(c.data(), where);
  EXPECT_EQ(c.data()[0], std::byte{1});
}

TEST(Buffer, RefusalNamesTheSize) {
  for (const size_t bytes : {size_t{1} << 60, std::numeric_limits<size_t>::max()}) {
    const Result<Buffer> buffer = Buffer::allocate(bytes);
    ASSERT_FALSE(buffer.ok()) << bytes;
    EXPECT_EQ(buffer.error().kind, ErrorKind::kExhausted);
    EXPECT_THAT(buffer.error().message,
                testing::HasSubstr(fmt::format("cannot get {} bytes", bytes)));
  }
}

}  // namespace
}  // namespace weft
