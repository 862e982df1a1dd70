#include "kernels/kernel_table.h"

namespace weft::ref {
namespace {

constexpr int kChains = 8;

// One multiplication and addition at a time, on kChains sums that do not wait for each other.
template <class T>
int64_t peak(int64_t repeats) {
  volatile T factor = 1;
  const T a = factor;
  T sums[kChains] = {};
  for (int64_t i = 0; i < repeats; ++i) {
    for (T& sum : sums) sum += a * sum + a;
  }
  T total = 0;
  for (const T sum : sums) total += sum;
  factor = total;
  return repeats * kChains * 2;
}

int64_t peak_int8(int64_t repeats) { return peak<uint32_t>(repeats); }
int64_t peak_bf16(int64_t /*repeats*/) { return 0; }
int64_t peak_f32(int64_t repeats) { return peak<float>(repeats); }

void read_memory(const std::byte* from, int64_t bytes, int64_t /*ahead*/) {
  uint64_t all = 0;
  const auto* words = reinterpret_cast<const uint64_t*>(from);
  for (int64_t i = 0; i < bytes / 8; ++i) all |= words[i];
  volatile uint64_t sink = all;
  static_cast<void>(sink);
}

}  // namespace

void fill_probes(KernelTable& table) {
  table.peak_int8 = peak_int8;
  table.peak_bf16 = peak_bf16;
  table.peak_f32 = peak_f32;
  table.read_memory = read_memory;
}

}  // namespace weft::ref
