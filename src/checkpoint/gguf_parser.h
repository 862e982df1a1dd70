#pragma once
// One GGUF file (one part of a split model) as metadata and tensors.

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace weft {

struct GgufPart {
  Metadata metadata;
  std::vector<NamedTensor> tensors;  // views into the bytes
};

// Holds every count and offset against the bytes before it is used. What the metadata takes in
// memory is at most the file's size, or 64 MiB for smaller files (short strings are larger in
// memory than in the file). `name` begins every error.
Result<GgufPart> parse_gguf(std::span<const std::byte> bytes, std::string_view name);

}  // namespace weft
