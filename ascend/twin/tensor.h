#pragma once
// GlobalTensor and LocalTensor: typed views of global memory and of a core's private buffers.

#include <cstdint>
#include <type_traits>

#include "checks.h"
#include "device_types.h"
#include "sub_core.h"

namespace weft::twin {

inline SubCore& here() { return *current_sub_core; }

Buffer buffer_of(AscendC::TPosition position);

}  // namespace weft::twin

namespace AscendC {

using weft::twin::Where;

template <class T>
class GlobalTensor {
 public:
  void SetGlobalBuffer(__gm__ T* buffer) { buffer_ = buffer, size_ = 0; }
  void SetGlobalBuffer(__gm__ T* buffer, uint64_t size) { buffer_ = buffer, size_ = size; }

  __gm__ T* GetPhyAddr() const { return buffer_; }
  __gm__ T* GetPhyAddr(uint64_t offset) const { return buffer_ + offset; }
  uint64_t GetSize() const { return size_; }

  T GetValue(uint64_t offset, Where where = Where::current()) const {
    T value;
    weft::twin::here().Load(buffer_ + offset, &value, sizeof(T), where);
    return value;
  }
  void SetValue(uint64_t offset, std::type_identity_t<T> value, Where where = Where::current()) {
    weft::twin::here().Store(buffer_ + offset, &value, sizeof(T), where);
  }

  GlobalTensor operator[](uint64_t offset) const {
    GlobalTensor part;
    part.buffer_ = buffer_ + offset;
    part.size_ = size_ > offset ? size_ - offset : 0;
    return part;
  }
  template <class U>
  GlobalTensor<U> ReinterpretCast() const {
    GlobalTensor<U> other;
    other.SetGlobalBuffer(reinterpret_cast<__gm__ U*>(buffer_), size_ * sizeof(T) / sizeof(U));
    return other;
  }

 private:
  __gm__ T* buffer_ = nullptr;
  uint64_t size_ = 0;
};

template <class T>
class LocalTensor {
 public:
  LocalTensor() = default;
  LocalTensor(TPosition position, uint32_t address, uint32_t size)
      : memory_{address, static_cast<uint32_t>(address + size * sizeof(T)), position, true, 0} {}

  T GetValue(uint32_t index, Where where = Where::current()) const {
    T value;
    weft::twin::here().LoadLocal(weft::twin::buffer_of(memory_.position), At(index, where), &value,
                                 sizeof(T), where);
    return value;
  }
  void SetValue(uint32_t index, std::type_identity_t<T> value,
                Where where = Where::current()) const {
    weft::twin::here().StoreLocal(weft::twin::buffer_of(memory_.position), At(index, where), &value,
                                  sizeof(T), where);
  }

  LocalTensor operator[](uint32_t offset) const {
    LocalTensor part = *this;
    part.memory_.address += static_cast<uint32_t>(offset * sizeof(T));
    return part;
  }
  template <class U>
  LocalTensor<U> ReinterpretCast() const {
    LocalTensor<U> other;
    other.set_memory(memory_);
    return other;
  }

  uint32_t GetSize() const {
    return memory_.end > memory_.address
               ? static_cast<uint32_t>((memory_.end - memory_.address) / sizeof(T))
               : 0;
  }
  uint64_t GetPhyAddr() const { return memory_.address; }

  const weft::twin::LocalMemory& memory() const { return memory_; }
  void set_memory(const weft::twin::LocalMemory& memory) { memory_ = memory; }

 private:
  uint32_t At(uint32_t index, const Where& where) const {
    weft::twin::check_element(weft::twin::here(), memory_, index, sizeof(T), where);
    return static_cast<uint32_t>(memory_.address + index * sizeof(T));
  }

  weft::twin::LocalMemory memory_;
};

}  // namespace AscendC
