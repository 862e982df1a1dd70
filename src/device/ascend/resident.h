#pragma once
// Resident: the resident kernel from the host's side. It is launched once an epoch, takes quanta
// from its rings, and says through flags how far it is.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ascend/kernels/descriptor.h"
#include "base/clock.h"
#include "base/result.h"
#include "device/ascend/acl_device.h"

namespace weft {

struct ResidentOptions {
  std::array<int, weft_ascend::kRings> blocks{};  // cores of each ring; the second may have none
  int boards = 0;
  // An epoch is due to end after so many entries of its rings, or so long: far below the time after
  // which the chip ends a kernel.
  int64_t epoch_quanta = 1 << 20;
  Duration epoch_time = std::chrono::minutes(10);
  // Looks of a program at a flag that another one of the launch will write.
  int64_t spin_cap = 1 << 26;
};

class Resident {
 public:
  static Result<std::unique_ptr<Resident>> create(AclDevice& device, const ResidentOptions& options,
                                                  uint64_t model, uint64_t workspaces);
  ~Resident();
  Resident(const Resident&) = delete;
  Resident& operator=(const Resident&) = delete;

  // How far a ring's blocks are.
  struct Progress {
    int64_t quanta = 0;
    int64_t layers = 0;
  };

  // Whether the epoch that runs is to end as soon as no quantum does.
  bool due(TimePoint now) const;
  // Launches the kernel if none runs, also after an epoch that was due to end; everything is then
  // counted from 0 again. Requires that no quantum runs. `boards`: what each board's flag stands
  // at.
  Status begin(const std::vector<int64_t>& boards, TimePoint now);
  // Hands a quantum to the blocks of a ring, and returns its number among the ring's quanta: done
  // once Progress::quanta is no less. An epoch runs.
  Result<int64_t> publish(int ring, weft_ascend::TeamKind team, uint64_t descriptor);
  // Looks how far the rings are; true: a layer has ended. On the twin, time passes meanwhile. An
  // error: the launch is lost, and fail() ends it.
  Result<bool> look();
  // As last looked.
  const Progress& progress(int ring) const { return progress_[static_cast<size_t>(ring)]; }
  // Cycles of the ring's blocks within operators and at barriers, since last asked.
  struct Cycles {
    int64_t operators = 0;
    int64_t barriers = 0;
  };
  Result<Cycles> spent(int ring);

  // Ends the epoch once the quanta before are done.
  Status end();
  // Ends it at once, whatever state it is in, and looks how far the rings had come; `cause` gets
  // what the programs report.
  void fail(std::string& cause);
  bool running() const { return running_; }

 private:
  Resident(AclDevice& device, const ResidentOptions& options)
      : device_(device), options_(options) {}

  Status make_memory(uint64_t model, uint64_t workspaces);
  int programs() const {
    return (options_.blocks[0] + options_.blocks[1]) * weft_ascend::kPrograms;
  }
  int rings() const { return options_.blocks[1] > 0 ? 2 : 1; }
  Status launch(const std::vector<int64_t>& boards, TimePoint now);
  Status write_entry(int ring, const weft_ascend::RingEntry& entry);
  Result<bool> read_progress();
  Result<std::string> read_reports();

  AclDevice& device_;
  const ResidentOptions options_;
  bool running_ = false;
  TimePoint launched_{};
  int looks_ = 0;
  std::array<int64_t, weft_ascend::kRings> published_{};
  std::array<Progress, weft_ascend::kRings> progress_{};
  std::array<Cycles, weft_ascend::kRings> cycles_{};  // of the epoch, as last asked

  DeviceMemory launch_;
  DeviceMemory heads_;  // a flag for each ring
  DeviceMemory rings_;
  std::array<DeviceMemory, weft_ascend::kTeamKinds> barriers_;
  DeviceMemory decisions_;
  DeviceMemory boards_;
  DeviceMemory progress_flags_;
  DeviceMemory reports_;
  std::vector<weft_ascend::ProgramReport> program_reports_;
};

}  // namespace weft
