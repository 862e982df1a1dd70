#include "engine/cost_model.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/calibration.h"
#include "engine/fake_executor_test.h"

namespace weft {
namespace {

CostModel::Costs costs_of(double row, double weights, double pair, double key, double head) {
  CostModel::Costs costs;
  for (int i = 0; i < CostModel::kNodes; ++i) {
    costs.rows[static_cast<size_t>(i)] = weights + row * CostModel::node_rows(i);
  }
  costs.pair = pair;
  costs.key = key;
  costs.head = head;
  return costs;
}

Work work_of(int first, int rows, int layers, int head_rows = 0) {
  Work work{.head_rows = head_rows, .layers = layers};
  work.add_segment(first, rows);
  return work;
}

TEST(Work, CountsTheKeysThatRowsLookAt) {
  const Work tile = work_of(10, 3, 1);
  EXPECT_EQ(tile.rows, 3);
  EXPECT_EQ(tile.pairs, 11 + 12 + 13);
  EXPECT_EQ(tile.keys, 0);
  const Work row = work_of(10, 1, 1);
  EXPECT_EQ(row.keys, 11);
  EXPECT_EQ(row.pairs, 0);
}

TEST(CostModel, IsLinearBetweenNodesAndBeyondTheLast) {
  const CostModel model(costs_of(100, 5000, 2, 3, 700));
  const auto ns = [&](const Work& work, bool ends) {
    return model.predict(Group::kAll, work, ends).count();
  };
  for (const int rows : {2, 3, 48, 100, 1000, 5000}) {
    EXPECT_EQ(ns(work_of(0, rows, 1), false), 5000 + 100 * rows + int64_t{rows} * (rows + 1))
        << rows;
  }
  EXPECT_EQ(ns(work_of(9, 1, 4), false), 4 * (5100 + 30));
  EXPECT_EQ(ns(work_of(9, 1, 4, 1), true), 4 * (5100 + 30) + 700);
  EXPECT_EQ(ns(work_of(9, 1, 4, 1), false), 4 * (5100 + 30));
  EXPECT_EQ(ns(Work{}, true), 0);
}

// Starts from costs that are wrong in every part, most of them by more than two times.
TEST(CostModel, LearnsWhatQuantaTake) {
  const CostModel truth(costs_of(13000, 90000, 20, 40, 400000));
  CostModel model(costs_of(30000, 30000, 5, 90, 900000));
  std::mt19937 random(1);
  const auto draw = [&] {
    if (random() % 3 == 0) {
      Work work{.layers = static_cast<int>(1 + random() % 30)};
      for (uint32_t i = random() % 8 + 1; i > 0; --i)
        work.add_segment(static_cast<int>(random() % 3000), 1);
      work.head_rows = work.rows;
      return work;
    }
    return work_of(static_cast<int>(random() % 3000), static_cast<int>(2 + random() % 700),
                   static_cast<int>(1 + random() % 30), 1);
  };
  for (int i = 0; i < 4000; ++i) {
    const Work work = draw();
    const bool ends = random() % 2 == 0;
    const auto noise = 95 + static_cast<int>(random() % 11);
    model.learn(Group::kAll, work, ends, truth.predict(Group::kAll, work, ends) * noise / 100);
  }
  double worst = 0;
  for (int i = 0; i < 200; ++i) {
    const Work work = draw();
    const double ratio = seconds(model.predict(Group::kAll, work, true)) /
                         seconds(truth.predict(Group::kAll, work, true));
    worst = std::max(worst, std::abs(ratio - 1));
  }
  EXPECT_LT(worst, 0.25);
}

TEST(CostModel, OneDisturbedQuantumMovesLittle) {
  CostModel model(costs_of(13000, 90000, 20, 40, 400000));
  const Work work = work_of(100, 300, 4);
  const Duration before = model.predict(Group::kAll, work, false);
  model.learn(Group::kAll, work, false, 100 * before);
  EXPECT_LT(seconds(model.predict(Group::kAll, work, false)), 1.06 * seconds(before));
}

TEST(CostModel, GroupsLearnApart) {
  CostModel model(costs_of(13000, 90000, 20, 40, 400000));
  const Work work = work_of(100, 300, 4);
  const Duration before = model.predict(Group::kAll, work, false);
  for (int i = 0; i < 100; ++i) model.learn(Group::kPrefill, work, false, 2 * before);
  EXPECT_EQ(model.predict(Group::kAll, work, false), before);
  EXPECT_NEAR(seconds(model.predict(Group::kPrefill, work, false)), 2 * seconds(before),
              0.05 * seconds(before));
}

// A device that takes what a model says, found out by asking it.
TEST(Calibration, FindsTheCostsOfEachGroup) {
  const ExecutorLimits limits{
      .slots = 8, .passes = 3, .rows = 1032, .output_rows = 8, .context = 4096, .blocks = 64};
  FakeExecutor device(limits, 1000, true);
  FakeClock clock;
  device.clock = &clock;
  CostModel truth(costs_of(13000, 90000, 20, 40, 400000));
  truth.set(Group::kDecode, costs_of(40000, 120000, 40, 60, 600000));
  device.duration = [&](Group group, const Quantum& quantum) {
    Work work{.layers = quantum.layer_end - quantum.layer_begin};
    for (const Pass* pass : quantum.passes) {
      for (const Segment& s : pass->segments) {
        work.add_segment(s.first_position, s.rows);
        work.head_rows += s.outputs == Outputs::kLast ? 1 : 0;
      }
    }
    return truth.predict(group, work, quantum.layer_end == FakeExecutor::kLayers);
  };
  double done = 0;
  const CostModel found = calibrate(device, [&](double share) {
    EXPECT_GE(share, done);
    done = share;
  });
  EXPECT_LE(done, 1);
  for (const Group group : {Group::kAll, Group::kPrefill, Group::kDecode}) {
    for (const Work& work : {work_of(0, 1, 4, 1), work_of(1500, 1, 4, 1), work_of(0, 100, 3),
                             work_of(500, 700, 2), work_of(2000, 1000, 1)}) {
      const bool ends = work.head_rows > 0;
      EXPECT_NEAR(seconds(found.predict(group, work, ends)),
                  seconds(truth.predict(group, work, ends)),
                  0.05 * seconds(truth.predict(group, work, ends)))
          << static_cast<int>(group) << ": " << work.rows << " rows";
    }
  }
}

TEST(Calibration, ASmallDeviceIsEnough) {
  FakeExecutor device(
      {.slots = 1, .passes = 2, .rows = 3, .output_rows = 1, .context = 20, .blocks = 1});
  calibrate(device);
}

}  // namespace
}  // namespace weft
