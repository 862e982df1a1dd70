#include "cli/core_groups.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "cli/machine_limits.h"
#include "tensor/buffer.h"

namespace weft {
namespace {

constexpr double kNearly = 0.9;
constexpr size_t kMemory = size_t{128} << 20;
constexpr int kLooks = 2;

}  // namespace

int choose_decode_cores(std::span<const ReadRate> rates, uint64_t weight_bytes, Duration step) {
  WEFT_CHECK(!rates.empty(), "no rates");
  double fastest = 0;
  for (const ReadRate& rate : rates) fastest = std::max(fastest, rate.bytes);
  const double enough =
      std::min(static_cast<double>(weight_bytes) / seconds(step), kNearly * fastest);
  return std::find_if(rates.begin(), rates.end(),
                      [&](const ReadRate& rate) { return rate.bytes >= enough; })
      ->cores;
}

Result<int> measure_decode_cores(const KernelTable& kernels, int threads, uint64_t weight_bytes,
                                 Duration step) {
  WEFT_CHECK(threads >= 2, "{} threads", threads);
  if (threads == 2) return 1;
  WEFT_ASSIGN(Buffer memory, Buffer::allocate(kMemory));
  std::fill_n(memory.data(), memory.size(), std::byte{1});
  std::vector<ReadRate> rates;
  for (int cores = 1; cores < threads; cores *= 2) {
    WEFT_ASSIGN(auto pool, ThreadPool::create(cores));
    LimitProbe probe(kernels, *pool, {memory.data(), memory.size()});
    for (int i = 0; i < kLooks; ++i) probe.look();
    rates.push_back({cores, probe.best().read_bytes});
  }
  return choose_decode_cores(rates, weight_bytes, step);
}

}  // namespace weft
