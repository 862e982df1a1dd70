#pragma once
// AscendCL of the twin: the calls that the host side uses, with the runtime's names, over one
// Device. On a machine with CANN the toolkit's header of this name is found instead.
//
// One device stands behind every ordinal. Launches and asynchronous copies of all streams run one
// after the other in the order of the calls. The device goes on only inside these calls: a copy
// from the device and aclrtStreamQuery first let it run for a bounded number of instructions,
// aclrtSynchronizeStream to the end. A fault is reported once, by the next of the three, with its
// text in aclGetRecentErrMsg; what was launched is dropped and memory stays as it is. Values of
// enumerations and errors are those of the runtime's documentation. Safe from several threads.

#include <cstddef>
#include <cstdint>

using aclError = int;
using aclrtStream = void*;
using aclrtBinHandle = void*;
using aclrtFuncHandle = void*;
struct aclrtBinaryLoadOptions;
struct aclrtLaunchKernelCfg;
struct aclrtPlaceHolderInfo {
  uint32_t addrOffset;
  uint32_t dataOffset;
};

inline constexpr aclError ACL_SUCCESS = 0;
inline constexpr aclError ACL_ERROR_INVALID_PARAM = 100000;
inline constexpr aclError ACL_ERROR_UNINITIALIZE = 100001;
inline constexpr aclError ACL_ERROR_REPEAT_INITIALIZE = 100002;
inline constexpr aclError ACL_ERROR_RT_PARAM_INVALID = 107000;
inline constexpr aclError ACL_ERROR_RT_MEMORY_ALLOCATION = 207001;
inline constexpr aclError ACL_ERROR_RT_AICORE_EXCEPTION = 507015;

enum aclrtMemMallocPolicy {
  ACL_MEM_MALLOC_HUGE_FIRST,
  ACL_MEM_MALLOC_HUGE_ONLY,
  ACL_MEM_MALLOC_NORMAL_ONLY,
};
enum aclrtMemcpyKind {
  ACL_MEMCPY_HOST_TO_HOST,
  ACL_MEMCPY_HOST_TO_DEVICE,
  ACL_MEMCPY_DEVICE_TO_HOST,
  ACL_MEMCPY_DEVICE_TO_DEVICE,
};
enum aclrtHostRegisterType { ACL_HOST_REGISTER_MAPPED };
enum aclrtStreamStatus {
  ACL_STREAM_STATUS_COMPLETE = 0,
  ACL_STREAM_STATUS_NOT_READY = 1,
  ACL_STREAM_STATUS_RESERVED = 0xffff,
};

extern "C" {
aclError aclInit(const char* configPath);
// The text of the calling thread's last error; empty after it was read once.
const char* aclGetRecentErrMsg();
aclError aclrtSetDevice(int32_t deviceId);
aclError aclrtCreateStream(aclrtStream* stream);
aclError aclrtDestroyStream(aclrtStream stream);
aclError aclrtSynchronizeStream(aclrtStream stream);
aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status);

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy);
aclError aclrtFree(void* devPtr);
aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count);
aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count,
                     aclrtMemcpyKind kind);
aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count,
                          aclrtMemcpyKind kind, aclrtStream stream);
// Both a multiple of 64 bytes, the line of the scalar cache.
aclError aclrtHostRegister(void* ptr, uint64_t size, aclrtHostRegisterType type, void** devPtr);
aclError aclrtHostUnregister(void* ptr);

// Kernels are those linked into the program (WEFT_TWIN_KERNEL); the path only has to be absolute.
aclError aclrtBinaryLoadFromFile(const char* binPath, aclrtBinaryLoadOptions* options,
                                 aclrtBinHandle* binHandle);
aclError aclrtBinaryUnLoad(aclrtBinHandle binHandle);
aclError aclrtBinaryGetFunction(const aclrtBinHandle binHandle, const char* kernelName,
                                aclrtFuncHandle* funcHandle);
// The arguments are in host memory, and copied before the call returns. The twin refuses a cfg (how
// a kernel is scheduled on a card) and a placeHolderArray (arguments that point at others).
aclError aclrtLaunchKernelWithHostArgs(aclrtFuncHandle funcHandle, uint32_t numBlocks,
                                       aclrtStream stream, aclrtLaunchKernelCfg* cfg,
                                       void* hostArgs, size_t argsSize,
                                       aclrtPlaceHolderInfo* placeHolderArray,
                                       size_t placeHolderNum);
// Microseconds, after which a kernel is ended; 0: as long as can be. The twin has no clock and ends
// none.
aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actualTimeout);
}
