#include "time/recording.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "time/instruction_cost.h"

namespace weft::timing {
namespace {

constexpr uint64_t kLineBytes = 64;
uint64_t line_of(uint64_t place) { return place / kLineBytes + 1; }  // 0 is none

using Issue = twin::Instruction::Kind;

size_t program_of(const twin::Issued& issued) {
  return static_cast<size_t>(issued.core) * kProgramsOfCore + static_cast<size_t>(issued.sub_core);
}

// Of what only orders pipes, or asks for the time.
Record::Kind signal_of(Issue kind) {
  static const std::map<Issue, Record::Kind> kSignals = {
      {Issue::kSetFlag, Record::Kind::kSetFlag},   {Issue::kWaitFlag, Record::Kind::kWaitFlag},
      {Issue::kCrossSet, Record::Kind::kCrossSet}, {Issue::kCrossWait, Record::Kind::kCrossWait},
      {Issue::kSync, Record::Kind::kSync},         {Issue::kClock, Record::Kind::kClock},
  };
  return kSignals.at(kind);
}

}  // namespace

Recorder::Recorder(const ChipModel& model) : model_(model) {}

Record* Recorder::Add(Record::Kind kind, const twin::Issued& issued, double cycles) {
  const auto index = program_of(issued);
  auto& records = recording_.programs[index];
  programs_[index].polled = 0;
  Record& record = records.emplace_back();
  record.kind = kind;
  record.pipe = issued.pipe, record.event = issued.event, record.id = issued.id;
  record.cycles = static_cast<float>(cycles);
  return &record;
}

void Recorder::OnIssue(const twin::Issued& issued) {
  const auto index = program_of(issued);
  if (index >= programs_.size()) {
    programs_.resize((static_cast<size_t>(issued.core) + 1) * kProgramsOfCore);
    recording_.programs.resize(programs_.size());
  }
  switch (issued.kind) {
    case Issue::kWork:
      recording_.multiply_adds += static_cast<double>(issued.work.multiply_adds);
      if (issued.work.global.start != nullptr) return AddCopy(issued);
      Add(Record::Kind::kCompute, issued, pipe_cycles(model_, issued));
      return;
    case Issue::kBarrier:
      Add(issued.pipe == PIPE_S ? Record::Kind::kDrain : Record::Kind::kBarrier, issued, 0);
      return;
    case Issue::kScalar:
      Add(Record::Kind::kScalar, issued, model_.scalar_cached);
      return;
    case Issue::kLoad:
      return AddLoad(issued);
    case Issue::kStore:
      return AddStore(issued);
    case Issue::kRefresh:
      return AddRefresh(issued);
    default:
      Add(signal_of(issued.kind), issued, 0);
  }
}

void Recorder::AddCopy(const twin::Issued& issued) {
  const twin::GlobalPieces& pieces = issued.work.global;
  Copy copy;
  copy.place = issued.place;
  copy.count = pieces.count, copy.length = pieces.length, copy.stride = pieces.stride;
  if (copy.count > 1 && copy.stride == copy.length) {
    copy.length *= copy.count;
    copy.count = 1;
  }
  copy.write = issued.pipe != PIPE_MTE2;
  double cycles = model_.copy_start + model_.copy_piece * copy.count;
  if (issued.pipe == PIPE_MTE2 && issued.work.m > 0) cycles += model_.gather_row * issued.work.m;
  if (issued.pipe == PIPE_FIX) cycles += model_.fixpipe_start;
  Record* record = Add(Record::Kind::kCopy, issued, cycles);
  record->index = static_cast<uint32_t>(recording_.copies.size());
  recording_.copies.push_back(copy);
}

// The publication that a look at the line waits for. A program that waits wants the next change:
// how late the twin let it look says nothing.
uint32_t Recorder::Publication(Program& program, uint64_t line) {
  const auto found = published_.find(line);
  const auto there = found == published_.end() ? 0 : static_cast<uint32_t>(found->second.size());
  const auto [known, first] = program.seen.try_emplace(line, there);
  if (first) return there == 0 ? kNone : found->second[there - 1];
  if (known->second >= there) return kNone;
  return found->second[known->second++];
}

void Recorder::AddLoad(const twin::Issued& issued) {
  const auto index = program_of(issued);
  Program& program = programs_[index];
  const uint64_t line = line_of(issued.place);
  uint64_t& held = program.cached[line % kCacheLines];
  if (held == line) {
    Add(Record::Kind::kScalar, issued, model_.scalar_cached);
    return;
  }
  held = line;
  program.written[line % kCacheLines] = false;
  const bool again = program.polled == line && program.refreshed;
  if (again) recording_.programs[index].pop_back();  // the refresh; the load becomes this one
  const uint32_t publication = Publication(program, line);
  Record* record = nullptr;
  if (again) {
    record = &recording_.programs[index].back();
  } else {
    record = Add(Record::Kind::kMiss, issued, 0);
  }
  if (publication != kNone) {
    record->kind = Record::Kind::kAwait;
    record->index = publication;
  }
  program.polled = line;
  program.refreshed = false;
}

void Recorder::AddStore(const twin::Issued& issued) {
  const auto index = program_of(issued);
  Program& program = programs_[index];
  const uint64_t line = line_of(issued.place);
  uint64_t& held = program.cached[line % kCacheLines];
  if (held == line) {
    Add(Record::Kind::kScalar, issued, model_.scalar_cached);
  } else {
    Add(Record::Kind::kMiss, issued, 0);
    held = line;
  }
  program.written[line % kCacheLines] = true;
}

void Recorder::AddRefresh(const twin::Issued& issued) {
  const auto index = program_of(issued);
  Program& program = programs_[index];
  const uint64_t line = line_of(issued.place);
  uint64_t& held = program.cached[line % kCacheLines];
  const bool written = held == line && program.written[line % kCacheLines];
  const bool polled = program.polled == line;
  if (held == line) held = 0;
  if (!written) {
    Add(Record::Kind::kScalar, issued, model_.scalar_refresh);
    if (polled) program.polled = line, program.refreshed = true;
    return;
  }
  program.written[line % kCacheLines] = false;
  Record* record = Add(Record::Kind::kPublish, issued, model_.scalar_refresh);
  record->index = recording_.publishes++;
  published_[line].push_back(record->index);
}

}  // namespace weft::timing
