#include "acl/acl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "twin.h"

namespace weft::twin {
namespace {

// Instructions that the device may carry out each time the host waits for a copy.
constexpr uint64_t kSlice = 20000;
constexpr uint64_t kLine = 64;
// Microseconds: the longest time that the chip gives a kernel.
constexpr uint64_t kMostExecuteTime = uint64_t{1091} * 1000 * 1000;

struct Acl {
  Mutex mutex;
  Options options GUARDED_BY(mutex);
  std::unique_ptr<Device> device GUARDED_BY(mutex);
  bool initialized GUARDED_BY(mutex) = false;
  int handle = 0;  // what streams and binaries point to: there is one of each
};

Acl& acl() {
  static Acl state;
  return state;
}

struct Message {
  std::string fresh, given;
};
Message& message() {
  static thread_local Message text;
  return text;
}

aclError fail(aclError code, std::string text) {
  message().fresh = std::move(text);
  return code;
}

Device& device_of(Acl& state) REQUIRES(state.mutex) {
  if (!state.device) state.device = std::make_unique<Device>(state.options);
  return *state.device;
}

// Passes a fault on, once.
aclError take_fault(Device& device) {
  if (!device.fault()) return ACL_SUCCESS;
  std::string text = device.fault()->text();
  device.Reset();
  return fail(ACL_ERROR_RT_AICORE_EXCEPTION, std::move(text));
}

}  // namespace

void set_acl_options(Options options) {
  Acl& state = acl();
  const MutexLock lock(state.mutex);
  state.options = std::move(options);
  state.device.reset();
}

Device& acl_device() {
  Acl& state = acl();
  const MutexLock lock(state.mutex);
  return device_of(state);
}

}  // namespace weft::twin

using weft::MutexLock;
using weft::twin::acl;
using weft::twin::device_of;
using weft::twin::fail;

extern "C" {

aclError aclInit(const char* /*configPath*/) {
  auto& state = acl();
  const MutexLock lock(state.mutex);
  if (state.initialized) return fail(ACL_ERROR_REPEAT_INITIALIZE, "aclInit was called before");
  state.initialized = true;
  return ACL_SUCCESS;
}

const char* aclGetRecentErrMsg() {
  auto& text = weft::twin::message();
  text.given = std::exchange(text.fresh, {});
  return text.given.c_str();
}

aclError aclrtSetDevice(int32_t deviceId) {
  auto& state = acl();
  const MutexLock lock(state.mutex);
  if (!state.initialized) return fail(ACL_ERROR_UNINITIALIZE, "aclInit was not called");
  if (deviceId < 0) return fail(ACL_ERROR_INVALID_PARAM, fmt::format("no device {}", deviceId));
  device_of(state);
  return ACL_SUCCESS;
}

aclError aclrtCreateStream(aclrtStream* stream) {
  *stream = &acl().handle;
  return ACL_SUCCESS;
}

aclError aclrtDestroyStream(aclrtStream /*stream*/) { return ACL_SUCCESS; }

aclError aclrtSynchronizeStream(aclrtStream /*stream*/) {
  auto& state = acl();
  const MutexLock lock(state.mutex);
  auto& device = device_of(state);
  device.Run();
  return weft::twin::take_fault(device);
}

aclError aclrtStreamQuery(aclrtStream /*stream*/, aclrtStreamStatus* status) {
  auto& state = acl();
  const MutexLock lock(state.mutex);
  auto& device = device_of(state);
  const auto outcome = device.Step(weft::twin::kSlice);
  *status = outcome == weft::twin::Outcome::kEnded ? ACL_STREAM_STATUS_COMPLETE
                                                   : ACL_STREAM_STATUS_NOT_READY;
  return weft::twin::take_fault(device);
}

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy /*policy*/) {
  if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "aclrtMalloc of 0 bytes");
  auto& state = acl();
  const MutexLock lock(state.mutex);
  *devPtr = device_of(state).Allocate(size);
  if (*devPtr != nullptr) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
              fmt::format("the device has no {} bytes of memory left", size));
}

aclError aclrtFree(void* devPtr) {
  auto& state = acl();
  const MutexLock lock(state.mutex);
  if (!device_of(state).TryFree(devPtr)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} is not device memory", devPtr));
  }
  return ACL_SUCCESS;
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  if (count > maxCount) return fail(ACL_ERROR_RT_PARAM_INVALID, "count is beyond maxCount");
  auto& state = acl();
  const MutexLock lock(state.mutex);
  if (!device_of(state).Owns(devPtr, count)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID,
                fmt::format("{} bytes at {} are not device memory", count, devPtr));
  }
  std::memset(devPtr, value, count);
  return ACL_SUCCESS;
}

static aclError check_copy(weft::twin::Device& device, void* dst, size_t destMax, const void* src,
                           size_t count, aclrtMemcpyKind kind) {
  if (count > destMax) {
    return fail(ACL_ERROR_RT_PARAM_INVALID,
                fmt::format("a copy of {} bytes to where there are {}", count, destMax));
  }
  const bool to_device = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
  const bool from_device = kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
  if ((to_device && !device.Owns(dst, count)) || (from_device && !device.Owns(src, count))) {
    return fail(ACL_ERROR_RT_PARAM_INVALID,
                fmt::format("{} bytes at {} are not device memory", count,
                            to_device ? dst : const_cast<void*>(src)));
  }
  return ACL_SUCCESS;
}

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count,
                     aclrtMemcpyKind kind) {
  auto& state = acl();
  const MutexLock lock(state.mutex);
  auto& device = device_of(state);
  if (const aclError code = check_copy(device, dst, destMax, src, count, kind); code != 0) {
    return code;
  }
  aclError code = ACL_SUCCESS;
  if (kind == ACL_MEMCPY_DEVICE_TO_HOST) {
    device.Step(weft::twin::kSlice);
    code = weft::twin::take_fault(device);
  }
  device.Copy(dst, src, count);
  return code;
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count,
                          aclrtMemcpyKind kind, aclrtStream /*stream*/) {
  auto& state = acl();
  const MutexLock lock(state.mutex);
  auto& device = device_of(state);
  if (const aclError code = check_copy(device, dst, destMax, src, count, kind); code != 0) {
    return code;
  }
  device.QueueCopy(dst, src, count);
  return ACL_SUCCESS;
}

aclError aclrtHostRegister(void* ptr, uint64_t size, aclrtHostRegisterType /*type*/,
                           void** devPtr) {
  if (ptr == nullptr || size == 0 || size % weft::twin::kLine != 0 ||
      reinterpret_cast<uintptr_t>(ptr) % weft::twin::kLine != 0) {
    return fail(ACL_ERROR_RT_PARAM_INVALID,
                fmt::format("{} bytes at {} are not whole lines of 64 bytes", size, ptr));
  }
  auto& state = acl();
  const MutexLock lock(state.mutex);
  device_of(state).Register(ptr, size);
  *devPtr = ptr;
  return ACL_SUCCESS;
}

aclError aclrtHostUnregister(void* ptr) {
  auto& state = acl();
  const MutexLock lock(state.mutex);
  if (!device_of(state).TryUnregister(ptr)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, fmt::format("{} was not registered", ptr));
  }
  return ACL_SUCCESS;
}

aclError aclrtBinaryLoadFromFile(const char* binPath, aclrtBinaryLoadOptions* /*options*/,
                                 aclrtBinHandle* binHandle) {
  if (binPath == nullptr || *binPath != '/') {
    return fail(ACL_ERROR_INVALID_PARAM, fmt::format("'{}' is no absolute path of a binary",
                                                     binPath == nullptr ? "" : binPath));
  }
  *binHandle = &acl().handle;
  return ACL_SUCCESS;
}

aclError aclrtBinaryUnLoad(aclrtBinHandle /*binHandle*/) { return ACL_SUCCESS; }

aclError aclrtBinaryGetFunction(const aclrtBinHandle /*binHandle*/, const char* kernelName,
                                aclrtFuncHandle* funcHandle) {
  const weft::twin::Kernel kernel = weft::twin::find_kernel(kernelName);
  if (kernel == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM,
                fmt::format("no kernel named '{}' is linked into this program", kernelName));
  }
  *funcHandle = reinterpret_cast<void*>(kernel);
  return ACL_SUCCESS;
}

aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle funcHandle, uint32_t numBlocks,
                                       aclrtStream /*stream*/, aclrtLaunchKernelCfg* cfg,
                                       void* hostArgs, size_t argsSize,
                                       aclrtPlaceHolderInfo* /*placeHolderArray*/,
                                       size_t placeHolderNum) {
  if (cfg != nullptr || placeHolderNum != 0) {
    return fail(ACL_ERROR_INVALID_PARAM,
                "the twin takes no cfg and no placeHolderArray: nullptr and 0");
  }
  if (funcHandle == nullptr || numBlocks == 0 || numBlocks > 65535) {
    return fail(ACL_ERROR_INVALID_PARAM, fmt::format("a launch of {} blocks", numBlocks));
  }
  auto& state = acl();
  const MutexLock lock(state.mutex);
  device_of(state).Launch(reinterpret_cast<weft::twin::Kernel>(funcHandle),
                          static_cast<int>(numBlocks),
                          {static_cast<const std::byte*>(hostArgs), argsSize});
  return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actualTimeout) {
  constexpr uint64_t kMost = weft::twin::kMostExecuteTime;
  if (actualTimeout == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "nowhere to put the timeout");
  *actualTimeout = timeout == 0 ? kMost : std::min(timeout, kMost);
  return ACL_SUCCESS;
}
}
