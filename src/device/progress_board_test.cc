#include "device/progress_board.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace weft {
namespace {

TEST(ProgressBoard, CountsLayersOfEachBoard) {
  ProgressBoard board(2);
  EXPECT_EQ(board.recv(0), 0);
  board.send(0, 0);
  board.send(0, 1);
  board.send(1, 0);
  EXPECT_EQ(board.recv(0), 2);
  EXPECT_EQ(board.recv(1), 1);
  board.wait(0, 1);  // at once
  board.reset(0);
  EXPECT_EQ(board.recv(0), 0);
  EXPECT_EQ(board.recv(1), 1);
  EXPECT_DEATH(board.send(1, 3), "layer 3 is sent after 1 layers");
}

TEST(ProgressBoard, WhoeverReceivesALayerSeesWhatWasStored) {
  constexpr int kLayers = 500;
  ProgressBoard board(1);
  std::vector<int> stored(kLayers);  // plain
  std::vector<std::thread> readers;
  readers.reserve(2);
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      for (int layer = 0; layer < kLayers; ++layer) {
        board.wait(0, layer);
        EXPECT_GT(board.recv(0), layer);
        EXPECT_EQ(stored[static_cast<size_t>(layer)], layer + 1);
      }
    });
  }
  for (int layer = 0; layer < kLayers; ++layer) {
    stored[static_cast<size_t>(layer)] = layer + 1;
    board.send(0, layer);
    // Now and then the readers have time to park.
    if (layer % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace weft
