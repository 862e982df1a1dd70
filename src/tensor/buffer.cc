#include "tensor/buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

namespace weft {
namespace {
constexpr size_t kHugePage = size_t{2} << 20;
}

Result<Buffer> Buffer::allocate(size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  const auto refused = [&](int code) {
    return Error{ErrorKind::kExhausted,
                 fmt::format("cannot get {} bytes of memory: {}", bytes, std::strerror(code))};
  };
  if (bytes > std::numeric_limits<size_t>::max() / 2)
    return refused(ENOMEM);  // rounding up must not overflow
  const bool huge = bytes >= kHugePage;
  // A huge page needs its own alignment: take one page more and give the ends back.
  const size_t page = 4096;
  const size_t size = (bytes + page - 1) / page * page;
  const size_t mapped = huge ? size + kHugePage : size;
  void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return refused(errno);
  auto* begin = static_cast<std::byte*>(raw);
  if (huge) {
    const size_t head = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
    if (head != 0) munmap(begin, head);
    if (mapped != head + size) munmap(begin + head + size, mapped - head - size);
    begin += head;
    madvise(begin, size, MADV_HUGEPAGE);  // a wish: without it everything works, a little slower
  }
  buffer.data_ = begin;
  buffer.size_ = size;
  return buffer;
}

Buffer::~Buffer() {
  if (data_ != nullptr) munmap(data_, size_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace weft
