#include "engine/calibration.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/types.h"

namespace weft {
namespace {

constexpr Duration kLongEnough = std::chrono::milliseconds(60);  // beyond, rows cost in proportion
constexpr int kFarPosition = 2048;
constexpr int kTileRows = 64;
constexpr int kStreams = 8;
constexpr int kRounds = 3;

// Runs quanta of one group and times them.
class Probe {
 public:
  Probe(Executor& executor, Group group)
      : executor_(executor),
        group_(group),
        positions_(std::min(executor.limits().context, executor.limits().blocks * kBlockPositions)),
        tokens_(static_cast<size_t>(positions_) + 1, 0),
        blocks_(static_cast<size_t>(executor.limits().blocks)) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
  }

  int positions() const { return positions_; }
  int most_rows() const {
    return std::min(positions_, executor_.limits().rows - executor_.limits().slots);
  }

  // Nanoseconds of the fastest round of `rows` rows of one sequence, from `first` on, through the
  // first layer.
  double layer(int first, int rows) {
    Pass pass;
    pass.segments.push_back(segment(0, first, rows));
    return fastest(pass, 1, positions_ + 1);
  }

  // The same of one row of each of `streams` sequences through all layers, head and sampler.
  double step(int streams) {
    Pass pass;
    for (int i = 0; i < streams; ++i) {
      pass.segments.push_back(segment(i, 0, 1));
      pass.segments.back().row_class = RowClass::kDecode;
      pass.segments.back().outputs = Outputs::kLast;
      pass.segments.back().blocks = std::span(blocks_).subspan(static_cast<size_t>(i));
    }
    return fastest(pass, executor_.layers(), 1);
  }

 private:
  // Each segment is of a slot of its own.
  void open_slots(const Pass& pass, int prompt) {
    SlotInit init;
    init.sampling.temperature = 0;
    init.prompt = std::span(tokens_).first(static_cast<size_t>(prompt));
    for (const Segment& segment : pass.segments) executor_.open_slot(segment.slot, init);
  }

  Segment segment(SlotId slot, int first, int rows) {
    Segment segment;
    segment.slot = slot;
    segment.first_position = first;
    segment.rows = rows;
    segment.row_class = RowClass::kPrefill;
    segment.tokens = std::span(tokens_).first(static_cast<size_t>(rows));
    segment.blocks = blocks_;
    return segment;
  }

  double fastest(const Pass& pass, int layers, int prompt) {
    double best = 0;
    Quantum quantum;
    quantum.passes = {&pass};
    quantum.layer_end = layers;
    for (int round = 0; round < kRounds; ++round) {
      quantum.id = static_cast<uint64_t>(round);
      open_slots(pass, prompt);
      executor_.start(group_, quantum);
      while (!executor_.wait(TimePoint::max(), completion_)) {
      }
      if (layers < executor_.layers()) executor_.drop_pass(pass.id);
      for (const Segment& segment : pass.segments) executor_.close_slot(segment.slot);
      const auto time = static_cast<double>((completion_.end - completion_.start).count());
      if (round == 0 || time < best) best = time;
      if (time > 2 * static_cast<double>(kLongEnough.count())) break;  // noise matters less
    }
    return best;
  }

  Executor& executor_;
  const Group group_;
  const int positions_;
  std::vector<TokenId> tokens_;
  std::vector<BlockId> blocks_;
  Completion completion_;
};

CostModel::Costs measure(Executor& executor, Group group,
                         const std::function<void(double)>& progress) {
  Probe probe(executor, group);
  CostModel::Costs costs;
  int node = 0;
  for (; node < CostModel::kNodes && CostModel::node_rows(node) <= probe.most_rows(); ++node) {
    costs.rows[static_cast<size_t>(node)] = probe.layer(0, CostModel::node_rows(node));
    progress(0.8 * (node + 1) / CostModel::kNodes);
    if (costs.rows[static_cast<size_t>(node)] > static_cast<double>(kLongEnough.count())) {
      ++node;
      break;
    }
  }
  for (; node < CostModel::kNodes; ++node) {
    costs.rows[static_cast<size_t>(node)] = 2 * costs.rows[static_cast<size_t>(node) - 1];
  }
  // The rows above looked at keys as well, few beside the work of a row.
  const int far = std::min(kFarPosition, probe.positions());
  const int rows = std::min({kTileRows, far, probe.most_rows()});
  const auto per = [](double time, double base, double amount) {
    return amount > 0 ? std::max(0.0, time - base) / amount : 0;
  };
  Work tile;
  tile.add_segment(far - rows, rows);
  Work near;
  near.add_segment(0, rows);
  costs.pair = per(probe.layer(far - rows, rows), probe.layer(0, rows),
                   static_cast<double>(tile.pairs - near.pairs));
  costs.key = per(probe.layer(far - 1, 1), costs.rows[0], far - 1);
  for (size_t i = 0; i < costs.rows.size(); ++i) {
    Work alone;
    alone.add_segment(0, CostModel::node_rows(static_cast<int>(i)));
    costs.rows[i] = std::max(0.3 * costs.rows[i],
                             costs.rows[i] - costs.pair * static_cast<double>(alone.pairs) -
                                 costs.key * static_cast<double>(alone.keys));
  }
  progress(0.9);
  const int streams = std::min({kStreams, executor.limits().slots, executor.limits().blocks});
  const double one = probe.step(1) - executor.layers() * costs.rows[0];
  const double all = probe.step(streams) - executor.layers() * costs.rows[3];
  costs.head_row = streams == kStreams ? std::max(0.0, all - one) / (streams - 1) : 0;
  costs.head = std::max(0.0, one - costs.head_row);
  return costs;
}

}  // namespace

CostModel calibrate(Executor& executor, const std::function<void(double)>& progress) {
  int groups = 0;
  for (int g = 0; g < kGroups; ++g) groups += executor.cores(static_cast<Group>(g)) > 0 ? 1 : 0;
  CostModel model;
  int done = 0;
  for (int g = 0; g < kGroups; ++g) {
    const auto group = static_cast<Group>(g);
    if (executor.cores(group) == 0) continue;
    model.set(group, measure(executor, group, [&](double share) {
                if (progress) progress((done + share) / groups);
              }));
    ++done;
  }
  return model;
}

}  // namespace weft
