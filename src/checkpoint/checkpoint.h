#pragma once
// Checkpoint: a model file as named tensors and metadata, memory-mapped.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/metadata.h"
#include "tensor/tensor.h"

namespace weft {

class MappedFile;

struct NamedTensor {
  std::string name;
  TensorView view;  // into the mapping
};

// Immutable after open; any thread may read. Tensor views live as long as the checkpoint.
class Checkpoint {
 public:
  // Opens a GGUF (version 2 or 3). For a file named *-00001-of-0000N.gguf its siblings are opened
  // too; the metadata is that of the first. Every offset and count is held against the file's size
  // before it is used; errors name the file and the field.
  static Result<Checkpoint> open(const std::filesystem::path& path);

  // The same from bytes already in memory (which must outlive the checkpoint): tests and fuzzing. A
  // part of a split model is refused.
  static Result<Checkpoint> parse(std::span<const std::byte> bytes, std::string_view name);

  const Metadata& metadata() const { return metadata_; }
  const std::vector<NamedTensor>& tensors() const { return tensors_; }  // in the file's order
  const TensorView* find(std::string_view name) const;
  const std::filesystem::path& path() const { return path_; }
  uint64_t file_bytes() const { return file_bytes_; }  // of all its parts

  // Tells the system that a tensor's pages are no longer needed in memory (they stay readable).
  void drop_pages(const TensorView& view) const;

 private:
  Status add_part(std::span<const std::byte> bytes, std::string_view name, int number, int count);
  Status index_names();

  std::filesystem::path path_;
  uint64_t file_bytes_ = 0;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  Metadata metadata_;
  std::vector<NamedTensor> tensors_;
  std::vector<size_t> by_name_;  // indices into tensors_, sorted by name
};

}  // namespace weft
