#include "model/architecture.h"

#include <fmt/format.h>

#include <string>

#include "checkpoint/printable.h"

namespace weft {
namespace {

constexpr Architecture kArchitectures[] = {
    {.name = "llama",
     .interleaved_rope = true,
     .rope_factors = true,
     .feed_forward = FeedForward::kEither,
     .layer = llama_layer},
    {.name = "qwen2",
     .interleaved_rope = false,
     .rope_factors = false,
     .feed_forward = FeedForward::kDense,
     .layer = qwen2_layer},
    {.name = "qwen3",
     .interleaved_rope = false,
     .rope_factors = false,
     .feed_forward = FeedForward::kDense,
     .layer = qwen3_layer},
    {.name = "qwen3moe",
     .interleaved_rope = false,
     .rope_factors = false,
     .feed_forward = FeedForward::kExperts,
     .layer = qwen3moe_layer},
};

}  // namespace

Result<const Architecture*> find_architecture(std::string_view name) {
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return &architecture;
    known.append(known.empty() ? "" : ", ").append(architecture.name);
  }
  return Error{ErrorKind::kUnsupported,
               fmt::format("general.architecture '{}' is not implemented; those that are: {}",
                           printable(name), known)};
}

}  // namespace weft
