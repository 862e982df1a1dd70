// What a sub core knows of the others, and accesses to global memory that this does not order.

#include <fmt/format.h>

#include "machine.h"
#include "sub_core.h"

namespace weft::twin {

// A line was read from memory: what its writer knew is known here too.
void SubCore::Learn(const uint8_t* line) {
  if (!races_ || machine_.records.empty()) return;
  const LineRecords::Record* record = machine_.records.Find(line);
  if (record != nullptr) LearnFrom(line, *record);
}

void SubCore::LearnFrom(const uint8_t* line, const LineRecords::Record& record) {
  if (record.version == 0 || (last_line_ == line && last_version_ == record.version)) return;
  last_line_ = line, last_version_ = record.version;
  if (record.knowledge != nullptr) {
    const Knowledge& carried = *record.knowledge;
    for (size_t i = 0; i < carried.size(); ++i) {
      if (carried.of(i).ended[PIPE_S] > known_.of(i).ended[PIPE_S]) learnt_from_[i] = line;
    }
    known_.Join(carried);
  }
  if (record.host != nullptr) known_.Join(*record.host);
  Learnt();
}

void SubCore::LearnFromCross(int id) {
  if (!races_) return;
  for (int role = 0; role < 3; ++role) {
    const int sibling = block_ * 3 + role;
    Clock& known = known_.of(sibling);
    const Clock& clock = cross_clocks_[id][role];
    if (clock.ended[PIPE_S] > known.ended[PIPE_S]) learnt_from_[sibling] = nullptr;
    known.Join(clock);
  }
  if (cross_news_) known_.Join(cross_known_);
  cross_news_ = false;
  Learnt();
}

// Others may also know how far this core has come: what they waited for is over.
void SubCore::Learnt() {
  clocks_[PIPE_S].Join(known_.of(actor()));
  ++known_version_;
}

// A line reaches memory: whoever reads it from now on learns what this core knew.
void SubCore::LeaveRecord(const CacheLineState& line) {
  LineRecords::Record& record = machine_.records.Of(line.address);
  const Moment& last = record.writer;
  if (last.sequence != 0 && last.actor != actor() &&
      (known_.of(last.actor).ended[PIPE_S] < last.sequence ||
       learnt_from_[last.actor] == line.address)) {
    Raise(line.written, UndoMessage(line));
    return;
  }
  auto carried = record.knowledge == nullptr ? std::make_shared<Knowledge>()
                                             : std::make_shared<Knowledge>(*record.knowledge);
  carried->Join(known_);
  carried->of(actor()).Join(line.released);
  record.knowledge = std::move(carried);
  record.writer = {actor(), PIPE_S, line.released.ended[PIPE_S]};
  ++record.version;
}

void SubCore::CheckRaces(const GlobalPieces& pieces) {
  if (!races_) return;
  const pipe_t pipe = issuing_.pipe;
  const Moment now{actor(), pipe, sequence_[pipe]};
  Clock own = clocks_[pipe];
  Race race;
  if (pipe == PIPE_MTE2) {
    race = machine_.shadow.Read(now, own, known_, pieces, place_);
  } else {
    if (pipe == PIPE_FIX) own.ended[PIPE_FIX] = sequence_[PIPE_FIX];  // keeps its own order
    race = machine_.shadow.Write(now, own, known_, pieces, place_, atomic_ != 0);
  }
  if (race.found) [[unlikely]]
    Fail(issuing_.where, DescribeRace(race));
}

std::string SubCore::DescribeRace(const Race& race) const {
  const bool reads = issuing_.pipe == PIPE_MTE2;
  const pipe_t before = race.earlier.pipe;
  const char* verb = race.earlier_writes ? "writes" : "reads";
  if (race.earlier.actor == actor()) {
    const auto event = event_between(before, issuing_.pipe);
    return fmt::format("{} {} global memory at {}, which {} still {}: needs {} between them",
                       issuing_.name, reads ? "reads" : "writes", fmt::ptr(race.address),
                       PastPlace(before, race.earlier.sequence), verb,
                       before == issuing_.pipe
                           ? fmt::format("PipeBarrier<PIPE_{}>()", pipe_name(before))
                           : fmt::format("SetFlag and WaitFlag<HardEvent::{}>", event_name(event)));
  }
  const SubCore* other = machine_.FindActor(race.earlier.actor);
  return fmt::format(
      "{} {} global memory at {}, which {} of block {} {} {} with no flag after it that this core "
      "has "
      "waited for: end it with PipeBarrier<PIPE_ALL>() before the flag is set, and wait for that "
      "flag",
      issuing_.name, reads ? "reads" : "writes", fmt::ptr(race.address),
      other == nullptr ? "an instruction" : other->PastPlace(before, race.earlier.sequence),
      race.earlier.actor / 3, twin::role_name(static_cast<Role>(race.earlier.actor % 3)), verb);
}

}  // namespace weft::twin
