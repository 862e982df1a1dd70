// Bytes as a GGUF. Whatever parses must be whole: every tensor readable to its last byte, names
// found again.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "checkpoint/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using weft::Checkpoint;
  const auto bytes = std::as_bytes(std::span(data, size));
  const weft::Result<Checkpoint> parsed = Checkpoint::parse(bytes, "fuzz");
  if (!parsed.ok()) {
    const std::string& message = parsed.error().message;
    WEFT_CHECK(message.starts_with("fuzz: ") && message.find('\n') == std::string::npos, "{}",
               message);
    return 0;
  }
  uint64_t sum = 0;
  uint64_t tensor_bytes = 0;
  for (const weft::NamedTensor& tensor : parsed->tensors()) {
    for (const std::byte b : tensor.view.bytes) sum += std::to_integer<uint64_t>(b);
    tensor_bytes += tensor.view.bytes.size();
    const auto expected =
        static_cast<size_t>(tensor.view.shape.rows() *
                            weft::row_bytes(tensor.view.dtype, tensor.view.shape.row_elements()));
    WEFT_CHECK(tensor.view.bytes.size() == expected, "{} bytes", tensor.view.bytes.size());
    WEFT_CHECK(parsed->find(tensor.name) == &tensor.view, "{} is not found", tensor.name);
  }
  WEFT_CHECK(tensor_bytes <= size, "{} bytes of tensors in {}", tensor_bytes, size);
  for (const auto& [key, value] : parsed->metadata().entries()) {
    sum += weft::describe(value).size();
    WEFT_CHECK(parsed->metadata().find(key) == &value, "{} is not found", key);
    // The getters answer or refuse; both are fine.
    sum += parsed->metadata().get_int(key).ok() + parsed->metadata().get_floats(key).ok();
  }
  volatile uint64_t used = sum;
  (void)used;
  return 0;
}
