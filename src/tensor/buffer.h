#pragma once
// Buffer: an owner of zeroed, 64-byte aligned memory straight from the operating system. Buffers of
// 2 MiB and more ask for huge pages. Pages are touched by whoever writes them first, so a core
// group places its own memory.

#include <cstddef>
#include <span>

#include "base/result.h"

namespace weft {

class Buffer {
 public:
  Buffer() = default;
  static Result<Buffer> allocate(
      size_t bytes);  // kExhausted, naming the size, if the system refuses
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace weft
