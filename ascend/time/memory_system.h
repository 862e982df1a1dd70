#pragma once
// What all cores share: L2, by 512-byte lines, and the bandwidth of HBM and of L2.

#include <array>
#include <cstdint>
#include <limits>
#include <queue>
#include <vector>

#include "time/chip_model.h"

namespace weft::timing {

// A copy from or to global memory: `count` pieces of `length` bytes.
struct Copy {
  uint64_t place = 0;  // twin::Issued::place
  uint64_t stride = 0;
  uint32_t count = 0;
  uint32_t length = 0;
  bool write = false;
};

// Which lines L2 holds: sets, of which the line that was used longest ago goes first. Bytes of a
// line and lines of a set are assumed, and fixed.
class L2Lines {
 public:
  static constexpr uint64_t kLine = 512;

  explicit L2Lines(double bytes);
  // Bytes of the copy that L2 does not hold, as whole lines; it does afterwards. Lines that are
  // written are HBM's work too: later, when they leave.
  uint64_t Touch(const Copy& copy);
  void Clear();

 private:
  static constexpr uint32_t kWays = 16;
  struct Line {
    uint32_t number = 0;  // 0: empty
    uint32_t used = 0;
  };
  bool Touch(uint64_t number);

  uint64_t sets_;
  uint32_t uses_ = 0;
  std::vector<Line> lines_;
};

// Copies under way share each resource so that all get the same rate, but for those whose own way
// is narrower.
class Bandwidth {
 public:
  enum Way : uint8_t {
    kCubeHbm,
    kVectorHbm,
    kCubeWriteHbm,
    kVectorWriteHbm,
    kCubeL2,
    kVectorL2,
    kCubeWriteL2,
    kVectorWriteL2,
    kWays,
  };
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  explicit Bandwidth(const ChipModel& model);
  // `now` never goes back.
  void Start(double now, Way way, double bytes, uint32_t copy);
  // When the next copy ends.
  double Next() const { return next_; }
  // That copy.
  uint32_t End();
  double hbm_bytes() const { return hbm_bytes_; }

 private:
  struct Flow {
    double until;  // the way's service at its end
    uint64_t number;
    uint32_t copy;
    bool operator>(const Flow& other) const {
      return until != other.until ? until > other.until : number > other.number;
    }
  };
  struct State {
    double rate = 0;     // of each flow
    double service = 0;  // bytes that a flow got that was there all the time
    std::priority_queue<Flow, std::vector<Flow>, std::greater<>> flows;
  };

  void Advance(double now);
  void Share();
  void ShareOut(int first, int last, double bandwidth);

  std::array<double, kWays> widest_{};
  double hbm_, l2_;
  double now_ = 0;
  double next_ = kNever;
  int next_way_ = 0;
  uint64_t number_ = 0;
  double hbm_bytes_ = 0;
  std::array<State, kWays> ways_;
};

}  // namespace weft::timing
