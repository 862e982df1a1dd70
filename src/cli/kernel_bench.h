#pragma once
// Times the kernels of one table on this machine, beside the machine's own limits.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/dummy_shapes.h"
#include "cli/machine_limits.h"
#include "device/cpu/thread_pool.h"
#include "kernels/kernel_table.h"
#include "tensor/buffer.h"

namespace weft {

enum class Peak : uint8_t { kInt8, kBF16, kF32 };

struct KernelFigure {
  std::string kernel;     // "matmul"
  std::string type;       // of the weights or of the cache
  std::string shape;      // "qwen2.5-1.5b gate+up 17920x1536"
  int rows = 0;           // of activations; tokens of a prompt; sequences that decode
  double seconds = 0;     // median of the rounds
  double operations = 0;  // a multiplication and an addition are two
  double bytes = 0;       // that have to come from memory
  Peak peak = Peak::kF32;
};

// Seconds that the limits allow at least, and whether memory is what sets them.
struct Bound {
  double seconds = 0;
  bool memory = false;
};
Bound bound_of(const KernelFigure& figure, const MachineLimits& limits);

// A weight matrix of a model's layer; those that a step multiplies together are one.
struct LayerMatrix {
  std::string name;  // "gate+up"
  int64_t outputs = 0;
  int64_t inputs = 0;
};
std::vector<LayerMatrix> layer_matrices(const DummyShape& shape);

class KernelBench {
 public:
  struct Options {
    const KernelTable* kernels = nullptr;
    int threads = 1;
    int rounds = 5;
    uint64_t memory = 0;  // bytes of weights that are read in turn, so that none is cached
  };
  // Called before each round of a measurement.
  using OnRound = std::function<void()>;

  static Result<std::unique_ptr<KernelBench>> create(const Options& options, OnRound on_round);

  // Every measurement looks at the limits once a round.
  const MachineLimits& limits() const { return all_threads_->best(); }
  const MachineLimits& limits_of_one_thread() const { return one_thread_->best(); }
  void look_at_limits();

  // rows x matrix^T for each number of rows.
  std::vector<KernelFigure> matmul(const std::string& model, const LayerMatrix& matrix, DType type,
                                   const std::vector<int>& rows);
  // A layer's attention of a whole prompt, and of one further token of each of `sequences`.
  KernelFigure prefill_attention(const DummyShape& shape, KvType type, int context);
  KernelFigure decode_attention(const DummyShape& shape, KvType type, int context, int sequences);
  // Drawing one token by temperature and top-p.
  KernelFigure sampling(const DummyShape& shape);

 private:
  KernelBench(const Options& options, OnRound on_round)
      : options_(options), on_round_(std::move(on_round)) {}

  KernelFigure attention(const DummyShape& shape, KvType type, int context, int first,
                         int sequences);

  // Runs each work a few times a round; returns the median seconds of one run of each.
  using Work = std::function<void(ThreadPool::Worker&, int64_t run)>;
  std::vector<double> time(const std::vector<Work>& works);

  Options options_;
  OnRound on_round_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<ThreadPool> one_;
  Buffer memory_;
  std::unique_ptr<LimitProbe> all_threads_;
  std::unique_ptr<LimitProbe> one_thread_;
};

}  // namespace weft
