#pragma once
// The device's slots. A lease opens one and closes it when it goes, so that no path of a request
// can leak one.

#include <utility>
#include <vector>

#include "base/check.h"
#include "device/executor.h"

namespace weft {

class SlotLease;

// Engine thread only. The executor must outlive it, and it its leases.
class SlotPool {
 public:
  explicit SlotPool(Executor& executor) : executor_(executor) {
    for (SlotId id = executor.limits().slots - 1; id >= 0; --id) free_.push_back(id);
  }
  int free() const { return static_cast<int>(free_.size()); }

 private:
  friend class SlotLease;
  Executor& executor_;
  std::vector<SlotId> free_;
};

// Move-only.
class SlotLease {
 public:
  // Requires a free slot.
  SlotLease(SlotPool& pool, const SlotInit& init) : pool_(&pool) {
    WEFT_CHECK(!pool.free_.empty(), "no free slot");
    id_ = pool.free_.back();
    pool.free_.pop_back();
    pool.executor_.open_slot(id_, init);
  }
  ~SlotLease() { release(); }
  SlotLease(SlotLease&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), id_(other.id_) {}
  SlotLease& operator=(SlotLease&& other) noexcept {
    if (this != &other) {
      release();
      pool_ = std::exchange(other.pool_, nullptr);
      id_ = other.id_;
    }
    return *this;
  }

  SlotId id() const { return id_; }

 private:
  void release() {
    if (pool_ == nullptr) return;
    pool_->executor_.close_slot(id_);
    pool_->free_.push_back(id_);
    pool_ = nullptr;
  }

  SlotPool* pool_;
  SlotId id_ = -1;
};

}  // namespace weft
