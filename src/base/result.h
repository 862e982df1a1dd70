#pragma once
// Errors as values. A function that can fail on what comes from outside (a file, a client, a flag)
// returns a Result; a broken invariant of our own ends the process through WEFT_CHECK
// (base/check.h).

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace weft {

enum class ErrorKind {
  kInvalidArgument,  // the caller's value is unusable
  kNotFound,         // no such file, tensor, model, request
  kCorrupt,          // a file contradicts itself or its format
  kUnsupported,      // understood, but not implemented here
  kExhausted,        // no memory, blocks, slots left
  kIo,               // the operating system refused
};

// One line for a person: it names the offending value and, where one exists, the way out.
struct Error {
  ErrorKind kind = ErrorKind::kInvalidArgument;
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return check(), std::get<0>(state_); }
  const T& value() const& { return check(), std::get<0>(state_); }
  T&& value() && { return check(), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const { return std::get<1>(state_); }

 private:
  void check() const { WEFT_CHECK(ok(), "value() of a failed Result: {}", error().message); }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit on purpose
  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace weft

#define WEFT_CONCAT_(a, b) a##b
#define WEFT_CONCAT(a, b) WEFT_CONCAT_(a, b)

// WEFT_ASSIGN(auto x, f()): x is f()'s value, or this function returns f()'s error.
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration and a name take none.
#define WEFT_ASSIGN(decl, expr) WEFT_ASSIGN_(decl, expr, WEFT_CONCAT(weft_result_, __LINE__))
#define WEFT_ASSIGN_(decl, expr, tmp)  \
  auto tmp = (expr);                   \
  if (!tmp.ok()) return (tmp).error(); \
  decl = std::move(tmp).value()
// NOLINTEND(bugprone-macro-parentheses)

// WEFT_RETURN_IF_ERROR(f()): this function returns f()'s error, if it has one.
#define WEFT_RETURN_IF_ERROR(expr)                      \
  do {                                                  \
    if (auto weft_status = (expr); !weft_status.ok()) { \
      return weft_status.error();                       \
    }                                                   \
  } while (false)
