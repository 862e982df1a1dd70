#include "tpipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

namespace weft::twin {
namespace {

using AscendC::HardEvent;
using AscendC::TPosition;

// The events by which a queue at a position hands tensors on, and gets them back.
std::pair<HardEvent, HardEvent> events_of(TPosition position) {
  switch (position) {
    case TPosition::VECIN:
      return {HardEvent::MTE2_V, HardEvent::V_MTE2};
    case TPosition::VECOUT:
      return {HardEvent::V_MTE3, HardEvent::MTE3_V};
    case TPosition::A2:
    case TPosition::B2:
      return {HardEvent::MTE1_M, HardEvent::M_MTE1};
    case TPosition::CO1:
      return {HardEvent::M_FIX, HardEvent::FIX_M};
    default:
      return {HardEvent::MTE2_MTE1, HardEvent::MTE1_MTE2};
  }
}

QueueSlot& slot_of(QueueState& queue, const LocalMemory& memory, const Call& call) {
  check_that(call,
             memory.given && queue.slots > 0 && memory.slot < queue.slots &&
                 memory.address == queue.address + memory.slot * queue.bytes &&
                 memory.position == queue.position,
             "the tensor is not one of this queue's");
  return queue.slot[memory.slot];
}

LocalMemory memory_of(const QueueState& queue, uint8_t slot) {
  const uint32_t address = queue.address + slot * queue.bytes;
  return {address, address + queue.bytes, queue.position, true, slot};
}

}  // namespace

int8_t take_event(const Call& call, HardEvent event) {
  uint8_t& taken = call.core.event_pool()[static_cast<int>(event)];
  for (int8_t id = 0; id < kEventIds; ++id) {
    if ((taken >> id & 1) == 0) {
      taken = static_cast<uint8_t>(taken | 1u << id);
      return id;
    }
  }
  refuse(call, "all 8 event ids of the event are taken");
}

void give_event(SubCore& core, HardEvent event, int8_t id) {
  uint8_t& taken = core.event_pool()[static_cast<int>(event)];
  taken = static_cast<uint8_t>(taken & ~(1u << id));
}

LocalMemory queue_alloc(QueueState& queue, const Where& where) {
  const Call call{here(), "AllocTensor", where};
  check_that(call, queue.slots > 0, "the queue has no memory: call TPipe::InitBuffer");
  for (int i = 0; i < queue.slots; ++i) {
    const auto at = static_cast<uint8_t>((queue.next + i) % queue.slots);
    QueueSlot& slot = queue.slot[at];
    if (slot.state != QueueSlot::State::kFree) continue;
    if (slot.released >= 0) {
      const auto event = static_cast<int>(queue.backward);
      call.core.release_flags()[event] =
          static_cast<uint8_t>(call.core.release_flags()[event] & ~(1u << slot.released));
      call.core.WaitFlag(queue.backward, slot.released, where);
      give_event(call.core, queue.backward, slot.released);
      slot.released = -1;
    }
    slot.state = QueueSlot::State::kTaken;
    queue.next = static_cast<uint8_t>((at + 1) % queue.slots);
    return memory_of(queue, at);
  }
  refuse(call, "no free tensor: FreeTensor comes first, or InitBuffer with a greater number");
}

void queue_enqueue(QueueState& queue, const LocalMemory& memory, const Where& where) {
  const Call call{here(), "EnQue", where};
  QueueSlot& slot = slot_of(queue, memory, call);
  check_that(call, slot.state == QueueSlot::State::kTaken,
             slot.state == QueueSlot::State::kQueued ? "the tensor is in the queue already"
                                                     : "the tensor was not allocated");
  check_that(call, queue.queued < queue.depth,
             "more tensors in the queue than its depth: DeQue comes first");
  slot.ready = take_event(call, queue.forward);
  call.core.SetFlag(queue.forward, slot.ready, where);
  slot.state = QueueSlot::State::kQueued;
  queue.order[(queue.first + queue.queued++) % QueueState::kSlots] = memory.slot;
}

LocalMemory queue_dequeue(QueueState& queue, const Where& where) {
  const Call call{here(), "DeQue", where};
  check_that(call, queue.queued > 0, "nothing is in the queue: EnQue comes first");
  const uint8_t at = queue.order[queue.first];
  queue.first = static_cast<uint8_t>((queue.first + 1) % QueueState::kSlots);
  --queue.queued;
  QueueSlot& slot = queue.slot[at];
  call.core.WaitFlag(queue.forward, slot.ready, where);
  give_event(call.core, queue.forward, slot.ready);
  slot.ready = -1;
  slot.state = QueueSlot::State::kOut;
  return memory_of(queue, at);
}

void queue_free(QueueState& queue, const LocalMemory& memory, const Where& where) {
  const Call call{here(), "FreeTensor", where};
  QueueSlot& slot = slot_of(queue, memory, call);
  check_that(call, slot.state == QueueSlot::State::kOut || slot.state == QueueSlot::State::kTaken,
             slot.state == QueueSlot::State::kFree
                 ? "the tensor is free already"
                 : "the tensor is in the queue: DeQue comes first");
  slot.released = take_event(call, queue.backward);
  call.core.SetFlag(queue.backward, slot.released, where);
  const auto event = static_cast<int>(queue.backward);
  call.core.release_flags()[event] =
      static_cast<uint8_t>(call.core.release_flags()[event] | 1u << slot.released);
  slot.state = QueueSlot::State::kFree;
}

}  // namespace weft::twin

namespace AscendC {

using weft::twin::Buffer;
using weft::twin::Call;

static constexpr int8_t kOwnFlags = 3;  // of M_MTE1, on the cube core

TPipe::TPipe(Where where) {
  weft::twin::check_that({weft::twin::here(), "TPipe", where}, !weft::twin::here().has_pipe,
                         "a kernel has one TPipe at a time");
  auto& core = weft::twin::here();
  core.has_pipe = true;
  if (!core.is_cube()) return;
  // As on the chip: three flags are set as long as the TPipe lives. Reset makes their ids free for
  // queues again without waiting for them, so a queue at A2 or B2 after a Reset is a fault.
  for (int8_t id = 0; id < kOwnFlags; ++id) {
    weft::twin::take_event({core, "TPipe", where}, HardEvent::M_MTE1);
    core.SetFlag(HardEvent::M_MTE1, id, where);
  }
}

TPipe::~TPipe() {
  if (alive_) Destroy();
}

void TPipe::Destroy(Where where) {
  auto& core = weft::twin::here();
  core.Barrier(PIPE_ALL, where);
  Reset(where);
  for (int8_t id = 0; core.is_cube() && id < kOwnFlags; ++id) {
    core.WaitFlag(HardEvent::M_MTE1, id, where);
  }
  core.has_pipe = false;
  alive_ = false;
}

void TPipe::Reset(Where where) {
  auto& core = weft::twin::here();
  for (int i = 0; i < weft::twin::kBuffers; ++i) {
    if (used_[i] > 0) core.ForgetBuffer(static_cast<Buffer>(i), used_[i]);
    used_[i] = 0;
  }
  for (int event = 0; event < weft::twin::kHardEvents; ++event) {
    uint8_t& released = core.release_flags()[event];
    for (int8_t id = 0; id < weft::twin::kEventIds; ++id) {
      if ((released >> id & 1) == 0) continue;
      released = static_cast<uint8_t>(released & ~(1u << id));
      core.WaitFlag(static_cast<HardEvent>(event), id, where);
    }
    core.event_pool()[event] = 0;
  }
}

static std::string over_capacity(const weft::twin::SubCore& core, const char* name, Buffer buffer,
                                 uint64_t bytes, uint64_t used) {
  if (!core.has(buffer)) {
    return fmt::format("{}: {} has no {}", name, core.role_name(), weft::twin::buffer_name(buffer));
  }
  return fmt::format("{}: {} bytes of {}, of which {} are left of {}", name, bytes,
                     weft::twin::buffer_name(buffer), core.capacity(buffer) - used,
                     core.capacity(buffer));
}

uint32_t TPipe::Take(TPosition pos, uint32_t len, const char* name, const Where& where) {
  const Call call{weft::twin::here(), name, where};
  weft::twin::check_that(call, len > 0, "the length is 0");
  const Buffer buffer = weft::twin::buffer_of(pos);
  const uint64_t bytes = (uint64_t{len} + 31) / 32 * 32;
  uint32_t& used = used_[static_cast<int>(buffer)];
  if (used + bytes > call.core.capacity(buffer)) {
    call.core.Fail(where, over_capacity(call.core, name, buffer, bytes, used));
  }
  const uint32_t address = used;
  used += static_cast<uint32_t>(bytes);
  return address;
}

void TPipe::InitQueue(weft::twin::QueueState& queue, TPosition pos, uint8_t num, uint32_t len,
                      const Where& where) {
  const char* name = "TPipe::InitBuffer(TQue)";
  weft::twin::check_range({weft::twin::here(), name, where}, "num", num, 1,
                          weft::twin::QueueState::kSlots);
  queue.position = pos;
  std::tie(queue.forward, queue.backward) = weft::twin::events_of(pos);
  queue.bytes = (len + 31) / 32 * 32;
  queue.slots = num;
  queue.address = Take(pos, len, name, where);
  for (int i = 1; i < num; ++i) Take(pos, len, name, where);
}

}  // namespace AscendC
