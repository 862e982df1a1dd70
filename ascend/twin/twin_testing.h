#pragma once
// What the twin's tests share: a device of few cores, arrays in its memory, kernels that must end
// or must fail at a marked line.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernel_operator.h"
#include "twin.h"

namespace weft::twin {

inline Options few_cores(uint64_t seed = 1, int cores = 2, Order order = Order::kDrawn) {
  Options options;
  options.chip = *find_chip("910B2");
  options.chip.cores = cores;
  options.seed = seed;
  options.order = order;
  options.poll_rounds = 20;
  return options;
}

template <class T>
class Array {
 public:
  Array(Device& device, size_t count) : device_(device), count_(count) {
    data_ = static_cast<T*>(device.Allocate(count * sizeof(T)));
  }
  Array(Device& device, const std::vector<T>& values) : Array(device, values.size()) {
    device.Copy(data_, values.data(), values.size() * sizeof(T));
  }
  ~Array() { device_.Free(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  operator GM_ADDR() const { return reinterpret_cast<GM_ADDR>(data_); }  // NOLINT
  T operator[](size_t i) const { return data_[i]; }
  std::vector<T> values() const { return {data_, data_ + count_}; }
  size_t size() const { return count_; }

 private:
  Device& device_;
  size_t count_;
  T* data_;
};

// Fails unless the launches run to their end.
inline void expect_end(Device& device) {
  const Outcome outcome = device.Run();
  ASSERT_FALSE(device.fault()) << device.fault()->text();
  ASSERT_EQ(outcome, Outcome::kEnded);
}

// Fails unless the launches ended with a fault of this file that says so, at `line` unless it is 0.
inline void check_fault(const Device& device, const std::string& what, int line, const char* file) {
  ASSERT_TRUE(device.fault());
  EXPECT_THAT(device.fault()->what, testing::HasSubstr(what));
  EXPECT_EQ(device.fault()->file, short_path(file)) << device.fault()->text();
  if (line != 0) {
    EXPECT_EQ(device.fault()->line, line) << device.fault()->text();
  }
}
inline void expect_fault(Device& device, const std::string& what, int line, const char* file) {
  ASSERT_EQ(device.Run(), Outcome::kFault);
  check_fault(device, what, line, file);
}

template <class T>
std::vector<T> ramp(size_t count, float first, float step) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = T(first + step * static_cast<float>(i));
  return values;
}

}  // namespace weft::twin
