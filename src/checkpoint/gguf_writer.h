#pragma once
// Writes a GGUF version 3 file: models with random weights (`weft dummy`) and the files of tests.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/metadata.h"
#include "tensor/tensor.h"

namespace weft {

class GgufWriter {
 public:
  // Metadata is written with GGUF types: int64_t as i32 where it fits, uint64_t as u32 where it
  // fits, double as f32.
  void add(std::string key, MetaValue value);

  // Fills `out` (the tensor's whole data) when the writer comes to it.
  using Fill = std::function<void(std::span<std::byte> out)>;
  void add_tensor(std::string name, DType dtype, Shape shape, Fill fill);

  uint64_t data_bytes() const;  // of all tensors, padding included
  // Writes the file; calls progress(bytes written so far) after each tensor. A partial file is
  // removed on failure.
  Status write(const std::filesystem::path& path,
               const std::function<void(uint64_t)>& progress = {}) const;
  // The same in memory.
  std::vector<std::byte> to_bytes(const std::function<void(uint64_t)>& progress = {}) const;

 private:
  struct Tensor {
    std::string name;
    DType dtype;
    Shape shape;
    Fill fill;
  };
  std::vector<std::byte> header() const;
  Metadata metadata_;
  std::vector<Tensor> tensors_;
};

}  // namespace weft
