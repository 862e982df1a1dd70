#include "engine/planner.h"

#include <algorithm>

#include "base/check.h"

namespace weft {
namespace {

// From about here on more rows cost proportionally more time: prompts together gain nothing.
constexpr int kEnoughRows = 64;
// Passes that may open with later prompts while one waits.
constexpr int kMostPassedOver = 8;

// Layers of a pass that fit into a quantum as it opens: the room that streams leave is filled layer
// by layer, and what is less than one is lost.
constexpr int kLeastLayers = 2;

int ceil_div(int a, int b) { return (a + b - 1) / b; }

}  // namespace

bool Planner::idle(Group group) const {
  return group == Group::kAll ? all_idle()
                              : !state_.running[static_cast<size_t>(group)] && !state_.running[0];
}

bool Planner::all_idle() const {
  return std::none_of(std::begin(state_.running), std::end(state_.running),
                      [](bool running) { return running; });
}

bool Planner::has_streams() const {
  return std::any_of(state_.sequences.begin(), state_.sequences.end(),
                     [](const SequenceState& s) { return s.stage == Stage::kDecoding; });
}

bool Planner::has_prompts() const {
  return std::any_of(state_.sequences.begin(), state_.sequences.end(),
                     [](const SequenceState& s) { return s.stage == Stage::kPrefilling; });
}

// --- streams ---

Work Planner::decode_rows() const {
  Work work;
  for (const SequenceState& s : state_.sequences) {
    if (s.stage == Stage::kDecoding) work.add_segment(s.computed, 1);
  }
  work.head_rows = work.rows;
  return work;
}

int Planner::decode_pass() {
  for (size_t i = 0; i < state_.passes.size(); ++i) {
    if (state_.passes[i].kind == PassKind::kDecode) return static_cast<int>(i);
  }
  plan_.decode.clear();
  for (size_t i = 0; i < state_.sequences.size(); ++i) {
    const SequenceState& s = state_.sequences[i];
    if (s.stage == Stage::kDecoding && !s.in_pass) {
      plan_.decode.push_back({static_cast<int>(i), s.computed, 1});
    }
  }
  return plan_.decode.empty() ? kNone : kOpened;
}

Work Planner::decode_work(int pass) const {
  return pass == kOpened ? decode_rows() : state_.passes[static_cast<size_t>(pass)].work;
}

int Planner::decode_layer(int pass) const {
  return pass == kOpened ? 0 : state_.passes[static_cast<size_t>(pass)].next_layer;
}

Duration Planner::decode_step(Group group) const {
  return cost(group, decode_rows(), 0, limits_.layers);
}

Duration Planner::budget(Group group) const {
  Duration rest{};
  for (const PassState& pass : state_.passes) {
    if (pass.kind == PassKind::kDecode) {
      rest = cost(group, pass.work, pass.next_layer, limits_.layers);
    }
  }
  const Duration whole = decode_step(group);
  Duration budget = Duration::max();
  for (const SequenceState& s : state_.sequences) {
    if (s.stage != Stage::kDecoding) continue;
    // Who joined during the open step has its row in the next one.
    budget = std::min(budget, s.slack - (s.in_pass ? rest : rest + whole));
  }
  return budget;
}

// --- costs ---

Duration Planner::cost(Group group, const Work& work, int begin, int end) const {
  return state_.costs->predict(group, work.through(end - begin), end == limits_.layers);
}

int Planner::layers_within(Group group, const Work& work, int begin, Duration limit) const {
  int end = begin + 1;
  while (end < limits_.layers && cost(group, work, begin, end + 1) <= limit) ++end;
  return end - begin;
}

int Planner::rows_within_quantum(Group group, int first, int most) const {
  const auto fits = [&](int rows) {
    Work work;
    work.add_segment(first, rows);
    return state_.costs->predict(group, work.through(1), false) <= state_.quantum / kLeastLayers;
  };
  int low = std::min(most, kEnoughRows);  // fits, or has to do: fewer take hardly less
  int high = most + 1;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

// --- prompts ---

Duration Planner::remaining(const TileRule& rule, int first, int end) const {
  if (first >= end) return {};
  Work work;
  work.add_segment(first, end - first);
  return state_.costs->predict(rule.group, work.through(limits_.layers), false);
}

Planner::Tile Planner::choose_tile(const TileRule& rule) {
  plan_.prefill.clear();
  plan_.opens_follower = false;
  // The smallest key goes first. Whoever was passed over too often goes before everybody.
  const auto key = [&](int sequence, Duration work) {
    const SequenceState& s = at(sequence);
    if (rule.order == Order::kArrival) return Duration(sequence);
    if (s.passed_over >= kMostPassedOver) return Duration::min() + Duration(sequence);
    return work - s.waited;
  };
  Tile best;
  Duration best_key = Duration::max();
  int open = 0;
  for (size_t i = 0; i < state_.passes.size(); ++i) {
    const PassState& pass = state_.passes[i];
    // A pass and its follower have a place together, until both have ended.
    if (pass.kind == PassKind::kPrefill ||
        (pass.kind == PassKind::kFollower && pass.leader == kNone)) {
      ++open;
    }
    if (pass.kind != PassKind::kPrefill) continue;
    if (pass.running_to != kNone) continue;
    const Duration work = cost(rule.group, pass.work, pass.next_layer, limits_.layers) +
                          remaining(rule, pass.end, at(pass.sequence).length);
    if (const Duration k = key(pass.sequence, work); !best.exists() || k < best_key) {
      best = {static_cast<int>(i), pass.work, pass.next_layer};
      best_key = k;
    }
  }
  int opened = kNone;
  for (int i = 0; i < static_cast<int>(state_.sequences.size()); ++i) {
    if (open >= limits_.prefill_passes || !opens(i)) continue;
    const Duration k = key(i, remaining(rule, at(i).computed, at(i).length));
    if ((!best.exists() && opened == kNone) || k < best_key) {
      opened = i;
      best_key = k;
    }
  }
  return opened == kNone ? best : open_tile(opened, rule);
}

bool Planner::opens(int i) const { return at(i).stage == Stage::kPrefilling && !at(i).in_pass; }

Planner::Tile Planner::open_tile(int sequence, const TileRule& rule) {
  const SequenceState& s = at(sequence);
  const int left = s.length - s.computed;
  const auto whole_tiles = [&](int rows) {
    return std::max(1, rows / limits_.tile_rows) * limits_.tile_rows;
  };
  const int most = whole_tiles(rule.quantum ? rows_within_quantum(rule.group, s.computed, rule.rows)
                                            : rule.rows);
  int rows = std::min(left, most);
  if (!rule.fill && rows < left && left < 2 * most) {  // two of one size, no small rest
    rows = whole_tiles(ceil_div(left, 2) + limits_.tile_rows - 1);
  }
  Tile tile;
  tile.pass = kOpened;
  const bool ends = rows == left;
  plan_.opens_follower = rule.follower && ends && rows > 1;
  if (plan_.opens_follower) --rows;
  tile.work.add_segment(s.computed, rows);
  if (ends && !plan_.opens_follower) tile.work.head_rows = 1;
  plan_.prefill.push_back({sequence, s.computed, rows});
  if (ends && !rule.follower) add_companions(sequence, rule, tile);
  return tile;
}

// Prompts that fit in whole beside the first one, in order of arrival; with `fill` the last may be
// cut. Where passes are padded to tiles, only those that need as many tiles.
void Planner::add_companions(int sequence, const TileRule& rule, Tile& tile) {
  const auto tiles = [&](int i) {
    return ceil_div(at(i).length - at(i).computed, limits_.tile_rows);
  };
  const bool padded = limits_.tile_rows > 1;
  const int most = padded || rule.fill ? rule.rows : std::min(rule.rows, kEnoughRows);
  int taken = padded ? tiles(sequence) * limits_.tile_rows : tile.work.rows;
  for (int i = 0; i < static_cast<int>(state_.sequences.size()) && taken < most; ++i) {
    if (i == sequence || !opens(i)) continue;
    const int left = at(i).length - at(i).computed;
    if (padded && tiles(i) != tiles(sequence)) continue;
    const int width = padded ? tiles(i) * limits_.tile_rows : left;
    if (width > most - taken && (padded || !rule.fill)) continue;
    const int rows = std::min(left, most - taken);
    taken += std::min(width, most - taken);
    tile.work.add_segment(at(i).computed, rows);
    if (rows == left) ++tile.work.head_rows;
    plan_.prefill.push_back({i, at(i).computed, rows});
  }
}

// --- quanta ---

void Planner::run_decode(Group group, int pass, int layer_limit) {
  const int begin = decode_layer(pass);
  const int layers = layers_within(group, decode_work(pass), begin, state_.quantum);
  plan_.quanta.push_back({.group = group,
                          .decode = pass,
                          .layer_begin = begin,
                          .layer_end = std::min(begin + layers, layer_limit)});
}

void Planner::run_tile(Group group, const Tile& tile, Duration limit) {
  const int layers =
      layers_within(group, tile.work, tile.next_layer, std::min(limit, state_.quantum));
  plan_.quanta.push_back({.group = group,
                          .prefill = tile.pass,
                          .layer_begin = tile.next_layer,
                          .layer_end = tile.next_layer + layers});
}

void Planner::run_joined(Group group, int pass, const Tile& tile, int layer_end) {
  plan_.quanta.push_back({.group = group,
                          .decode = pass,
                          .prefill = tile.pass,
                          .layer_begin = tile.next_layer,
                          .layer_end = layer_end});
}

bool Planner::run_follower(Group group, bool may_wait) {
  for (size_t i = 0; i < state_.passes.size(); ++i) {
    const PassState& pass = state_.passes[i];
    if (pass.kind != PassKind::kFollower || pass.running_to != kNone) continue;
    int end = limits_.layers;
    if (pass.leader != kNone) {
      const PassState& leader = state_.passes[static_cast<size_t>(pass.leader)];
      end = may_wait && leader.running_to != kNone ? leader.running_to : leader.next_layer;
    }
    if (end <= pass.next_layer) continue;
    plan_.quanta.push_back({.group = group,
                            .follower = static_cast<int>(i),
                            .layer_begin = pass.next_layer,
                            .layer_end = end});
    return true;
  }
  return false;
}

}  // namespace weft
