#include "time/recording.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "time/instruction_cost.h"

namespace weft::timing {
namespace {

constexpr uint64_t kLineBytes = 64;
constexpr uint64_t kPageBytes = 4096;
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

// Between a copy and the scalar unit that reads what it brought.
bool orders_looks(const twin::Issued& issued) {
  const auto event = static_cast<AscendC::HardEvent>(issued.event);
  return (issued.kind == Issue::kSetFlag || issued.kind == Issue::kWaitFlag) &&
         (event == AscendC::HardEvent::MTE2_S || event == AscendC::HardEvent::S_MTE2);
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
      programs_[index].copy = kNone;
      Add(Record::Kind::kCompute, issued, pipe_cycles(model_, issued));
      return;
    case Issue::kBarrier:
      programs_[index].copy = kNone;
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
      AddSignal(issued);
  }
}

void Recorder::AddSignal(const twin::Issued& issued) {
  Program& program = programs_[program_of(issued)];
  if (!orders_looks(issued)) {
    program.copy = kNone;
  } else if (program.again > 0) {
    --program.again;
    return;
  }
  Add(signal_of(issued.kind), issued, 0);
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
  const size_t index = program_of(issued);
  Program& program = programs_[index];
  std::vector<Record>& records = recording_.programs[index];
  const bool looks = issued.pipe == PIPE_MTE2 && issued.work.buffer == twin::Buffer::kUb;
  if (looks && LooksAgain(program, records, copy)) {
    AwaitChanges(program, records[program.copy], copy);
    program.again = 2;
    return;
  }
  Record* record = Add(Record::Kind::kCopy, issued, cycles);
  record->index = static_cast<uint32_t>(recording_.copies.size());
  recording_.copies.push_back(copy);
  program.copy = kNone;
  if (!looks) return;
  program.copy = static_cast<uint32_t>(records.size()) - 1;
  program.lines.clear();
  program.again = 0;
  AwaitChanges(program, *record, copy);
}

bool Recorder::LooksAgain(const Program& program, const std::vector<Record>& records,
                          const Copy& copy) const {
  if (program.copy == kNone) return false;
  const Record& record = records[program.copy];
  const Copy& last =
      recording_.copies[record.kind == Record::Kind::kLook ? recording_.looks[record.index].copy
                                                           : record.index];
  return last.place == copy.place && last.count == copy.count && last.length == copy.length &&
         last.stride == copy.stride;
}

// A program that looks at lines wants the next change of each: how often the twin let it look says
// nothing.
void Recorder::AwaitChanges(Program& program, Record& record, const Copy& copy) {
  for (uint32_t piece = 0; piece < copy.count; ++piece) {
    const uint64_t begin = copy.place + piece * copy.stride;
    const uint64_t end = begin + copy.length;
    for (uint64_t page = begin / kPageBytes; page <= (end - 1) / kPageBytes; ++page) {
      if (!published_pages_.contains(page)) continue;
      const uint64_t first = std::max(begin, page * kPageBytes) / kLineBytes * kLineBytes;
      for (uint64_t at = first; at < std::min(end, (page + 1) * kPageBytes); at += kLineBytes) {
        const uint64_t line = line_of(at);
        if (program.lines.contains(line)) continue;
        const uint32_t publication = Publication(program, line);
        if (publication == kNone) continue;
        program.lines.insert(line);
        if (record.kind == Record::Kind::kCopy) {
          recording_.looks.push_back({record.index, {}});
          record.kind = Record::Kind::kLook;
          record.index = static_cast<uint32_t>(recording_.looks.size()) - 1;
        }
        recording_.looks[record.index].awaited.push_back(publication);
      }
    }
  }
}

// The publication that a look at the line waits for. A program that waits wants the next change:
// how late the twin let it look says nothing.
uint32_t Recorder::Publication(Program& program, uint64_t line) {
  const auto found = published_.find(line);
  if (found == published_.end()) return kNone;
  uint32_t& seen = program.seen[line];
  return seen < found->second.size() ? found->second[seen++] : kNone;
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
  program.copy = kNone;
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
  program.copy = kNone;
  Record* record = Add(Record::Kind::kPublish, issued, model_.scalar_refresh);
  record->index = recording_.publishes++;
  published_[line].push_back(record->index);
  published_pages_.insert(issued.place / kPageBytes);
}

}  // namespace weft::timing
