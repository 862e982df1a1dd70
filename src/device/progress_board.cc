#include "device/progress_board.h"

#include <chrono>

#include "base/check.h"

namespace weft {
namespace {

// A layer of a prompt takes longer than any spin should; the wait pays off only near its end.
constexpr Duration kSpin = std::chrono::microseconds(50);

}  // namespace

void ProgressBoard::send(BoardId board, int layer) {
  WEFT_CHECK(recv(board) == layer, "layer {} is sent after {} layers", layer, recv(board));
  line(board).sent.advance();
}

void ProgressBoard::wait(BoardId board, int layer) {
  for (int sent = recv(board); sent <= layer; sent = recv(board)) {
    line(board).sent.wait_past(static_cast<uint32_t>(sent), kSpin);
  }
}

}  // namespace weft
