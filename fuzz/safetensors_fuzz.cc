// Bytes as a safetensors file. Whatever parses must be readable to its last byte.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using weft::Safetensors;
  const auto input = std::as_bytes(std::span(data, size));
  const weft::Result<Safetensors> parsed =
      Safetensors::parse(std::vector<std::byte>(input.begin(), input.end()), "fuzz");
  if (!parsed.ok()) {
    const std::string& message = parsed.error().message;
    WEFT_CHECK(message.starts_with("fuzz: ") && message.find('\n') == std::string::npos, "{}",
               message);
    return 0;
  }
  uint64_t sum = 0;
  for (const auto& [name, entry] : parsed->entries()) {
    for (const std::byte b : entry.bytes) sum += std::to_integer<uint64_t>(b);
    sum += static_cast<uint64_t>(entry.shape.elements());
    if (const auto floats = parsed->floats(name); floats.ok()) sum += floats->size();
    if (const auto ints = parsed->ints(name); ints.ok()) sum += ints->size();
    if (const auto raw = parsed->bytes(name); raw.ok()) sum += raw->size();
  }
  volatile uint64_t used = sum;
  (void)used;
  return 0;
}
