#include "checkpoint/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "checkpoint/printable.h"

namespace weft {
namespace {

constexpr size_t kShownBytes = 64;  // of a string
constexpr size_t kShownElements =
    8;  // arrays up to this long are shown whole, of longer ones half as many

template <class T>
std::string show(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return fmt::format("\"{}\"", printable(value, kShownBytes));
  } else if constexpr (std::is_same_v<T, double>) {
    // Most floats come from 32 bits: their shortest decimal form is the one that was meant.
    const auto narrow = static_cast<float>(value);
    return narrow == value ? fmt::format("{}", narrow) : fmt::format("{}", value);
  } else {
    return fmt::format("{}", value);
  }
}

template <class T>
std::string show_array(const std::vector<T>& values) {
  constexpr std::string_view kKind = std::is_same_v<T, std::string> ? "strings"
                                     : std::is_same_v<T, double>    ? "floats"
                                     : std::is_same_v<T, bool>      ? "booleans"
                                                                    : "integers";
  const bool whole = values.size() <= kShownElements;
  const size_t shown = whole ? values.size() : kShownElements / 2;
  std::string out = "[";
  for (size_t i = 0; i < shown; ++i) {
    if (i != 0) out += ", ";
    out += show(static_cast<T>(values[i]));
  }
  if (!whole) out += fmt::format(", ... {} {}", values.size(), kKind);
  return out + "]";
}

Error wrong_type(std::string_view key, const MetaValue& value, std::string_view wanted) {
  return Error{ErrorKind::kCorrupt, fmt::format("metadata key '{}' is {}, but must be {}",
                                                printable(key), describe(value), wanted)};
}

std::optional<int64_t> to_int(const MetaValue& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return *i;
  const auto* u = std::get_if<uint64_t>(&value);
  if (u == nullptr || *u > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return std::nullopt;
  return static_cast<int64_t>(*u);
}

std::optional<double> to_float(const MetaValue& value) {
  if (const auto* d = std::get_if<double>(&value)) return *d;
  if (const auto* i = std::get_if<int64_t>(&value)) return static_cast<double>(*i);
  if (const auto* u = std::get_if<uint64_t>(&value)) return static_cast<double>(*u);
  return std::nullopt;
}

// The getters of scalars: `convert` answers nullopt for a value that is not of the wanted type.
template <class T, class Convert>
Result<std::optional<T>> get_scalar(const MetaValue* value, std::string_view key,
                                    std::string_view wanted, Convert convert) {
  if (value == nullptr) return std::optional<T>();
  std::optional<T> converted = convert(*value);
  if (!converted) return wrong_type(key, *value, wanted);
  return converted;
}

// The same for arrays of numbers, element by element.
template <class T, class Convert>
Result<std::optional<std::vector<T>>> get_numbers(const MetaValue* value, std::string_view key,
                                                  std::string_view wanted, Convert convert) {
  if (value == nullptr) return std::optional<std::vector<T>>();
  const auto* array = std::get_if<MetaArray>(value);
  if (array == nullptr) return wrong_type(key, *value, wanted);
  std::vector<T> out;
  const bool fits = std::visit(
      [&](const auto& elements) {
        using Element = typename std::decay_t<decltype(elements)>::value_type;
        if constexpr (std::is_same_v<Element, bool> || std::is_same_v<Element, std::string>) {
          return false;
        } else {
          out.reserve(elements.size());
          for (const Element element : elements) {
            const std::optional<T> converted = convert(MetaValue(element));
            if (!converted) return false;
            out.push_back(*converted);
          }
          return true;
        }
      },
      *array);
  if (!fits) return wrong_type(key, *value, wanted);
  return std::optional<std::vector<T>>(std::move(out));
}

}  // namespace

void Metadata::add(std::string key, MetaValue value) {
  entries_.emplace_back(std::move(key), std::move(value));
}

const MetaValue* Metadata::find(std::string_view key) const {
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [&](const auto& entry) { return entry.first == key; });
  return it == entries_.end() ? nullptr : &it->second;
}

Result<std::optional<int64_t>> Metadata::get_int(std::string_view key) const {
  return get_scalar<int64_t>(find(key), key, "an integer of at most 63 bits", to_int);
}

Result<std::optional<double>> Metadata::get_float(std::string_view key) const {
  return get_scalar<double>(find(key), key, "a number", to_float);
}

Result<std::optional<bool>> Metadata::get_bool(std::string_view key) const {
  return get_scalar<bool>(find(key), key, "true or false", [](const MetaValue& value) {
    const auto* b = std::get_if<bool>(&value);
    return b == nullptr ? std::nullopt : std::optional(*b);
  });
}

Result<std::optional<std::string>> Metadata::get_string(std::string_view key) const {
  return get_scalar<std::string>(find(key), key, "a string", [](const MetaValue& value) {
    const auto* s = std::get_if<std::string>(&value);
    return s == nullptr ? std::nullopt : std::optional(*s);
  });
}

Result<const std::vector<std::string>*> Metadata::get_strings(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return static_cast<const std::vector<std::string>*>(nullptr);
  const auto* array = std::get_if<MetaArray>(value);
  const auto* strings = array == nullptr ? nullptr : std::get_if<std::vector<std::string>>(array);
  if (strings == nullptr) return wrong_type(key, *value, "an array of strings");
  return strings;
}

Result<std::optional<std::vector<int64_t>>> Metadata::get_ints(std::string_view key) const {
  return get_numbers<int64_t>(find(key), key, "an array of integers of at most 63 bits", to_int);
}

Result<std::optional<std::vector<double>>> Metadata::get_floats(std::string_view key) const {
  return get_numbers<double>(find(key), key, "an array of numbers", to_float);
}

std::string describe(const MetaValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return printable(v, kShownBytes);
        } else if constexpr (std::is_same_v<T, MetaArray>) {
          return std::visit([](const auto& elements) { return show_array(elements); }, v);
        } else {
          return show(v);
        }
      },
      value);
}

}  // namespace weft
