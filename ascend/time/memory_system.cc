#include "time/memory_system.h"

#include <algorithm>

namespace weft::timing {

L2Lines::L2Lines(double bytes)
    : sets_(std::max<uint64_t>(1, static_cast<uint64_t>(bytes) / kLine / kWays)),
      lines_(sets_ * kWays) {}

void L2Lines::Clear() {
  std::fill(lines_.begin(), lines_.end(), Line{});
  uses_ = 0;
}

// True: L2 held it.
bool L2Lines::Touch(uint64_t number) {
  const auto wanted = static_cast<uint32_t>(number + 1);
  const uint64_t hash = (number * 0x9e3779b97f4a7c15U) >> 32U;
  Line* set = lines_.data() + ((hash * sets_) >> 32U) * kWays;
  ++uses_;
  Line* oldest = set;
  for (Line* line = set; line != set + kWays; ++line) {
    if (line->number == wanted) {
      line->used = uses_;
      return true;
    }
    if (line->used < oldest->used) oldest = line;
  }
  *oldest = {wanted, uses_};
  return false;
}

uint64_t L2Lines::Touch(const Copy& copy) {
  uint64_t missed = 0;
  uint64_t last = ~uint64_t{0};
  for (uint32_t i = 0; i < copy.count; ++i) {
    const uint64_t begin = copy.place + i * copy.stride;
    const uint64_t end = (begin + copy.length - 1) / kLine;
    for (uint64_t number = begin / kLine; number <= end; ++number) {
      if (number == last) continue;
      last = number;
      if (!Touch(number)) ++missed;
    }
  }
  return missed * kLine;
}

Bandwidth::Bandwidth(const ChipModel& model) : hbm_(model.hbm_bandwidth), l2_(model.l2_bandwidth) {
  const double cube_l2 = model.per_second(model.cube_l2_rate);
  const double vector_l2 = model.per_second(model.vector_l2_rate);
  widest_[kCubeL2] = cube_l2;
  widest_[kVectorL2] = vector_l2;
  widest_[kCubeHbm] = std::min(model.cube_hbm_rate, cube_l2);
  widest_[kVectorHbm] = std::min(model.vector_hbm_rate, vector_l2);
  widest_[kCubeWriteL2] = widest_[kCubeWriteHbm] = model.per_second(model.cube_write_rate);
  widest_[kVectorWriteL2] = widest_[kVectorWriteHbm] = model.per_second(model.vector_write_rate);
}

void Bandwidth::Advance(double now) {
  for (State& way : ways_) {
    if (!way.flows.empty()) way.service += way.rate * (now - now_);
  }
  now_ = now;
}

// The rates of ways [first, last) are lowered to one level at which they keep to the bandwidth.
void Bandwidth::ShareOut(int first, int last, double bandwidth) {
  double wanted = 0;
  for (int i = first; i < last; ++i)
    wanted += ways_[i].rate * static_cast<double>(ways_[i].flows.size());
  if (wanted <= bandwidth) return;
  // Those below the level keep what they have; there are few distinct ones.
  double left = bandwidth;
  double flows = 0;
  for (int i = first; i < last; ++i) flows += static_cast<double>(ways_[i].flows.size());
  double level = left / flows;
  std::array<bool, kWays> kept{};
  for (bool again = true; again;) {
    again = false;
    for (int i = first; i < last; ++i) {
      const auto count = static_cast<double>(ways_[i].flows.size());
      if (kept[i] || count == 0 || ways_[i].rate > level) continue;
      kept[i] = true;
      left -= ways_[i].rate * count;
      flows -= count;
      level = flows > 0 ? left / flows : level;
      again = true;
    }
  }
  for (int i = first; i < last; ++i) {
    if (!kept[i]) ways_[i].rate = std::min(ways_[i].rate, level);
  }
}

void Bandwidth::Share() {
  for (int i = 0; i < kWays; ++i) ways_[i].rate = widest_[i];
  ShareOut(kCubeHbm, kCubeL2, hbm_);
  ShareOut(0, kWays, l2_);
  next_ = kNever;
  for (int i = 0; i < kWays; ++i) {
    const State& way = ways_[i];
    if (way.flows.empty()) continue;
    const double end = now_ + std::max(0.0, way.flows.top().until - way.service) / way.rate;
    if (end < next_) next_ = end, next_way_ = i;
  }
}

void Bandwidth::Start(double now, Way way, double bytes, uint32_t copy) {
  Advance(now);
  State& state = ways_[way];
  if (state.flows.empty()) state.service = 0;
  state.flows.push({state.service + bytes, number_++, copy});
  if (way < kCubeL2) hbm_bytes_ += bytes;
  Share();
}

uint32_t Bandwidth::End() {
  Advance(next_);
  State& state = ways_[next_way_];
  const uint32_t copy = state.flows.top().copy;
  state.flows.pop();
  Share();
  return copy;
}

}  // namespace weft::timing
