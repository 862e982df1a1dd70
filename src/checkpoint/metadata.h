#pragma once
// The key-value pairs of a model file.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace weft {

// Array elements keep the width of the file only where it matters: integers widen to 64 bits,
// floats to double.
using MetaArray = std::variant<std::vector<int64_t>, std::vector<uint64_t>, std::vector<double>,
                               std::vector<bool>, std::vector<std::string>>;
using MetaValue = std::variant<int64_t, uint64_t, double, bool, std::string, MetaArray>;

// In the file's order. Getters answer nullopt where the key is absent and an error, naming the key,
// where its value has another type or does not fit. Integers of either sign and width convert where
// they fit.
class Metadata {
 public:
  void add(std::string key, MetaValue value);  // the caller has made sure that the key is new
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const MetaValue* find(std::string_view key) const;
  const std::vector<std::pair<std::string, MetaValue>>& entries() const { return entries_; }

  Result<std::optional<int64_t>> get_int(std::string_view key) const;
  Result<std::optional<double>> get_float(std::string_view key) const;  // an integer converts
  Result<std::optional<bool>> get_bool(std::string_view key) const;
  Result<std::optional<std::string>> get_string(std::string_view key) const;
  // nullptr where the key is absent.
  Result<const std::vector<std::string>*> get_strings(std::string_view key) const;
  Result<std::optional<std::vector<int64_t>>> get_ints(std::string_view key) const;
  Result<std::optional<std::vector<double>>> get_floats(std::string_view key) const;

 private:
  std::vector<std::pair<std::string, MetaValue>> entries_;
};

// "llama", "3", "[\"a\", \"b\", ... 49152 strings]": for people; long values are cut.
std::string describe(const MetaValue& value);

}  // namespace weft
