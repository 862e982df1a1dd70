#pragma once
// GroupRun: a group of cores and the quantum that it runs: its tables in device memory, the rings
// that it is published in, the turns in which its rows take the head, and their outputs.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/ascend/acl_device.h"
#include "device/ascend/ascend_model.h"
#include "device/ascend/ascend_options.h"
#include "device/ascend/quantum_tables.h"
#include "device/ascend/resident.h"
#include "device/ascend/slot_samplers.h"

namespace weft {

// The engine thread's.
class GroupRun {
 public:
  // What all groups run on.
  struct Parts {
    const AscendOptions& options;
    const ModelConfig& config;
    AscendModel& model;
    Resident& resident;
    SlotSamplers& samplers;
  };
  GroupRun(Group group, const ExecutorLimits& limits, const Parts& parts);

  Group group() const { return group_; }
  bool active() const { return state_ != State::kFree; }
  // Prepared, and in no ring yet.
  bool held() const { return state_ == State::kHeld; }
  // On the device now.
  bool live() const { return state_ == State::kLive; }
  const Quantum& quantum() const { return quantum_; }
  TimePoint started() const { return started_; }
  std::span<const int> rings() const { return rings_; }

  // The quantum is the group's from now on, also after an error; its tables go into device memory.
  Status prepare(const Quantum& quantum, std::span<const BoardUse> boards, TimePoint now);
  // Into the rings of the launch that runs.
  Status publish(TimePoint now);
  // Whether a turn of the head is over. Outputs that it has no room for take another one; true:
  // all are there.
  bool reached() const;
  Result<bool> finish_turn();
  // The launch is lost, and with it the quantum, unless its turn was over before.
  void lose(const std::string& cause);
  const std::optional<std::string>& failure() const { return failure_; }
  // Not begun yet, it is skipped.
  void cancel();
  // The group is free again; outputs only of a quantum that has not failed.
  void end(std::vector<OutputRow>& outputs);

 private:
  enum class State : uint8_t {
    kFree,
    kHeld,
    kLive,
    kDone,  // its turn was over before the launch was lost
    kFailed,
  };

  Status enter_rings();
  int workspace() const { return group_ == Group::kDecode ? 1 : 0; }
  Status draw(int first, int count);

  const Group group_;
  const Parts parts_;
  const std::span<const int> rings_;
  const int head_rows_;

  State state_ = State::kFree;
  Quantum quantum_;
  QuantumTables tables_;
  DeviceMemory memory_;                                 // of the tables
  std::array<int64_t, weft_ascend::kRings> numbers_{};  // that the rings gave it
  int turn_ = 0;                                        // of the head
  TimePoint started_{};
  std::optional<std::string> failure_;  // why the launch was lost
  std::vector<OutputRow> outputs_;

  std::vector<float> logits_;
  std::vector<weft_ascend::SampleResult> results_;
};

}  // namespace weft
