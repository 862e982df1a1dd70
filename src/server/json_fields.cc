#include "server/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft {

JsonFields::JsonFields(const Json& object, std::string path, std::optional<ApiError>& error)
    : object_(object), path_(std::move(path)), error_(error) {}

std::string JsonFields::param(std::string_view name) const {
  return path_.empty() ? excerpt(name) : fmt::format("{}.{}", path_, excerpt(name));
}

void JsonFields::fail(std::string_view name, std::string message, std::string code) {
  if (error_) return;
  error_ = ApiError{.message = std::move(message), .param = param(name), .code = std::move(code)};
}

void JsonFields::fail_type(std::string_view name, const Json& value, std::string_view expected) {
  fail(name,
       fmt::format("Invalid type for '{}': expected {}, but got {}", param(name), expected,
                   kind_of(value)),
       "invalid_type");
}

const Json* JsonFields::find(std::string_view name) {
  known_.push_back(name);
  const auto it = object_.find(name);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

bool JsonFields::boolean(std::string_view name, bool fallback) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  fail_type(name, *value, "a boolean");
  return fallback;
}

double JsonFields::number(std::string_view name, double fallback, double least, double most) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_number()) {
    fail_type(name, *value, "a number");
    return fallback;
  }
  const double number = value->get<double>();
  if (number >= least && number <= most) return number;
  fail(name,
       fmt::format("Invalid '{}': {} is not between {} and {}", param(name), number, least, most),
       "invalid_value");
  return fallback;
}

std::optional<int64_t> JsonFields::integer(std::string_view name, int64_t least, int64_t most) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) {
    fail_type(name, *value, "an integer");
    return std::nullopt;
  }
  const bool too_large =
      value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const int64_t number = too_large ? INT64_MAX : value->get<int64_t>();
  if (!too_large && number >= least && number <= most) return number;
  fail(name,
       fmt::format("Invalid '{}': {} is not between {} and {}", param(name), dump(*value), least,
                   most),
       "invalid_value");
  return std::nullopt;
}

int64_t JsonFields::integer(std::string_view name, int64_t fallback, int64_t least, int64_t most) {
  return integer(name, least, most).value_or(fallback);
}

std::optional<std::string> JsonFields::string(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  fail_type(name, *value, "a string");
  return std::nullopt;
}

void JsonFields::accept(std::initializer_list<std::string_view> names) {
  known_.insert(known_.end(), names.begin(), names.end());
}

void JsonFields::refuse(std::initializer_list<std::string_view> names, bool empty_is_fine) {
  for (const std::string_view name : names) {
    const Json* value = find(name);
    if (value == nullptr || (empty_is_fine && value->is_structured() && value->empty())) continue;
    fail(name,
         fmt::format("Unsupported parameter: '{}' is not supported by this server; leave it out",
                     param(name)),
         "unsupported_parameter");
  }
}

void JsonFields::refuse_unknown() {
  for (const auto& [name, value] : object_.items()) {
    if (value.is_null() || std::ranges::find(known_, name) != known_.end()) continue;
    return fail(name, fmt::format("Unknown parameter: '{}'", param(name)), "unknown_parameter");
  }
}

}  // namespace weft
