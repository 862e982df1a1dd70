#include "device/ascend/resident.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "ascend/kernels/flag_layout.h"

namespace weft {

using weft_ascend::GroupProgress;
using weft_ascend::kFlagBytes;
using weft_ascend::kRings;
using weft_ascend::kTeamKinds;
using weft_ascend::Launch;
using weft_ascend::ProgramReport;
using weft_ascend::RingEntry;

namespace {

// A ring holds a quantum at the most, and the end.
constexpr int kRingEntries = 4;
// Looks at the rings' progress between two at the programs' reports.
constexpr int kReportLooks = 32;

const char* place_name(int place) {
  static constexpr const char* kNames[] = {"waiting for a quantum",
                                           "deciding on a quantum",
                                           "moving rows",
                                           "the embedding",
                                           "the attention's norm",
                                           "the QKV multiplication",
                                           "waiting for a layer to be sent",
                                           "storing keys and values",
                                           "keeping output rows",
                                           "attention",
                                           "merging attention",
                                           "the attention's output",
                                           "the feed-forward norm",
                                           "the gate and up multiplication",
                                           "SwiGLU",
                                           "the down multiplication",
                                           "the final norm",
                                           "the head",
                                           "sampling",
                                           "ending a quantum"};
  const auto index = static_cast<size_t>(place);
  return index < std::size(kNames) ? kNames[index] : "an unknown place";
}

const char* fault_name(int code) {
  switch (code) {
    case weft_ascend::kTeamLost:
      return "another program of the team did not arrive within the spin cap";
    case weft_ascend::kSendLost:
      return "a layer was not sent within the spin cap";
    case weft_ascend::kDecisionLost:
      return "nobody said within the spin cap whether the quantum is wanted";
    case weft_ascend::kPeerFailed:
      return "another program has failed";
    case weft_ascend::kBadCommand:
      return "the ring holds no command";
    default:
      return "an unknown fault";
  }
}

}  // namespace

Result<std::unique_ptr<Resident>> Resident::create(AclDevice& device,
                                                   const ResidentOptions& options, uint64_t model,
                                                   uint64_t workspaces) {
  std::unique_ptr<Resident> resident(new Resident(device, options));
  WEFT_RETURN_IF_ERROR(resident->make_memory(model, workspaces));
  return resident;
}

Resident::~Resident() {
  if (running_) (void)end();
}

Status Resident::make_memory(uint64_t model, uint64_t workspaces) {
  const auto make = [](DeviceMemory& memory, int64_t bytes) -> Status {
    WEFT_ASSIGN(memory, DeviceMemory::allocate(static_cast<uint64_t>(bytes), "the pipeline"));
    return {};
  };
  WEFT_RETURN_IF_ERROR(make(launch_, sizeof(Launch)));
  WEFT_RETURN_IF_ERROR(make(heads_, kRings * kFlagBytes));
  WEFT_RETURN_IF_ERROR(make(rings_, int64_t{kRings} * kRingEntries * sizeof(RingEntry)));
  WEFT_RETURN_IF_ERROR(make(decisions_, kTeamKinds * kFlagBytes));
  WEFT_RETURN_IF_ERROR(make(boards_, int64_t{options_.boards} * kFlagBytes));
  WEFT_RETURN_IF_ERROR(make(progress_flags_, kRings * sizeof(GroupProgress)));
  WEFT_RETURN_IF_ERROR(make(reports_, programs() * static_cast<int64_t>(sizeof(ProgramReport))));
  program_reports_.resize(static_cast<size_t>(programs()));

  Launch launch{};
  const std::array<int, kTeamKinds> team_blocks = {options_.blocks[0] + options_.blocks[1],
                                                   options_.blocks[0], options_.blocks[1]};
  for (size_t kind = 0; kind < kTeamKinds; ++kind) {
    if (team_blocks[kind] == 0) continue;
    WEFT_RETURN_IF_ERROR(make(barriers_[kind], weft_ascend::BarrierBytes(team_blocks[kind])));
    launch.barriers[kind] = barriers_[kind].address();
  }
  for (size_t ring = 0; ring < kRings; ++ring) {
    launch.blocks[ring] = options_.blocks[ring];
    launch.ring_heads[ring] = heads_.address() + ring * kFlagBytes;
    launch.rings[ring] = rings_.address() + ring * kRingEntries * sizeof(RingEntry);
  }
  launch.ring_entries = kRingEntries;
  // The host ends epochs; the kernel only sees to it that none is endless.
  launch.epoch_quanta = 2 * options_.epoch_quanta;
  launch.spin_cap = options_.spin_cap;
  launch.model = model;
  launch.workspaces = workspaces;
  launch.decisions = decisions_.address();
  launch.boards = boards_.address();
  launch.progress = progress_flags_.address();
  launch.reports = reports_.address();
  return launch_.write_value(0, launch);
}

bool Resident::due(TimePoint now) const {
  return running_ && (published_[0] + published_[1] >= options_.epoch_quanta ||
                      now - launched_ >= options_.epoch_time);
}

Status Resident::begin(const std::vector<int64_t>& boards, TimePoint now) {
  if (running_) {
    if (!due(now)) return {};
    // Nothing is lost where the chip has ended an idle kernel before.
    if (const Status ended = end(); !ended.ok()) WEFT_RETURN_IF_ERROR(device_.renew_stream());
  }
  return launch(boards, now);
}

// Flags only grow while a kernel runs. Each epoch begins with all of them where they were made, but
// for the boards', which outlive epochs.
Status Resident::launch(const std::vector<int64_t>& boards, TimePoint now) {
  for (DeviceMemory* memory : {&heads_, &rings_, &decisions_, &progress_flags_, &reports_}) {
    WEFT_RETURN_IF_ERROR(memory->clear());
  }
  for (DeviceMemory& barrier : barriers_) WEFT_RETURN_IF_ERROR(barrier.clear());
  for (size_t board = 0; board < boards.size(); ++board) {
    WEFT_RETURN_IF_ERROR(boards_.write_value(board * kFlagBytes, boards[board]));
  }
  published_ = {};
  progress_ = {};
  cycles_ = {};
  WEFT_RETURN_IF_ERROR(
      device_.launch("weft_resident", options_.blocks[0] + options_.blocks[1], launch_.address()));
  running_ = true;
  launched_ = now;
  return {};
}

Status Resident::write_entry(int ring, const RingEntry& entry) {
  const auto index = static_cast<size_t>(ring);
  const int64_t number = published_[index];
  const uint64_t slot =
      static_cast<uint64_t>(ring) * kRingEntries + static_cast<uint64_t>(number) % kRingEntries;
  WEFT_RETURN_IF_ERROR(rings_.write_value(slot * sizeof(RingEntry), entry));
  // Counted before it is seen: after an error nobody knows whether it was.
  ++published_[index];
  return heads_.write_value(index * kFlagBytes, published_[index]);
}

Result<int64_t> Resident::publish(int ring, weft_ascend::TeamKind team, uint64_t descriptor) {
  RingEntry entry{};
  entry.descriptor = descriptor;
  entry.command = weft_ascend::kRunQuantum;
  entry.team = team;
  WEFT_RETURN_IF_ERROR(write_entry(ring, entry));
  return published_[static_cast<size_t>(ring)];
}

// True: a layer has ended.
Result<bool> Resident::read_progress() {
  std::array<GroupProgress, kRings> flags{};
  WEFT_RETURN_IF_ERROR(progress_flags_.read(0, std::as_writable_bytes(std::span(flags))));
  bool layer_ended = false;
  for (size_t ring = 0; ring < kRings; ++ring) {
    layer_ended |= flags[ring].layers != progress_[ring].layers;
    progress_[ring] = {flags[ring].quanta, flags[ring].layers};
  }
  return layer_ended;
}

// The first fault that is no consequence of another; empty if there is none.
Result<std::string> Resident::read_reports() {
  WEFT_RETURN_IF_ERROR(reports_.read(0, std::as_writable_bytes(std::span(program_reports_))));
  std::string text;
  for (size_t i = 0; i < program_reports_.size(); ++i) {
    const ProgramReport& report = program_reports_[i];
    if (report.code == weft_ascend::kNoFault) continue;
    const size_t program = i % weft_ascend::kPrograms;
    const bool first_hand = report.code != weft_ascend::kPeerFailed;
    if (!text.empty() && !first_hand) continue;
    text = fmt::format("block {} {}, in layer {}, {}: {}", i / weft_ascend::kPrograms,
                       program == 0 ? "AIC" : (program == 1 ? "AIV 0" : "AIV 1"), report.layer,
                       place_name(report.place), fault_name(report.code));
    if (first_hand) break;
  }
  return text;
}

Result<bool> Resident::look() {
  WEFT_ASSIGN(const bool layer_ended, read_progress());
  if (++looks_ % kReportLooks == 0) {
    WEFT_ASSIGN(std::string fault, read_reports());
    if (!fault.empty()) return Error{ErrorKind::kIo, std::move(fault)};
  }
  return layer_ended;
}

Result<Resident::Cycles> Resident::spent(int ring) {
  WEFT_RETURN_IF_ERROR(reports_.read(0, std::as_writable_bytes(std::span(program_reports_))));
  const auto index = static_cast<size_t>(ring);
  const int first = ring == 0 ? 0 : options_.blocks[0];
  const int end = first + options_.blocks[index];
  Cycles now;
  for (int i = first * weft_ascend::kPrograms; i < end * weft_ascend::kPrograms; ++i) {
    now.operators += program_reports_[static_cast<size_t>(i)].operator_cycles;
    now.barriers += program_reports_[static_cast<size_t>(i)].barrier_cycles;
  }
  const Cycles before = std::exchange(cycles_[index], now);
  return Cycles{now.operators - before.operators, now.barriers - before.barriers};
}

Status Resident::end() {
  running_ = false;
  RingEntry entry{};
  entry.command = weft_ascend::kEndEpoch;
  for (int ring = 0; ring < rings(); ++ring) WEFT_RETURN_IF_ERROR(write_entry(ring, entry));
  return device_.synchronize();
}

void Resident::fail(std::string& cause) {
  running_ = false;
  // A kernel that still runs leaves its rings at this, and everything else within its spin cap.
  for (int ring = 0; ring < rings(); ++ring) {
    (void)heads_.write_value(static_cast<uint64_t>(ring) * kFlagBytes, weft_ascend::kAborted);
  }
  if (const Status status = device_.synchronize(); !status.ok()) {
    cause = status.error().message;
  }
  (void)device_.renew_stream();
  if (const Result<std::string> fault = read_reports(); fault.ok() && !fault->empty()) {
    cause += cause.empty() ? *fault : fmt::format("; {}", *fault);
  }
  if (!read_progress().ok()) progress_ = {};
}

}  // namespace weft
