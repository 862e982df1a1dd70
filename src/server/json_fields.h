#pragma once
// Reads a JSON object field by field, so that a schema is a list of calls: what is wrong becomes an
// ApiError that names the field, and what nobody asked for is found at the end.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "server/json.h"

namespace weft {

// A field that is absent and one that is null are the same. The first failure is kept; after it
// every read goes on and gives its fallback. The object and the error must outlive the reader.
class JsonFields {
 public:
  // path: what stands before each name in an error's param: "", or "messages[0]".
  JsonFields(const Json& object, std::string path, std::optional<ApiError>& error);

  const Json* find(std::string_view name);
  bool boolean(std::string_view name, bool fallback);
  double number(std::string_view name, double fallback, double least, double most);
  std::optional<int64_t> integer(std::string_view name, int64_t least, int64_t most);
  int64_t integer(std::string_view name, int64_t fallback, int64_t least, int64_t most);
  std::optional<std::string> string(std::string_view name);

  // Fields that change no output here.
  void accept(std::initializer_list<std::string_view> names);
  // Fields whose meaning this server does not offer; `empty_is_fine`: an empty array or object asks
  // for nothing.
  void refuse(std::initializer_list<std::string_view> names, bool empty_is_fine = false);
  // Fails for a field that no call above has named.
  void refuse_unknown();

  void fail(std::string_view name, std::string message, std::string code);
  void fail_type(std::string_view name, const Json& value, std::string_view expected);
  std::string param(std::string_view name) const;

 private:
  const Json& object_;
  std::string path_;
  std::optional<ApiError>& error_;
  std::vector<std::string_view> known_;
};

}  // namespace weft
