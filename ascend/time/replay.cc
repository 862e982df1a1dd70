#include "time/replay.h"

#include <algorithm>
#include <cmath>
#include <queue>

#include "base/check.h"
#include "time/instruction_cost.h"

namespace weft::timing {
namespace {

constexpr double kUnknown = -1;

// Times of sets that nobody has waited for yet.
class Times {
 public:
  bool empty() const { return head_ == times_.size(); }
  void push(double time) { times_.push_back(time); }
  double pop() {
    const double time = times_[head_++];
    if (head_ == times_.size()) times_.clear(), head_ = 0;
    return time;
  }

 private:
  std::vector<double> times_;
  size_t head_ = 0;
};

struct Waiting {
  uint32_t record = 0;
  double issued = 0;
};

struct Pipe {
  std::vector<Waiting> queue;  // a ring
  uint32_t head = 0, count = 0;
  double free = 0;   // when it can begin what comes next
  double ended = 0;  // when all that it was given is done
  bool moving = false;
  double began = 0;    // the copy
  double from_l2 = 0;  // bytes that the copy still has to move after those of HBM
  bool missed = false;
  bool again = false;  // a look that has not seen all it waits for
};

struct Program {
  const std::vector<Record>* records = nullptr;
  uint32_t next = 0;
  double now = 0;     // of the scalar unit
  double synced = 0;  // when what it has published is in memory
  std::array<Pipe, twin::kPipes> pipes;
  std::vector<Times> flags;
  std::array<Times, twin::kCrossFlags> cross;                  // sets for this one
  std::array<std::array<Times, 2>, twin::kCrossFlags> halves;  // from each vector core: cube only
  int full = -1;  // the pipe for whose queue the scalar unit waits
  ProgramTimes times;
};

struct Event {
  double time;
  uint64_t number;
  uint32_t program;
  uint8_t pipe;
  bool operator>(const Event& other) const {
    return time != other.time ? time > other.time : number > other.number;
  }
};

class Replayer {
 public:
  Replayer(const ChipModel& model, const Recording& recording, L2Lines& l2)
      : model_(model),
        recording_(recording),
        l2_(l2),
        bandwidth_(model),
        cycle_(1 / model.frequency),
        depth_(static_cast<uint32_t>(model.issue_queue)),
        programs_(recording.programs.size()),
        published_(recording.publishes, kUnknown),
        waiters_(recording.publishes) {
    for (int p = 0; p < twin::kPipes; ++p)
      latency_[p] = latency_cycles(model, static_cast<pipe_t>(p)) * cycle_;
    for (size_t i = 0; i < programs_.size(); ++i) {
      programs_[i].records = &recording.programs[i];
      programs_[i].flags.resize(size_t{twin::kHardEvents} * twin::kEventIds);
      for (Pipe& pipe : programs_[i].pipes) pipe.queue.resize(depth_);
    }
  }

  Timing Run() {
    for (uint32_t i = 0; i < programs_.size(); ++i) wake_.push_back(i);
    AdvanceAll();
    for (;;) {
      const double start = events_.empty() ? Bandwidth::kNever : events_.top().time;
      const double end = bandwidth_.Next();
      if (start == Bandwidth::kNever && end == Bandwidth::kNever) break;
      if (start <= end) {
        const Event event = events_.top();
        events_.pop();
        BeginCopy(event);
      } else {
        EndFlow(end, bandwidth_.End());
      }
      AdvanceAll();
    }
    return Sum();
  }

 private:
  static bool cube(uint32_t program) { return program % kProgramsOfCore == 0; }
  Times& flag(Program& program, const Record& record) {
    return program.flags[size_t{record.event} * twin::kEventIds + record.id];
  }

  void AdvanceAll() {
    while (!wake_.empty()) {
      const uint32_t index = wake_.back();
      wake_.pop_back();
      Advance(index);
    }
  }

  void Advance(uint32_t index) {
    Program& program = programs_[index];
    for (bool again = true; again;) {
      again = RunScalar(index, program);
      for (int pipe = 1; pipe < twin::kPipes; ++pipe) again |= RunPipe(index, program, pipe);
    }
  }

  // True if it has got on.
  bool RunScalar(uint32_t index, Program& program) {
    const uint32_t before = program.next;
    const auto size = static_cast<uint32_t>(program.records->size());
    while (program.next < size && Issue(index, program, (*program.records)[program.next]))
      ++program.next;
    return program.next != before;
  }

  void Works(Program& program, double cycles) {
    program.now += cycles * cycle_;
    program.times.busy[PIPE_S] += cycles * cycle_;
  }

  // False: it has to wait for what is not known yet.
  bool Issue(uint32_t index, Program& program, const Record& record) {
    switch (record.kind) {
      case Record::Kind::kCompute:
      case Record::Kind::kCopy:
      case Record::Kind::kLook:
        return Push(program, record, model_.scalar_issue);
      case Record::Kind::kSetFlag:
        if (record.pipe != PIPE_S) return Push(program, record, model_.scalar_flag);
        Works(program, model_.scalar_flag);
        flag(program, record).push(program.now + model_.flag_cycles * cycle_);
        return true;
      case Record::Kind::kWaitFlag:
        if (record.pipe != PIPE_S) return Push(program, record, model_.scalar_flag);
        if (flag(program, record).empty()) return false;
        program.now = std::max(program.now, flag(program, record).pop());
        return true;
      case Record::Kind::kCrossSet:
      case Record::Kind::kBarrier:
        return Push(program, record, model_.scalar_flag);
      case Record::Kind::kDrain:
        return Drain(program);
      case Record::Kind::kCrossWait:
        return CrossWait(index, program, record.id);
      case Record::Kind::kScalar:
        Works(program, record.cycles);
        return true;
      case Record::Kind::kMiss:
        program.now += model_.scalar_miss;
        return true;
      case Record::Kind::kAwait:
        return Await(index, program, record.index);
      case Record::Kind::kPublish:
        Works(program, record.cycles);
        program.synced = program.now + model_.flag_latency;
        published_[record.index] = program.synced;
        for (const uint32_t waiter : waiters_[record.index]) wake_.push_back(waiter);
        return true;
      case Record::Kind::kSync:
        program.now = std::max(program.now, program.synced);
        return true;
      case Record::Kind::kClock:
        program.times.clocks.push_back(program.now);
        return true;
    }
    return true;
  }

  bool Push(Program& program, const Record& record, double cycles) {
    Pipe& pipe = program.pipes[record.pipe];
    if (pipe.count == depth_) {
      program.full = record.pipe;
      return false;
    }
    Works(program, cycles);
    pipe.queue[(pipe.head + pipe.count++) % depth_] = {program.next, program.now};
    return true;
  }

  bool Drain(Program& program) {
    double ended = program.now;
    for (const Pipe& pipe : program.pipes) {
      if (pipe.count > 0) return false;
      ended = std::max(ended, pipe.ended);
    }
    program.now = ended + model_.scalar_flag * cycle_;
    return true;
  }

  bool CrossWait(uint32_t index, Program& program, int id) {
    if (!cube(index)) {
      if (program.cross[id].empty()) return false;
      program.now = std::max(program.now, program.cross[id].pop());
      return true;
    }
    auto& [first, second] = program.halves[id];
    if (first.empty() || second.empty()) return false;
    program.now = std::max({program.now, first.pop(), second.pop()});
    return true;
  }

  // Looks at the line again and again; a look sees what is there when it has come halfway.
  bool Await(uint32_t index, Program& program, uint32_t publication) {
    const double there = published_[publication];
    if (there == kUnknown) {
      auto& waiters = waiters_[publication];
      if (std::find(waiters.begin(), waiters.end(), index) == waiters.end())
        waiters.push_back(index);
      return false;
    }
    const double look = model_.scalar_miss + model_.scalar_refresh * cycle_;
    const double late = there - model_.scalar_miss / 2 - program.now;
    if (late > 0) program.now += look > 0 ? std::ceil(late / look) * look : late;
    program.now += model_.scalar_miss;
    return true;
  }

  bool RunPipe(uint32_t index, Program& program, int number) {
    Pipe& pipe = program.pipes[number];
    bool any = false;
    while (pipe.count > 0 && !pipe.moving) {
      const Waiting& waiting = pipe.queue[pipe.head];
      const Record& record = (*program.records)[waiting.record];
      const double begin = std::max(pipe.free, waiting.issued);
      switch (record.kind) {
        case Record::Kind::kCompute:
          pipe.free = begin + record.cycles * cycle_;
          pipe.ended = std::max(pipe.ended, pipe.free + latency_[number]);
          program.times.busy[number] += pipe.free - begin;
          break;
        case Record::Kind::kCopy:
        case Record::Kind::kLook:
          pipe.moving = true;
          pipe.began = begin;
          ++busy_copies_;
          events_.push({begin + record.cycles * cycle_, events_pushed_++, index,
                        static_cast<uint8_t>(number)});
          return any;
        case Record::Kind::kSetFlag:
          flag(program, record).push(std::max(begin, pipe.ended) + model_.flag_cycles * cycle_);
          pipe.free = begin;
          break;
        case Record::Kind::kWaitFlag: {
          Times& times = flag(program, record);
          if (times.empty()) return any;
          pipe.free = std::max(begin, times.pop());
          break;
        }
        case Record::Kind::kCrossSet:
          CrossSet(index, record, std::max(begin, pipe.ended) + model_.cross_latency);
          pipe.free = begin;
          break;
        default:  // kBarrier
          pipe.free = std::max(begin, pipe.ended);
          break;
      }
      pipe.ended = std::max(pipe.ended, pipe.free);
      Pop(program, pipe, number, begin);
      any = true;
    }
    return any;
  }

  // The head has begun; whoever waits for room may go on.
  void Pop(Program& program, Pipe& pipe, int number, double time) {
    pipe.head = (pipe.head + 1) % depth_;
    --pipe.count;
    if (program.full != number) return;
    program.full = -1;
    program.now = std::max(program.now, time);
  }

  void CrossSet(uint32_t index, const Record& record, double time) {
    const uint32_t first = index / kProgramsOfCore * kProgramsOfCore;
    WEFT_CHECK(record.event == 2, "mode {} of CrossCoreSetFlag has no model", record.event);
    if (cube(index)) {
      for (uint32_t i = 1; i < kProgramsOfCore; ++i) {
        programs_[first + i].cross[record.id].push(time);
        wake_.push_back(first + i);
      }
    } else {
      programs_[first].halves[record.id][index - first - 1].push(time);
      wake_.push_back(first);
    }
  }

  Bandwidth::Way WayOf(uint32_t program, bool write, bool hbm) const {
    const int way = (write ? 2 : 0) + (cube(program) ? 0 : 1);
    return static_cast<Bandwidth::Way>(way + (hbm ? 0 : Bandwidth::kCubeL2));
  }

  const Record& HeadOf(const Program& program, const Pipe& pipe) const {
    return (*program.records)[pipe.queue[pipe.head].record];
  }
  const Copy& CopyOf(const Record& record) const {
    const bool looks = record.kind == Record::Kind::kLook;
    return recording_.copies[looks ? recording_.looks[record.index].copy : record.index];
  }

  void BeginCopy(const Event& event) {
    Program& program = programs_[event.program];
    Pipe& pipe = program.pipes[event.pipe];
    const Record& record = HeadOf(program, pipe);
    const Copy& copy = CopyOf(record);
    if (record.kind == Record::Kind::kLook) {
      if (!pipe.again) --busy_copies_;
      pipe.again = !Sees(recording_.looks[record.index], event.time);
      if (!pipe.again) ++busy_copies_;
    }
    const double length = std::ceil(copy.length / model_.sector) * model_.sector;
    const double moved = length * copy.count;
    const double hbm = std::min(moved, static_cast<double>(l2_.Touch(copy)));
    pipe.from_l2 = moved - hbm;
    pipe.missed = hbm > 0;
    const uint32_t which = event.program * twin::kPipes + event.pipe;
    if (hbm > 0) {
      bandwidth_.Start(event.time, WayOf(event.program, copy.write, true), hbm, which);
    } else {
      bandwidth_.Start(event.time, WayOf(event.program, copy.write, false), pipe.from_l2, which);
      pipe.from_l2 = 0;
    }
  }

  // Whether a look that begins now finds what it waits for. What is not known yet comes later: all
  // that happens before is simulated before.
  bool Sees(const Look& look, double now) const {
    bool known = true;
    bool there = true;
    for (const uint32_t publication : look.awaited) {
      const double time = published_[publication];
      known &= time != kUnknown;
      there &= time != kUnknown && time <= now;
    }
    WEFT_CHECK(known || busy_copies_ > 0, "the replay stands still: all look at flags");
    return there;
  }

  // When the next look begins after one that has brought its words at `time`: a flag to the scalar
  // unit, which reads one that is not as far as it should be, and a flag back.
  double NextLook(Program& program, const Record& record, double time) {
    const double work = model_.scalar_cached + 3 * model_.scalar_flag + model_.scalar_issue;
    program.times.busy[PIPE_S] += work * cycle_;
    return time + (2 * model_.flag_cycles + work + record.cycles) * cycle_;
  }

  // From -1 to 1, the same for a copy of a program in every replay.
  static double Spread(uint32_t program, uint32_t record) {
    uint64_t x = (uint64_t{program} << 32U | record) * 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 31U)) * 0xbf58476d1ce4e5b9U;
    return static_cast<double>(x >> 11U) * 0x1p-52 - 1;
  }

  void EndFlow(double now, uint32_t which) {
    const uint32_t index = which / twin::kPipes;
    const int number = static_cast<int>(which % twin::kPipes);
    Program& program = programs_[index];
    Pipe& pipe = program.pipes[number];
    const Record& record = HeadOf(program, pipe);
    const Copy& copy = CopyOf(record);
    if (pipe.from_l2 > 0) {
      bandwidth_.Start(now, WayOf(index, copy.write, false), pipe.from_l2, which);
      pipe.from_l2 = 0;
      return;
    }
    // The fixpipe reads L0C at a rate of its own.
    double end = now;
    if (number == PIPE_FIX) {
      const double bytes = static_cast<double>(copy.length) * copy.count;
      end = std::max(end, pipe.began + bytes / model_.per_second(model_.fixpipe_rate));
    }
    const double latency =
        (pipe.missed && !copy.write ? model_.hbm_latency : model_.l2_latency) *
        (1 + model_.latency_spread * Spread(index, pipe.queue[pipe.head].record));
    program.times.busy[number] += end - pipe.began;
    if (pipe.again) {
      const double next = NextLook(program, record, end + latency);
      pipe.began = next;
      events_.push({next, events_pushed_++, index, static_cast<uint8_t>(number)});
      return;
    }
    --busy_copies_;
    pipe.free = end;
    pipe.ended = std::max(pipe.ended, end + latency);
    pipe.moving = false;
    Pop(program, pipe, number, pipe.began);
    wake_.push_back(index);
  }

  Timing Sum() {
    Timing timing;
    for (uint32_t i = 0; i < programs_.size(); ++i) {
      Program& program = programs_[i];
      WEFT_CHECK(program.next == program.records->size(),
                 "the replay stands still: program {} at {} of {} records", i, program.next,
                 program.records->size());
      program.times.end = program.now;
      for (const Pipe& pipe : program.pipes) {
        WEFT_CHECK(pipe.count == 0, "the replay stands still: a pipe of program {}", i);
        program.times.end = std::max(program.times.end, pipe.ended);
      }
      timing.seconds = std::max(timing.seconds, program.times.end);
      timing.programs.push_back(std::move(program.times));
    }
    timing.hbm_bytes = bandwidth_.hbm_bytes();
    timing.multiply_adds = recording_.multiply_adds;
    return timing;
  }

  const ChipModel& model_;
  const Recording& recording_;
  L2Lines& l2_;
  Bandwidth bandwidth_;
  const double cycle_;
  const uint32_t depth_;
  std::array<double, twin::kPipes> latency_{};
  std::vector<Program> programs_;
  std::vector<double> published_;
  std::vector<std::vector<uint32_t>> waiters_;
  std::vector<uint32_t> wake_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t events_pushed_ = 0;
  uint32_t busy_copies_ = 0;  // under way, but for looks that have to be made again
};

}  // namespace

double Timing::busy(pipe_t pipe) const {
  double sum = 0;
  for (const ProgramTimes& program : programs) sum += program.busy[pipe];
  return sum;
}

Timing replay(const ChipModel& model, const Recording& recording, L2Lines& l2) {
  return Replayer(model, recording, l2).Run();
}

Timing replay(const ChipModel& model, const Recording& recording) {
  L2Lines l2(model.l2_bytes);
  return replay(model, recording, l2);
}

}  // namespace weft::timing
