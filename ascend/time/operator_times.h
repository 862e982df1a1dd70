#pragma once
// OperatorTimes: what each operator of a layer takes on a team of cores, by its shape. Each shape
// is simulated once, when it is first asked for: the kernel itself, all its cores, between two of
// the team's barriers. Between simulated shapes times are interpolated.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>

#include "time/model_shape.h"
#include "time/operator_bench.h"

namespace weft::timing {

// Of an operator on all cores of its team, with the barrier that ends it.
struct OperatorTime {
  double seconds = 0;
  double work = 0;  // of a core within the operator, on the average
  double hbm_bytes = 0;
  double multiply_adds = 0;
  std::array<double, twin::kPipes> pipes{};  // seconds of all pipes of a kind together

  OperatorTime& operator+=(const OperatorTime& other);
  OperatorTime operator*(double factor) const;
};
inline OperatorTime operator+(OperatorTime a, const OperatorTime& b) { return a += b; }

enum class Matrix : uint8_t { kQkv, kQueries, kKeys, kOut, kGateUp, kDown, kHead };

// One team of one chip and one model.
class OperatorTimes {
 public:
  // The model must outlive this.
  OperatorTimes(const ChipModel& model, const ModelShape& shape, int cores);

  int cores() const { return cores_; }
  const ModelShape& shape() const { return shape_; }
  const ChipModel& model() const { return bench_.model(); }

  OperatorTime Embed(int rows);
  OperatorTime Norm(int rows, bool adds);
  OperatorTime Multiply(Matrix matrix, int rows);
  OperatorTime Store(int rows, bool queries, bool keys);
  OperatorTime CopyRows(int rows);
  // `rows` rows of one sequence, of which `first` come before.
  OperatorTime Prefill(int first, int rows);
  // `rows` rows each of a sequence of `context` positions.
  OperatorTime Decode(int rows, double context);
  OperatorTime SwiGlu(int rows);
  OperatorTime Sample(int rows);
  // A barrier of the team alone.
  OperatorTime Barrier();

  // Exactly this shape, simulated.
  OperatorTime SimulateMultiply(Matrix matrix, int rows);
  OperatorTime SimulatePrefill(int first, int rows);
  OperatorTime SimulateDecode(int rows, int context);

 private:
  enum class Kind : uint8_t {
    kEmbed,
    kNorm,
    kAddNorm,
    kMultiply,
    kStore,
    kCopyRows,
    kPrefill,
    kDecode,
    kSwiGlu,
    kSample,
    kBarrier,
  };
  using Key = std::tuple<Kind, int, int>;

  const OperatorTime& Find(const Key& key, const std::function<OperatorTime()>& simulate);
  // Of `rows`, between the nearest simulated counts.
  OperatorTime ByRows(Kind kind, int what, int rows,
                      const std::function<OperatorTime(int)>& simulate);
  // Of a kernel that runs its operator for so many layers, of which the last one's time counts.
  template <auto kFunction, class Arguments>
  OperatorTime Time(const Arguments& arguments, int layers = 1);

  ModelShape shape_;
  int cores_;
  OperatorBench bench_;
  std::map<Key, OperatorTime> times_;
};

}  // namespace weft::timing
