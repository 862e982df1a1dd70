#pragma once
// AclDevice: one NPU through AscendCL, or the twin behind the same calls: its memory, its stream,
// its kernels.
//
// Thread: every call comes from one thread at a time.

#include <acl/acl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/result.h"

namespace weft {

// Device memory, by the address that kernels use. Aligned to 512 bytes.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // kExhausted, naming the size and its purpose.
  enum class Contents : uint8_t { kZeros, kAnything };
  static Result<DeviceMemory> allocate(uint64_t bytes, const char* purpose,
                                       Contents contents = Contents::kZeros);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  uint64_t address() const { return reinterpret_cast<uint64_t>(data_); }
  uint64_t size() const { return size_; }

  // Return when the bytes are there. Of a range within the memory.
  Status write(uint64_t offset, std::span<const std::byte> bytes);
  Status read(uint64_t offset, std::span<std::byte> bytes) const;
  Status clear();
  template <class T>
  Status write_value(uint64_t offset, const T& value) {
    return write(offset, std::as_bytes(std::span(&value, 1)));
  }
  template <class T>
  Status write_values(uint64_t offset, std::span<const T> values) {
    return write(offset, std::as_bytes(values));
  }

 private:
  void* data_ = nullptr;
  uint64_t size_ = 0;
};

#ifdef WEFT_CANN
// Bytes of a card's memory that are free now.
Result<uint64_t> free_card_memory(int ordinal);
#endif

class AclDevice {
 public:
  // `kernels`: the file that the kernels were compiled to. The twin has them linked in. Kernels get
  // as much time as the chip can give them.
  static Result<std::unique_ptr<AclDevice>> create(int ordinal, const std::string& kernels);
  ~AclDevice();
  AclDevice(const AclDevice&) = delete;
  AclDevice& operator=(const AclDevice&) = delete;

  // Starts a kernel whose one argument is an address, behind those started before.
  Status launch(const char* kernel, int blocks, uint64_t argument);
  Status launch(const char* kernel, int blocks, std::span<const uint64_t> arguments);
  // Returns when all of them have ended; an error says why one did not.
  Status synchronize();
  // After which the chip ends a kernel.
  Duration time_limit() const { return time_limit_; }
  // After an error: a stream that knows nothing of it. Memory stays.
  Status renew_stream();

 private:
  AclDevice() = default;

  aclrtStream stream_ = nullptr;
  aclrtBinHandle kernels_ = nullptr;
  Duration time_limit_{};
};

}  // namespace weft
