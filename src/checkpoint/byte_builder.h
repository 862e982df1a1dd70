#pragma once
// For tests: a GGUF put together field by field, so that any field can lie.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

class ByteBuilder {
 public:
  template <class T>
  ByteBuilder& put(T value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof(T));
    return *this;
  }
  ByteBuilder& raw(std::string_view text) {
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), begin, begin + text.size());
    return *this;
  }
  ByteBuilder& string(std::string_view text) { return put<uint64_t>(text.size()).raw(text); }
  ByteBuilder& zeros(size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }
  ByteBuilder& pad(size_t alignment) {
    return zeros((alignment - bytes_.size() % alignment) % alignment);
  }

  ByteBuilder& header(uint64_t tensors, uint64_t entries) {
    return raw("GGUF").put<uint32_t>(3).put(tensors).put(entries);
  }
  ByteBuilder& key(std::string_view name, uint32_t type) { return string(name).put(type); }
  // `extents` as in the file: innermost first.
  ByteBuilder& tensor(std::string_view name, std::initializer_list<uint64_t> extents, uint32_t type,
                      uint64_t offset) {
    string(name).put(static_cast<uint32_t>(extents.size()));
    for (const uint64_t extent : extents) put(extent);
    return put(type).put(offset);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace weft
