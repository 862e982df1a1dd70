#pragma once
// Reads a .safetensors file whole: expected values of tests, and the weights of Hugging Face
// folders.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace weft {

// Move-only: its entries point into its own bytes.
class Safetensors {
 public:
  Safetensors(Safetensors&&) = default;
  Safetensors& operator=(Safetensors&&) = default;

  // The tensors must fill the file after its header without gaps or overlaps. Types: F64, F32, F16,
  // BF16, I64, I32, U8 (and those alone; another is refused by name).
  static Result<Safetensors> open(const std::filesystem::path& path);
  static Result<Safetensors> parse(std::vector<std::byte> bytes, std::string_view name);

  struct Entry {
    std::string dtype;  // as the file writes it: "F32"
    Shape shape;
    std::span<const std::byte> bytes;
  };
  const std::map<std::string, Entry>& entries() const { return entries_; }

  // The values of one tensor; an error naming it if it is absent or of another type.
  Result<std::span<const float>> floats(const std::string& name) const;   // F32
  Result<std::span<const int32_t>> ints(const std::string& name) const;   // I32
  Result<std::span<const uint8_t>> bytes(const std::string& name) const;  // U8

 private:
  Safetensors() = default;
  std::vector<std::byte> data_;
  std::map<std::string, Entry> entries_;
  std::string name_;
};

}  // namespace weft
