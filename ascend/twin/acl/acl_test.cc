// The host's side: launches by name, a resident kernel that the host talks to, faults passed on
// once.

#include "acl/acl.h"

#include "twin_testing.h"

namespace weft::twin {
namespace {

using namespace AscendC;  // NOLINT: as kernels do

constexpr int64_t kStop = -1;

GlobalTensor<int64_t> word(GM_ADDR memory) {
  GlobalTensor<int64_t> tensor;
  tensor.SetGlobalBuffer(reinterpret_cast<int64_t*>(memory));
  return tensor;
}
void refresh(GlobalTensor<int64_t> line) {
  DataCacheCleanAndInvalid<int64_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(line);
}

}  // namespace

// Answers each number in `request` with its square in `answer`, until it is told to stop.
extern "C" void acl_test_squares(GM_ADDR request, GM_ADDR answer) {
  if ASCEND_IS_AIC
    return;
  if (GetSubBlockIdx() != 0 || GetBlockIdx() != 0) return;
  int64_t last = 0;
  while (last != kStop) {
    auto line = word(request);
    refresh(line);
    const int64_t number = line.GetValue(0);
    if (number == last) continue;
    last = number;
    auto out = word(answer);
    refresh(out);
    out.SetValue(0, number * number);
    refresh(out);
    DataSyncBarrier<MemDsbT::DDR>();
  }
}
WEFT_TWIN_KERNEL(acl_test_squares);

extern "C" void acl_test_fails(GM_ADDR memory) {
  if ASCEND_IS_AIC
    return;
  TPipe pipe;
  TBuf<> buffer;
  pipe.InitBuffer(buffer, 64);
  GlobalTensor<float> values;
  values.SetGlobalBuffer(reinterpret_cast<float*>(memory));
  DataCopy(buffer.Get<float>(), values, 3);
}
WEFT_TWIN_KERNEL(acl_test_fails);

namespace {

class AclTest : public testing::Test {
 protected:
  void SetUp() override {
    aclInit(nullptr);  // or it was before
    set_acl_options(few_cores(4));
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    ASSERT_EQ(aclrtCreateStream(&stream_), ACL_SUCCESS);
    ASSERT_EQ(aclrtBinaryLoadFromFile("/kernels.o", nullptr, &binary_), ACL_SUCCESS);
  }
  void TearDown() override { set_acl_options({}); }

  void* Allocate(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    EXPECT_EQ(aclrtMemset(memory, bytes, 0, bytes), ACL_SUCCESS);
    return memory;
  }
  void Put(void* memory, int64_t value) {
    EXPECT_EQ(aclrtMemcpy(memory, 8, &value, 8, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
  }
  int64_t Get(const void* memory) {
    int64_t value = 0;
    EXPECT_EQ(aclrtMemcpy(&value, 8, memory, 8, ACL_MEMCPY_DEVICE_TO_HOST), ACL_SUCCESS);
    return value;
  }
  void Launch(const char* name, std::vector<void*> arguments) {
    aclrtFuncHandle function = nullptr;
    ASSERT_EQ(aclrtBinaryGetFunction(binary_, name, &function), ACL_SUCCESS);
    ASSERT_EQ(aclrtLaunchKernelWithHostArgs(function, 2, stream_, nullptr,
                                            static_cast<void*>(arguments.data()),
                                            arguments.size() * sizeof(void*), nullptr, 0),
              ACL_SUCCESS);
  }

  aclrtStream stream_ = nullptr;
  aclrtBinHandle binary_ = nullptr;
};

TEST_F(AclTest, AResidentKernelAnswersTheHost) {
  void* request = Allocate(64);
  void* answer = Allocate(64);
  Launch("acl_test_squares", {request, answer});
  for (const int64_t number : {3, 5, 7}) {
    Put(request, number);
    int64_t square = 0;
    for (int i = 0; i < 100 && square != number * number; ++i) square = Get(answer);
    EXPECT_EQ(square, number * number);
  }
  aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
  EXPECT_EQ(aclrtStreamQuery(stream_, &status), ACL_SUCCESS);
  EXPECT_EQ(status, ACL_STREAM_STATUS_NOT_READY);
  Put(request, kStop);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS) << aclGetRecentErrMsg();
  EXPECT_EQ(aclrtStreamQuery(stream_, &status), ACL_SUCCESS);
  EXPECT_EQ(status, ACL_STREAM_STATUS_COMPLETE);
}

TEST_F(AclTest, WaitingForAKernelThatNobodyStopsIsADeadlock) {
  void* request = Allocate(64);
  Launch("acl_test_squares", {request, Allocate(64)});
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_THAT(aclGetRecentErrMsg(), testing::HasSubstr("deadlock"));
}

TEST_F(AclTest, AFaultIsReportedOnceAndTheDeviceGoesOn) {
  void* memory = Allocate(512);
  Put(memory, 42);
  Launch("acl_test_fails", {memory});
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_AICORE_EXCEPTION);
  EXPECT_THAT(aclGetRecentErrMsg(), testing::HasSubstr("use DataCopyPad"));
  EXPECT_STREQ(aclGetRecentErrMsg(), "");
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  EXPECT_EQ(Get(memory), 42);
  void* request = Allocate(64);
  Put(request, kStop);
  Launch("acl_test_squares", {request, memory});
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  EXPECT_EQ(Get(memory), 1);
}

TEST_F(AclTest, CopiesOfAStreamKeepItsOrder) {
  void* request = Allocate(64);
  void* answer = Allocate(64);
  const int64_t stop = kStop, none = 0;
  int64_t first = 0, second = 9;
  EXPECT_EQ(aclrtMemcpyAsync(request, 8, &stop, 8, ACL_MEMCPY_HOST_TO_DEVICE, stream_),
            ACL_SUCCESS);
  Launch("acl_test_squares", {request, answer});
  EXPECT_EQ(aclrtMemcpyAsync(&first, 8, answer, 8, ACL_MEMCPY_DEVICE_TO_HOST, stream_),
            ACL_SUCCESS);
  EXPECT_EQ(aclrtMemcpyAsync(answer, 8, &none, 8, ACL_MEMCPY_HOST_TO_DEVICE, stream_), ACL_SUCCESS);
  EXPECT_EQ(aclrtMemcpyAsync(&second, 8, answer, 8, ACL_MEMCPY_DEVICE_TO_HOST, stream_),
            ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 0);
}

TEST_F(AclTest, HostMemoryThatIsRegistered) {
  alignas(64) static int64_t host[16] = {};
  void* mapped = nullptr;
  EXPECT_NE(aclrtHostRegister(host, 60, ACL_HOST_REGISTER_MAPPED, &mapped), ACL_SUCCESS);
  ASSERT_EQ(aclrtHostRegister(host, 128, ACL_HOST_REGISTER_MAPPED, &mapped), ACL_SUCCESS);
  host[0] = kStop;
  Launch("acl_test_squares", {mapped, static_cast<int64_t*>(mapped) + 8});
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  EXPECT_EQ(host[8], 1);
  EXPECT_EQ(aclrtHostUnregister(host), ACL_SUCCESS);
  EXPECT_NE(aclrtHostUnregister(host), ACL_SUCCESS);
}

TEST_F(AclTest, AKernelHasAsMuchTimeAsTheChipCanGive) {
  constexpr uint64_t kSecond = 1000 * 1000;
  uint64_t actual = 0;
  EXPECT_EQ(aclrtSetOpExecuteTimeOutV2(5 * kSecond, &actual), ACL_SUCCESS);
  EXPECT_EQ(actual, 5 * kSecond);
  EXPECT_EQ(aclrtSetOpExecuteTimeOutV2(0, &actual), ACL_SUCCESS);
  EXPECT_EQ(actual, 1091 * kSecond);
  EXPECT_EQ(aclrtSetOpExecuteTimeOutV2(5000 * kSecond, &actual), ACL_SUCCESS);
  EXPECT_EQ(actual, 1091 * kSecond);
  EXPECT_NE(aclrtSetOpExecuteTimeOutV2(0, nullptr), ACL_SUCCESS);
}

TEST_F(AclTest, WrongCallsAreErrors) {
  void* memory = Allocate(64);
  int64_t value = 0;
  EXPECT_NE(aclrtMemcpy(memory, 4, &value, 8, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
  EXPECT_NE(aclrtMemcpy(memory, 4096, &value, 4096, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
  EXPECT_NE(aclrtMemcpy(&value, 8, &value, 8, ACL_MEMCPY_DEVICE_TO_HOST), ACL_SUCCESS);
  aclrtFuncHandle function = nullptr;
  EXPECT_NE(aclrtBinaryGetFunction(binary_, "no_such_kernel", &function), ACL_SUCCESS);
  EXPECT_THAT(aclGetRecentErrMsg(), testing::HasSubstr("no_such_kernel"));
  aclrtBinHandle binary = nullptr;
  EXPECT_NE(aclrtBinaryLoadFromFile("kernels.o", nullptr, &binary), ACL_SUCCESS);
  EXPECT_THAT(aclGetRecentErrMsg(), testing::HasSubstr("'kernels.o' is no absolute path"));
  aclrtPlaceHolderInfo place{};
  ASSERT_EQ(aclrtBinaryGetFunction(binary_, "acl_test_fails", &function), ACL_SUCCESS);
  EXPECT_NE(aclrtLaunchKernelWithHostArgs(function, 1, stream_, nullptr,
                                          static_cast<void*>(&memory), sizeof memory, &place, 1),
            ACL_SUCCESS);
  EXPECT_EQ(aclrtFree(memory), ACL_SUCCESS);
  EXPECT_NE(aclrtFree(memory), ACL_SUCCESS);
  set_acl_options([] {
    Options options = few_cores();
    options.chip.hbm_bytes = 1 << 20;
    return options;
  }());
  EXPECT_EQ(aclrtMalloc(&memory, 2 << 20, ACL_MEM_MALLOC_HUGE_FIRST),
            ACL_ERROR_RT_MEMORY_ALLOCATION);
}

TEST(Chips, Presets) {
  EXPECT_EQ(find_chip("910B1")->cores, 24);
  EXPECT_EQ(find_chip("910B2")->gigahertz, 1.80);
  EXPECT_EQ(find_chip("910B3")->cores, 20);
  EXPECT_EQ(find_chip("910B4")->hbm_bytes, uint64_t{32} << 30);
  EXPECT_EQ(find_chip("article")->cores, 32);
  EXPECT_FALSE(find_chip("910C"));
}

}  // namespace
}  // namespace weft::twin
