#pragma once
// Plain descriptions of tensors. Nothing here owns memory but Buffer (tensor/buffer.h).

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "tensor/dtype.h"

namespace weft {

// Up to four extents, outermost first: a matrix of n outputs and k inputs is {n, k}.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> extents);  // at most 4, each >= 0
  explicit Shape(std::span<const int64_t> extents);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return extents_[static_cast<size_t>(axis)]; }
  int64_t elements() const;  // 1 for rank 0
  // Elements of all axes but the innermost; elements of the innermost.
  int64_t rows() const;
  int64_t row_elements() const;
  bool operator==(const Shape&) const = default;
  std::string str() const;  // "[576, 1536]"

 private:
  std::array<int64_t, 4> extents_{};
  int rank_ = 0;
};

// A tensor somebody else owns; rows are contiguous and follow each other without gaps.
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;

  const std::byte* row(int64_t r) const {
    return bytes.data() + r * row_bytes(dtype, shape.row_elements());
  }
};

}  // namespace weft
