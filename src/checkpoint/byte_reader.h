#pragma once
// A cursor over bytes that never leaves them.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace weft {

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  // False, and nothing is consumed, where the bytes end before the value does.
  template <class T>
  bool read(T& value) {
    if (remaining() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }

  // The next `size` bytes as text; `size` has been held against remaining() by the caller.
  std::string_view take(uint64_t size) {
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + position_), size);
    position_ += size;
    return text;
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

}  // namespace weft
