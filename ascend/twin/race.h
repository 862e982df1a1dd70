#pragma once
// Order between the cores of a launch, and who wrote and read global memory last.
//
// An actor is one sub core's program in one block. What it knows of another actor is a clock: the
// instructions of its pipes that have certainly ended. Knowledge passes with flags: a line that the
// scalar unit writes back carries what its writer knew, and whose scalar unit reads the line, from
// memory or from where a copy has brought it in UB, learns what it carried when it was fetched;
// CrossCoreSetFlag carries it to the other cores of the block. Two copies that touch the same
// bytes, one of them writing, without knowledge of each other are a race, in whatever order they
// happened to run.

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "instruction.h"

namespace weft::twin {

// What one actor knows: a clock for each actor.
class Knowledge {
 public:
  void Start(size_t actors) { clocks_.assign(actors, Clock{}); }
  void Join(const Knowledge& other) {
    if (clocks_.size() < other.clocks_.size()) clocks_.resize(other.clocks_.size());
    for (size_t i = 0; i < other.clocks_.size(); ++i) clocks_[i].Join(other.clocks_[i]);
  }
  Clock& of(size_t actor) { return clocks_[actor]; }
  const Clock& of(size_t actor) const { return clocks_[actor]; }
  size_t size() const { return clocks_.size(); }

 private:
  std::vector<Clock> clocks_;
};

// An instruction of a pipe of an actor.
struct Moment {
  uint16_t actor = 0;
  pipe_t pipe = PIPE_S;
  uint32_t sequence = 0;
};

struct Race {
  bool found = false;
  bool earlier_writes = false;
  Moment earlier;
  const uint8_t* address = nullptr;
};

// The last accesses to global memory by copies, 32 bytes a cell, kept for what was written.
class GlobalShadow {
 public:
  static constexpr size_t kMostActors = 1024;

  void Clear() { pages_.clear(), last_page_ = 0, last_ = nullptr; }

  // An access at `now`, when its actor knows `others` and its pipe `own`. `adds`: an atomic
  // addition, which gets along with other additions.
  // `place`: of the first piece, see Issued.
  Race Read(const Moment& now, const Clock& own, const Knowledge& others,
            const GlobalPieces& pieces, uint64_t place);
  Race Write(const Moment& now, const Clock& own, const Knowledge& others,
             const GlobalPieces& pieces, uint64_t place, bool adds);

 private:
  static constexpr uint64_t kCellBytes = 32, kPageBytes = 4096;
  static constexpr int kReaders = 4;
  struct Cell {
    Moment writer;                // sequence 0: nobody
    uint8_t first = 0, last = 0;  // bytes of the cell that it wrote
    bool adds = false;
    uint8_t next_reader = 0;
    std::array<Moment, kReaders> readers;
  };
  struct Page {
    std::array<Cell, kPageBytes / kCellBytes> cells;
  };

  Page* Find(uint64_t page, bool make);
  template <class Visit>
  void ForEachCell(const GlobalPieces& pieces, uint64_t place, bool make, const Visit& visit);

  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  uint64_t last_page_ = 0;
  Page* last_ = nullptr;
};

// What the lines written by scalar units carry.
class LineRecords {
 public:
  // A write replaces what the line carries: who has looked at it before keeps what it saw.
  struct Record {
    std::shared_ptr<const Knowledge> knowledge;  // null: of the host alone
    std::shared_ptr<const Knowledge> host;       // what the host knew when it wrote the line
    Moment writer;                               // sequence 0: nobody
    uint64_t version = 0;                        // grows with each write
  };
  void Clear() { records_.clear(), pages_.clear(); }
  const Record* Find(const uint8_t* line) const {
    const auto found = records_.find(line);
    return found == records_.end() ? nullptr : &found->second;
  }
  Record& Of(const uint8_t* line) {
    pages_.insert(page_of(line));
    return records_[line];
  }
  bool empty() const { return records_.empty(); }
  // Whether a line of the range may have a record.
  bool Near(const uint8_t* start, uint64_t bytes) const {
    if (records_.empty()) return false;
    for (uintptr_t page = page_of(start); page <= page_of(start + bytes - 1); ++page) {
      if (pages_.contains(page)) return true;
    }
    return false;
  }

 private:
  static uintptr_t page_of(const uint8_t* line) { return reinterpret_cast<uintptr_t>(line) >> 12; }

  std::unordered_map<const uint8_t*, Record> records_;
  std::unordered_set<uintptr_t> pages_;
};

}  // namespace weft::twin
