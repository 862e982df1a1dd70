#pragma once
// The Rust library's handles, strings and statuses as C++ values.

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/rust/weft_text.h"

namespace weft::native {

struct Free {
  void operator()(weft_tokenizer* tokenizer) const { weft_tokenizer_free(tokenizer); }
  void operator()(weft_template* compiled) const { weft_template_free(compiled); }
};
using TokenizerHandle = std::unique_ptr<weft_tokenizer, Free>;
using TemplateHandle = std::unique_ptr<weft_template, Free>;

// The library's own string, given back when it goes out of scope.
class String {
 public:
  explicit String(weft_string string) : string_(string) {}
  String(const String&) = delete;
  String& operator=(const String&) = delete;
  ~String() { weft_string_free(string_); }
  std::string copy() const { return {string_.data, string_.size}; }

 private:
  weft_string string_;
};

inline weft_slice slice(std::string_view text) { return {text.data(), text.size()}; }

// Takes over the status. `invalid`: the kind of error where the input was at fault.
inline Status take(weft_status status, ErrorKind invalid) {
  const String message(status.message);
  switch (status.code) {
    case WEFT_OK:
      return {};
    case WEFT_UNSUPPORTED:
      return Error{ErrorKind::kUnsupported, message.copy()};
    default:
      return Error{invalid, message.copy()};
  }
}

}  // namespace weft::native
