#pragma once
// PackedWeights: a model's weights as the kernels of one table read them.

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "device/cpu/thread_pool.h"
#include "kernels/kernel_table.h"
#include "model/model.h"
#include "tensor/buffer.h"

namespace weft {

// Immutable once made. Matrices (linear operations, experts, embedding, head) are in the table's
// layout, vectors (norms, biases) are floats; all of them in one buffer. A weight that serves
// twice, as tied embeddings do, is there once.
class PackedWeights {
 public:
  // Packs with all threads of the pool, dropping the file's pages tensor by tensor, so that both
  // copies of a weight are in memory for a short time only.
  static Result<PackedWeights> pack(const Model& model, const Checkpoint& checkpoint,
                                    const KernelTable& kernels, ThreadPool& pool,
                                    const std::function<void(double)>& progress);
  static int64_t bytes(const Model& model, const KernelTable& kernels);

  PackedMatrix matrix(WeightId id) const;  // of experts the first one's
  // From the matrix of one expert to the next one's.
  int64_t expert_bytes(WeightId id) const { return place(id).matrix_bytes; }
  const float* vector(WeightId id) const;  // null for kNone

 private:
  enum class Role : uint8_t { kUnused, kMatrix, kVector };
  struct Place {
    Role role = Role::kUnused;
    DType type = DType::kF32;
    int64_t matrices = 1;  // as many as there are experts
    int64_t outputs = 0;   // of one matrix
    int64_t inputs = 0;
    int64_t matrix_bytes = 0;  // rounded up, so that each begins aligned
    int64_t offset = 0;
    int64_t bytes = 0;
  };

  void lay_out(const Model& model, const KernelTable& kernels);
  const Place& place(WeightId id) const { return places_[static_cast<size_t>(id)]; }
  void pack_matrices(const Place& place, const TensorView& view, const KernelTable& kernels,
                     ThreadPool& pool);

  std::vector<Place> places_;  // by WeightId
  int64_t bytes_ = 0;
  Buffer buffer_;
};

}  // namespace weft
