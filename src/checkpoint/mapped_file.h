#pragma once
// A file mapped read-only into memory.

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace weft {

// The mapping keeps the file's content as long as nobody shortens the file in place.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  bool contains(std::span<const std::byte> part) const;
  // Gives back the memory of the pages that hold `part`; they are read again from the file when
  // touched.
  void drop_pages(std::span<const std::byte> part) const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace weft
