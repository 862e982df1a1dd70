#include "race.h"

#include <algorithm>

namespace weft::twin {
namespace {

bool ordered(const Moment& earlier, const Moment& now, const Clock& own, const Knowledge& others) {
  if (earlier.actor == now.actor) {
    return earlier.sequence <= own.ended[earlier.pipe] ||
           (earlier.pipe == now.pipe && earlier.sequence == now.sequence);
  }
  return earlier.sequence <= others.of(earlier.actor).ended[earlier.pipe];
}

}  // namespace

GlobalShadow::Page* GlobalShadow::Find(uint64_t page, bool make) {
  if (last_ != nullptr && last_page_ == page) return last_;
  auto found = pages_.find(page);
  if (found == pages_.end()) {
    if (!make) return nullptr;
    found = pages_.emplace(page, std::make_unique<Page>()).first;
  }
  last_page_ = page;
  return last_ = found->second.get();
}

// Calls visit(cell, first byte, last byte within the cell, address) until it returns false.
template <class Visit>
void GlobalShadow::ForEachCell(const GlobalPieces& pieces, uint64_t place, bool make,
                               const Visit& visit) {
  uint32_t count = pieces.count;
  uint64_t length = pieces.length;
  if (count > 1 && pieces.stride == length) length *= count, count = 1;
  for (uint32_t piece = 0; piece < count; ++piece) {
    const uint64_t start = place + piece * pieces.stride;
    const uint64_t end = start + length;
    for (uint64_t at = start; at < end;) {
      const uint64_t page_end = (at / kPageBytes + 1) * kPageBytes;
      Page* page = Find(at / kPageBytes, make);
      if (page == nullptr) {
        at = page_end;
        continue;
      }
      const uint64_t stop = std::min(end, page_end);
      while (at < stop) {
        const uint64_t cell_end = (at / kCellBytes + 1) * kCellBytes;
        const uint64_t until = std::min(stop, cell_end);
        Cell& cell = page->cells[at % kPageBytes / kCellBytes];
        if (!visit(cell, static_cast<uint8_t>(at % kCellBytes),
                   static_cast<uint8_t>((until - 1) % kCellBytes),
                   static_cast<const uint8_t*>(pieces.start) + (at - place))) {
          return;
        }
        at = until;
      }
    }
  }
}

Race GlobalShadow::Read(const Moment& now, const Clock& own, const Knowledge& others,
                        const GlobalPieces& pieces, uint64_t place) {
  Race race;
  ForEachCell(
      pieces, place, false, [&](Cell& cell, uint8_t first, uint8_t last, const uint8_t* at) {
        if (cell.writer.sequence != 0 && first <= cell.last && last >= cell.first &&
            !ordered(cell.writer, now, own, others)) {
          race = {true, true, cell.writer, at};
          return false;
        }
        for (Moment& reader : cell.readers) {
          if (reader.sequence != 0 && reader.actor == now.actor && reader.pipe == now.pipe) {
            reader.sequence = now.sequence;
            return true;
          }
        }
        cell.readers[cell.next_reader] = now;
        cell.next_reader = static_cast<uint8_t>((cell.next_reader + 1) % kReaders);
        return true;
      });
  return race;
}

Race GlobalShadow::Write(const Moment& now, const Clock& own, const Knowledge& others,
                         const GlobalPieces& pieces, uint64_t place, bool adds) {
  Race race;
  ForEachCell(pieces, place, true, [&](Cell& cell, uint8_t first, uint8_t last, const uint8_t* at) {
    const bool whole = first == 0 && last == kCellBytes - 1;
    if (cell.writer.sequence != 0 && first <= cell.last && last >= cell.first &&
        !(adds && cell.adds) && !ordered(cell.writer, now, own, others)) {
      race = {true, true, cell.writer, at};
      return false;
    }
    for (Moment& reader : cell.readers) {
      // Which bytes of the cell were read is not known: only whole writes are held against readers.
      if (reader.sequence != 0 && whole && !ordered(reader, now, own, others)) {
        race = {true, false, reader, at};
        return false;
      }
      if (whole) reader.sequence = 0;
    }
    cell.writer = now;
    cell.first = first, cell.last = last, cell.adds = adds;
    return true;
  });
  return race;
}

}  // namespace weft::twin
