#include "device/ascend/acl_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <vector>

#include "base/check.h"

namespace weft {
namespace {

// An error's one line, with what the runtime knows of it.
Error acl_error(const char* what, aclError code) {
  const char* detail = aclGetRecentErrMsg();
  std::string text = fmt::format("{} failed with AscendCL error {}", what, code);
  if (detail != nullptr && *detail != '\0') text += fmt::format(": {}", detail);
  std::replace(text.begin(), text.end(), '\n', ';');
  return {ErrorKind::kIo, std::move(text)};
}

Status check(const char* what, aclError code) {
  if (code == ACL_SUCCESS) return {};
  return acl_error(what, code);
}

// A process may make several devices one after the other.
Status choose_device(int ordinal) {
  if (const aclError code = aclInit(nullptr);
      code != ACL_SUCCESS && code != ACL_ERROR_REPEAT_INITIALIZE) {
    return acl_error("aclInit", code);
  }
  return check("choosing the device", aclrtSetDevice(ordinal));
}

}  // namespace

Result<DeviceMemory> DeviceMemory::allocate(uint64_t bytes, const char* purpose,
                                            Contents contents) {
  DeviceMemory memory;
  void* data = nullptr;
  if (const aclError code = aclrtMalloc(&data, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
      code != ACL_SUCCESS) {
    return Error{
        ErrorKind::kExhausted,
        fmt::format("the device has no {} bytes for {} (AscendCL error {})", bytes, purpose, code)};
  }
  memory.data_ = data;
  memory.size_ = bytes;
  if (contents == Contents::kZeros) WEFT_RETURN_IF_ERROR(memory.clear());
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) aclrtFree(data_);
}

Status DeviceMemory::write(uint64_t offset, std::span<const std::byte> bytes) {
  WEFT_CHECK(offset + bytes.size() <= size_, "{} bytes at {} of {}", bytes.size(), offset, size_);
  if (bytes.empty()) return {};
  return check("copying to the device",
               aclrtMemcpy(static_cast<std::byte*>(data_) + offset, size_ - offset, bytes.data(),
                           bytes.size(), ACL_MEMCPY_HOST_TO_DEVICE));
}

Status DeviceMemory::read(uint64_t offset, std::span<std::byte> bytes) const {
  WEFT_CHECK(offset + bytes.size() <= size_, "{} bytes at {} of {}", bytes.size(), offset, size_);
  if (bytes.empty()) return {};
  return check("copying from the device", aclrtMemcpy(bytes.data(), bytes.size(),
                                                      static_cast<const std::byte*>(data_) + offset,
                                                      bytes.size(), ACL_MEMCPY_DEVICE_TO_HOST));
}

Status DeviceMemory::clear() {
  if (size_ == 0) return {};
  return check("clearing device memory", aclrtMemset(data_, size_, 0, size_));
}

#ifdef WEFT_CANN
Result<uint64_t> free_card_memory(int ordinal) {
  WEFT_RETURN_IF_ERROR(choose_device(ordinal));
  size_t free = 0;
  size_t total = 0;
  WEFT_RETURN_IF_ERROR(
      check("asking for free memory", aclrtGetMemInfo(ACL_HBM_MEM, &free, &total)));
  return uint64_t{free};
}
#endif

Result<std::unique_ptr<AclDevice>> AclDevice::create(int ordinal, const std::string& kernels) {
  std::unique_ptr<AclDevice> device(new AclDevice());
  WEFT_RETURN_IF_ERROR(choose_device(ordinal));
  uint64_t microseconds = 0;
  WEFT_RETURN_IF_ERROR(
      check("setting the kernels' time limit", aclrtSetOpExecuteTimeOutV2(0, &microseconds)));
  device->time_limit_ = std::chrono::microseconds(microseconds);
  WEFT_RETURN_IF_ERROR(check("making a stream", aclrtCreateStream(&device->stream_)));
  // The runtime takes no relative path.
  const std::string file = std::filesystem::absolute(kernels).string();
  WEFT_RETURN_IF_ERROR(check(fmt::format("loading kernels from '{}'", file).c_str(),
                             aclrtBinaryLoadFromFile(file.c_str(), nullptr, &device->kernels_)));
  return device;
}

AclDevice::~AclDevice() {
  if (kernels_ != nullptr) aclrtBinaryUnLoad(kernels_);
  if (stream_ != nullptr) aclrtDestroyStream(stream_);
}

Status AclDevice::launch(const char* kernel, int blocks, uint64_t argument) {
  return launch(kernel, blocks, std::span(&argument, 1));
}

Status AclDevice::launch(const char* kernel, int blocks, std::span<const uint64_t> arguments) {
  aclrtFuncHandle function = nullptr;
  WEFT_RETURN_IF_ERROR(
      check("finding a kernel", aclrtBinaryGetFunction(kernels_, kernel, &function)));
  return check("launching a kernel",
               aclrtLaunchKernelWithHostArgs(function, static_cast<uint32_t>(blocks), stream_,
                                             nullptr, const_cast<uint64_t*>(arguments.data()),
                                             arguments.size_bytes(), nullptr, 0));
}

Status AclDevice::synchronize() {
  return check("running the kernels", aclrtSynchronizeStream(stream_));
}

Status AclDevice::renew_stream() {
  if (stream_ != nullptr) aclrtDestroyStream(std::exchange(stream_, nullptr));
  return check("making a stream", aclrtCreateStream(&stream_));
}

}  // namespace weft
