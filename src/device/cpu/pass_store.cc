#include "device/cpu/pass_store.h"

#include <cstring>

#include "base/check.h"

namespace weft {

Result<PassStore> PassStore::create(const ExecutorLimits& limits, int hidden) {
  PassStore store;
  store.places_.resize(static_cast<size_t>(limits.passes));
  store.width_ = hidden;
  store.pass_floats_ = int64_t{limits.rows} * hidden;
  WEFT_ASSIGN(
      store.buffer_,
      Buffer::allocate(static_cast<size_t>(limits.passes * store.pass_floats_) * sizeof(float)));
  return store;
}

bool PassStore::stands_at(const Pass& pass, int layer) const {
  const Place& place = places_[static_cast<size_t>(pass.id)];
  return layer == 0 || (place.next_layer == layer && place.rows == pass.rows());
}

void PassStore::leave(const Pass& pass, int next_layer) {
  places_[static_cast<size_t>(pass.id)] = {next_layer, pass.rows()};
}

void PassStore::drop_rows(PassId pass, int64_t first, int64_t count) {
  Place& place = places_[static_cast<size_t>(pass)];
  WEFT_CHECK(first >= 0 && count >= 0 && first + count <= place.rows,
             "rows {} to {} of {} in pass {}", first, first + count, place.rows, pass);
  float* to = rows(pass) + first * width_;
  std::memmove(to, to + count * width_,
               static_cast<size_t>((place.rows - first - count) * width_) * sizeof(float));
  place.rows -= count;
}

}  // namespace weft
