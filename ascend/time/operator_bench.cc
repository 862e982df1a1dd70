#include "time/operator_bench.h"

namespace weft::timing {
namespace {

// A range that no program has: nothing behind it is ever read or written.
constexpr uint64_t kBegin = uint64_t{1} << 46;
constexpr uint64_t kBytes = uint64_t{1} << 40;
constexpr uint64_t kAlign = 512;

twin::Options options_of(const ChipModel& model) {
  twin::Options options;
  options.chip = model.chip();
  options.timing_only = true;
  return options;
}

}  // namespace

OperatorBench::OperatorBench(const ChipModel& model)
    : model_(model),
      device_(std::make_unique<twin::Device>(options_of(model))),
      l2_(model.l2_bytes) {
  // The first range that the device knows, so that its places begin at 0.
  device_->Register(reinterpret_cast<void*>(kBegin), kBytes);
}

OperatorBench::~OperatorBench() { Clear(); }

GM_ADDR OperatorBench::Tensor(uint64_t bytes, bool warm) {
  const uint64_t rounded = (bytes + kAlign - 1) / kAlign * kAlign;
  WEFT_CHECK(used_ + rounded <= kBytes, "tensors of more than {} bytes", kBytes);
  if (warm) warm_.push_back({used_, bytes});
  auto* tensor = reinterpret_cast<GM_ADDR>(kBegin + used_);
  used_ += rounded;
  return tensor;
}

GM_ADDR OperatorBench::Memory(uint64_t bytes) {
  void* memory = device_->Allocate(bytes);
  WEFT_CHECK(memory != nullptr, "no memory for a table of {} bytes", bytes);
  std::memset(memory, 0, bytes);
  memory_.push_back(memory);
  return static_cast<GM_ADDR>(memory);
}

void OperatorBench::Clear() {
  for (void* memory : memory_) device_->Free(memory);
  memory_.clear();
  warm_.clear();
  used_ = 0;
}

void OperatorBench::Finish() {
  const twin::Outcome outcome = device_->Run();
  device_->set_listener(nullptr);
  WEFT_CHECK(outcome == twin::Outcome::kEnded, "a kernel has no time: {}",
             device_->fault() ? device_->fault()->text() : "it did not end");
}

Timing OperatorBench::Replay(const Recording& recording) {
  l2_.Clear();
  for (const Warm& warm : warm_) {
    constexpr auto kLine = static_cast<uint32_t>(L2Lines::kLine);
    l2_.Touch({.place = warm.place,
               .stride = kLine,
               .count = static_cast<uint32_t>((warm.bytes + kLine - 1) / kLine),
               .length = kLine,
               .write = false});
  }
  return replay(model_, recording, l2_);
}

}  // namespace weft::timing
