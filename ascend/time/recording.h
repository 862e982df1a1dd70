#pragma once
// Recording: what the programs of a launch ask of their pipes, in each program's order. The twin
// makes it; no time is in it but what an instruction costs its pipe.

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "time/chip_model.h"
#include "time/memory_system.h"
#include "twin.h"

namespace weft::timing {

inline constexpr int kProgramsOfCore = 3;
inline constexpr uint32_t kNone = ~uint32_t{0};

struct Record {
  enum class Kind : uint8_t {
    kCompute,  // for `cycles`
    kCopy,     // copies[index], after `cycles`
    kLook,     // looks[index], a copy that is made again until it sees what it waits for
    kSetFlag,
    kWaitFlag,
    kBarrier,   // of one pipe
    kDrain,     // of all
    kCrossSet,  // `event`: the mode
    kCrossWait,
    kScalar,   // `cycles` of the scalar unit
    kMiss,     // it waits for a word from memory
    kAwait,    // and looks again until the line was published: `index`
    kPublish,  // a line written back, by number
    kSync,     // until that is in memory
    kClock,
  };
  Kind kind = Kind::kScalar;
  uint8_t pipe = 0;
  uint8_t event = 0;
  uint8_t id = 0;
  uint32_t index = kNone;
  float cycles = 0;
};

struct Look {
  uint32_t copy = 0;
  std::vector<uint32_t> awaited;  // publications
};

struct Recording {
  std::vector<std::vector<Record>> programs;  // [core * 3 + sub core]
  std::vector<Copy> copies;
  std::vector<Look> looks;
  uint32_t publishes = 0;
  double multiply_adds = 0;
};

// Requires that the device runs with timing_only.
class Recorder final : public twin::Listener {
 public:
  explicit Recorder(const ChipModel& model);
  void OnIssue(const twin::Issued& issued) override;
  Recording Take() { return std::move(recording_); }

 private:
  // Of a program's scalar cache, which has one place for a line: assumed, and fixed.
  static constexpr size_t kCacheLines = 64;
  struct Program {
    std::array<uint64_t, kCacheLines> cached{};  // lines, 0: none
    std::array<bool, kCacheLines> written{};
    std::unordered_map<uint64_t, uint32_t> seen;  // publishes of a line that it knows of
    uint64_t polled = 0;                          // the line of the last record, a load
    bool refreshed = false;                       // after which it was dropped
    // The last copy to UB, while the program has done nothing but read what it brought: the same
    // again is another look.
    uint32_t copy = kNone;               // its record
    std::unordered_set<uint64_t> lines;  // of which it awaits a change
    int again = 0;                       // flags of another look that are still to come
  };

  Record* Add(Record::Kind kind, const twin::Issued& issued, double cycles);
  void AddCopy(const twin::Issued& issued);
  bool LooksAgain(const Program& program, const std::vector<Record>& records,
                  const Copy& copy) const;
  void AwaitChanges(Program& program, Record& record, const Copy& copy);
  void AddSignal(const twin::Issued& issued);
  void AddLoad(const twin::Issued& issued);
  void AddStore(const twin::Issued& issued);
  void AddRefresh(const twin::Issued& issued);
  uint32_t Publication(Program& program, uint64_t line);

  const ChipModel& model_;
  Recording recording_;
  std::vector<Program> programs_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> published_;  // by line
  std::unordered_set<uint64_t> published_pages_;                   // where such lines are
};

}  // namespace weft::timing
