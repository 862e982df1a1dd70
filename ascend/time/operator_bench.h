#pragma once
// OperatorBench: kernels on the twin for their time alone. Their tensors are addresses without
// memory behind them; only tables that programs read are real.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "time/recording.h"
#include "time/replay.h"

namespace weft::timing {

class OperatorBench {
 public:
  // The model must outlive the bench.
  explicit OperatorBench(const ChipModel& model);
  ~OperatorBench();
  OperatorBench(const OperatorBench&) = delete;
  OperatorBench& operator=(const OperatorBench&) = delete;

  const ChipModel& model() const { return model_; }

  // Addresses of a tensor, until Clear. What `warm` names L2 holds at the beginning of a run.
  GM_ADDR Tensor(uint64_t bytes, bool warm = false);
  // Memory that programs read, until Clear; zero.
  GM_ADDR Memory(uint64_t bytes);
  template <class T>
  GM_ADDR Table(std::span<const T> values) {
    GM_ADDR table = Memory(values.size_bytes() + 64);
    if (!values.empty()) std::memcpy(table, values.data(), values.size_bytes());
    return table;
  }
  template <class T>
  GM_ADDR Table(const std::vector<T>& values) {
    return Table(std::span<const T>(values));
  }
  void Clear();

  template <auto kFunction, class... T>
  Recording Record(int blocks, T... arguments) {
    Recorder recorder(model_);
    device_->set_listener(&recorder);
    device_->Launch<kFunction>(blocks, arguments...);
    Finish();
    return recorder.Take();
  }
  // From a launch on all blocks, without its own cost, to the end of the last.
  template <auto kFunction, class... T>
  Timing Time(int blocks, T... arguments) {
    return Replay(Record<kFunction>(blocks, arguments...));
  }
  Timing Replay(const Recording& recording);

 private:
  void Finish();

  const ChipModel& model_;
  std::unique_ptr<twin::Device> device_;
  uint64_t used_ = 0;  // of the addresses
  struct Warm {
    uint64_t place;
    uint64_t bytes;
  };
  std::vector<Warm> warm_;
  std::vector<void*> memory_;
  L2Lines l2_;
};

}  // namespace weft::timing
