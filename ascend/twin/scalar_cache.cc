#include "scalar_cache.h"

#include <cstring>

namespace weft::twin {

void ScalarCache::Fill(CacheLineState& slot, uint8_t* line) {
  slot.address = line;
  std::memcpy(slot.data.data(), line, kLineBytes);
  slot.fetched = slot.data;
  slot.dirty = 0;
}

void ScalarCache::Clear() {
  for (CacheLineState& line : lines_) line.address = nullptr, line.dirty = 0;
}

}  // namespace weft::twin
