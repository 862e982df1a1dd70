#pragma once
// TPipe gives out the buffers of a core and the event ids of its pipes; TQue passes tensors from
// one pipe to another with the flags this needs; TBuf is memory for one program.

#include <array>
#include <cstdint>

#include "checks.h"
#include "tensor.h"

namespace weft::twin {

// What one tensor of a queue goes through: free, taken, in the queue, taken out.
struct QueueSlot {
  enum class State : uint8_t { kFree, kTaken, kQueued, kOut };
  State state = State::kFree;
  int8_t ready = -1;     // event id set at EnQue
  int8_t released = -1;  // event id set at FreeTensor
};

struct QueueState {
  static constexpr int kSlots = 16;
  AscendC::TPosition position{};
  AscendC::HardEvent forward{}, backward{};
  uint32_t address = 0, bytes = 0;  // of each tensor
  int depth = 1;
  uint8_t slots = 0;
  uint8_t next = 0;               // where the search for a free one begins
  uint8_t first = 0, queued = 0;  // of the ring below
  std::array<uint8_t, kSlots> order{};
  std::array<QueueSlot, kSlots> slot{};
};

int8_t take_event(const Call& call, AscendC::HardEvent event);
void give_event(SubCore& core, AscendC::HardEvent event, int8_t id);
LocalMemory queue_alloc(QueueState& queue, const Where& where);
void queue_enqueue(QueueState& queue, const LocalMemory& memory, const Where& where);
LocalMemory queue_dequeue(QueueState& queue, const Where& where);
void queue_free(QueueState& queue, const LocalMemory& memory, const Where& where);

}  // namespace weft::twin

namespace AscendC {

class TPipe;

template <TPosition pos, int32_t depth, auto mask = 0>
class TQue {
 public:
  static_assert(pos != TPosition::GM && pos != TPosition::VECCALC,
                "a queue is at VECIN, VECOUT, A1, B1, A2, B2, C1, C2 or CO1");
  static_assert(mask == 0, "the twin has plain queues only: no mask, no format");

  template <class T>
  LocalTensor<T> AllocTensor(Where where = Where::current()) {
    LocalTensor<T> tensor;
    tensor.set_memory(weft::twin::queue_alloc(state_, where));
    return tensor;
  }
  template <class T>
  bool EnQue(const LocalTensor<T>& tensor, Where where = Where::current()) {
    weft::twin::queue_enqueue(state_, tensor.memory(), where);
    return true;
  }
  template <class T>
  LocalTensor<T> DeQue(Where where = Where::current()) {
    LocalTensor<T> tensor;
    tensor.set_memory(weft::twin::queue_dequeue(state_, where));
    return tensor;
  }
  template <class T>
  void FreeTensor(LocalTensor<T>& tensor, Where where = Where::current()) {
    weft::twin::queue_free(state_, tensor.memory(), where);
  }

 private:
  friend class TPipe;
  weft::twin::QueueState state_;
};

template <TPosition pos = TPosition::VECCALC>
class TBuf {
 public:
  template <class T>
  LocalTensor<T> Get(Where where = Where::current()) {
    return GetWithOffset<T>(static_cast<uint32_t>(bytes_ / sizeof(T)), 0, where);
  }
  template <class T>
  LocalTensor<T> Get(uint32_t size, Where where = Where::current()) {
    return GetWithOffset<T>(size, 0, where);
  }
  template <class T>
  LocalTensor<T> GetWithOffset(uint32_t size, uint32_t bufOffset, Where where = Where::current()) {
    const weft::twin::Call call{weft::twin::here(), "TBuf::Get", where};
    weft::twin::check_that(call, bytes_ > 0, "the TBuf has no memory: call TPipe::InitBuffer");
    weft::twin::check_that(call, bufOffset % 32 == 0, "the offset is not a multiple of 32 bytes");
    weft::twin::check_range(call, "offset + size in bytes", bufOffset + size * sizeof(T), 0,
                            bytes_);
    LocalTensor<T> tensor;
    tensor.set_memory({address_ + bufOffset,
                       static_cast<uint32_t>(address_ + bufOffset + size * sizeof(T)), pos, true,
                       0});
    return tensor;
  }

 private:
  friend class TPipe;
  uint32_t address_ = 0, bytes_ = 0;
};

// One for a kernel. Operators that follow each other in a kernel call Reset between them; it needs
// all pipes drained, or at least every queue's tensors freed.
class TPipe {
 public:
  explicit TPipe(Where where = Where::current());
  ~TPipe();
  TPipe(const TPipe&) = delete;
  TPipe& operator=(const TPipe&) = delete;

  template <TPosition pos, int32_t depth, auto mask>
  bool InitBuffer(TQue<pos, depth, mask>& que, uint8_t num, uint32_t len,
                  Where where = Where::current()) {
    que.state_ = {};
    que.state_.depth = depth == 0 ? 1 : depth;
    InitQueue(que.state_, pos, num, len, where);
    return true;
  }
  template <TPosition pos>
  bool InitBuffer(TBuf<pos>& buf, uint32_t len, Where where = Where::current()) {
    buf.address_ = Take(pos, len, "TPipe::InitBuffer(TBuf)", where);
    buf.bytes_ = (len + 31) / 32 * 32;
    return true;
  }

  // All buffers are free again and all queues' flags taken back.
  void Reset(Where where = Where::current());
  void Destroy(Where where = Where::current());

 private:
  void InitQueue(weft::twin::QueueState& queue, TPosition pos, uint8_t num, uint32_t len,
                 const Where& where);
  uint32_t Take(TPosition pos, uint32_t len, const char* name, const Where& where);

  std::array<uint32_t, weft::twin::kBuffers> used_{};
  bool alive_ = true;
};

}  // namespace AscendC
