#pragma once
// JSON of the API: parsing what a client sent, and writing what it gets.

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

#include "server/api_error.h"

namespace weft {

// Keeps the order of keys, so that answers read as the API's documentation shows them.
using Json = nlohmann::ordered_json;

// Arrays and objects inside each other; the parser and every walk over a value recurse.
inline constexpr int kMaxJsonDepth = 64;
// Members of one object: one that keeps its order is searched from the front for each of them.
inline constexpr int kMaxJsonMembers = 1024;

// A request body. An error names the line and column; a body beyond the two limits is refused
// before parsing.
ApiResult<Json> parse_json(std::string_view body);

// One line of valid UTF-8, whatever bytes the strings hold.
std::string dump(const Json& value);

// What a JSON value is, with its article: "a string", "an integer", ...
std::string_view kind_of(const Json& value);

// Code points of valid UTF-8 text.
size_t count_code_points(std::string_view text);

// A client's string for an error message: its first bytes, up to a whole character.
std::string excerpt(std::string_view text);

}  // namespace weft
