#pragma once
// WEFT_CHECK(condition, format, args...) ends the process with the place and the message when an
// invariant of our own does not hold. Nothing that a client sends or a file holds may reach one.

#include <fmt/format.h>

#include <string>

namespace weft {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);
}

#define WEFT_CHECK(condition, ...)                                                         \
  do {                                                                                     \
    if (!(condition)) [[unlikely]] {                                                       \
      ::weft::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
    }                                                                                      \
  } while (false)
