#include "tensor/tensor.h"

#include <fmt/format.h>

#include "base/check.h"

namespace weft {

Shape::Shape(std::initializer_list<int64_t> extents)
    : Shape(std::span(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const int64_t> extents) : rank_(static_cast<int>(extents.size())) {
  WEFT_CHECK(extents.size() <= extents_.size(), "rank {}", extents.size());
  for (size_t i = 0; i < extents.size(); ++i) {
    WEFT_CHECK(extents[i] >= 0, "extent {}", extents[i]);
    extents_[i] = extents[i];
  }
}

int64_t Shape::elements() const {
  int64_t n = 1;
  for (int i = 0; i < rank_; ++i) n *= (*this)[i];
  return n;
}

int64_t Shape::rows() const {
  int64_t n = 1;
  for (int i = 0; i + 1 < rank_; ++i) n *= (*this)[i];
  return n;
}

int64_t Shape::row_elements() const { return rank_ == 0 ? 1 : (*this)[rank_ - 1]; }

std::string Shape::str() const {
  return fmt::format("[{}]", fmt::join(extents_.begin(), extents_.begin() + rank_, ", "));
}

}  // namespace weft
