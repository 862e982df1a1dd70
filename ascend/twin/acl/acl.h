#pragma once
#include <cstddef>
#include <cstdint>
using aclError=int; using aclrtStream=void*; using aclrtBinHandle=void*; using aclrtFuncHandle=void*;
struct aclrtBinaryLoadOptions; 
constexpr int ACL_SUCCESS=0, ACL_ERROR_REPEAT_INITIALIZE=100002;
enum aclrtMemMallocPolicy{ACL_MEM_MALLOC_HUGE_FIRST}; enum aclrtMemcpyKind{ACL_MEMCPY_HOST_TO_DEVICE,ACL_MEMCPY_DEVICE_TO_HOST};
extern "C" { aclError aclInit(const char*); const char* aclGetRecentErrMsg(); aclError aclrtSetDevice(int); aclError aclrtCreateStream(aclrtStream*); aclError aclrtDestroyStream(aclrtStream);
aclError aclrtMalloc(void**,size_t,aclrtMemMallocPolicy); aclError aclrtFree(void*); aclError aclrtMemset(void*,size_t,int,size_t); aclError aclrtMemcpy(void*,size_t,const void*,size_t,aclrtMemcpyKind);
aclError aclrtSynchronizeStream(aclrtStream); aclError aclrtBinaryLoadFromFile(const char*,aclrtBinaryLoadOptions*,aclrtBinHandle*); aclError aclrtBinaryUnLoad(aclrtBinHandle);
aclError aclrtBinaryGetFunction(const aclrtBinHandle,const char*,aclrtFuncHandle*); aclError aclrtLaunchKernel(aclrtFuncHandle,uint32_t,const void*,size_t,aclrtStream);}
