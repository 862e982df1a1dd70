#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "checkpoint/byte_reader.h"
#include "checkpoint/printable.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr int kMaxDepth = 4;  // the format needs 3
constexpr size_t kMaxRank = 4;

struct Type {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array<Type, 7> kTypes = {
    {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"I32", 4}, {"U8", 1}}};

// Errors of one file, each with its name in front.
struct File {
  std::string_view name;
  template <class... Args>
  Error error(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) const {
    return Error{kind,
                 fmt::format("{}: {}", name, fmt::format(format, std::forward<Args>(args)...))};
  }
  template <class... Args>
  Error corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    return error(ErrorKind::kCorrupt, format, std::forward<Args>(args)...);
  }
};

// Deepest nesting of objects and arrays in JSON text; strings are skipped.
int nesting(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

Result<json> parse_header(const File& file, std::string_view text) {
  // The JSON library recurses with the nesting, so that is bounded first.
  if (const int depth = nesting(text); depth > kMaxDepth) {
    return file.corrupt("the header is nested {} deep, at most {} is allowed", depth, kMaxDepth);
  }
  std::vector<std::set<std::string>>
      keys;  // of the open objects; the library itself keeps the last of equal keys
  std::optional<std::string> duplicate;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second) {
      duplicate = parsed.get<std::string>();
    }
    return true;
  };
  json header = json::parse(text, watch, false);
  if (header.is_discarded() || !header.is_object())
    return file.corrupt("the header is not a JSON object");
  if (duplicate) return file.corrupt("'{}' appears twice in the header", printable(*duplicate));
  return header;
}

struct Described {
  std::string dtype;
  Shape shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// A field of a tensor as a list of unsigned integers.
Result<std::vector<uint64_t>> read_integers(const File& file, const std::string& tensor,
                                            const json& value, std::string_view field) {
  std::vector<uint64_t> out;
  bool valid = value.is_array();
  for (const json& item : value) {
    valid = valid && item.is_number_unsigned();
    if (valid) out.push_back(item.get<uint64_t>());
  }
  if (!valid)
    return file.corrupt("tensor '{}': {} is not an array of unsigned integers", tensor, field);
  return out;
}

Result<Described> read_description(const File& file, const std::string& tensor, const json& value,
                                   uint64_t data_bytes) {
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets")) {
    return file.corrupt("tensor '{}' must have exactly dtype, shape and data_offsets", tensor);
  }
  if (!value["dtype"].is_string())
    return file.corrupt("tensor '{}': dtype is not a string", tensor);
  Described out;
  out.dtype = value["dtype"].get<std::string>();
  const auto* type = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const Type& t) { return t.name == out.dtype; });
  if (type == kTypes.end()) {
    return file.error(ErrorKind::kUnsupported, "tensor '{}' has type '{}', which is not supported",
                      tensor, printable(out.dtype));
  }
  WEFT_ASSIGN(const std::vector<uint64_t> extents,
              read_integers(file, tensor, value["shape"], "shape"));
  WEFT_ASSIGN(const std::vector<uint64_t> offsets,
              read_integers(file, tensor, value["data_offsets"], "data_offsets"));
  if (extents.size() > kMaxRank) {
    return file.error(ErrorKind::kUnsupported,
                      "tensor '{}' has {} dimensions, at most {} are supported", tensor,
                      extents.size(), kMaxRank);
  }
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) {
    return file.corrupt("tensor '{}': data_offsets [{}] are not within the {} bytes of data",
                        tensor, fmt::join(offsets, ", "), data_bytes);
  }
  out.begin = offsets[0];
  out.end = offsets[1];
  std::array<int64_t, kMaxRank> signed_extents{};
  uint64_t bytes = type->bytes;
  const bool empty = std::find(extents.begin(), extents.end(), uint64_t{0}) != extents.end();
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] > (empty ? std::numeric_limits<int32_t>::max() : data_bytes / bytes)) {
      return file.corrupt("tensor '{}': shape [{}] is larger than the {} bytes of data", tensor,
                          fmt::join(extents, ", "), data_bytes);
    }
    if (!empty) bytes *= extents[i];
    signed_extents[i] = static_cast<int64_t>(extents[i]);
  }
  if (empty) bytes = 0;
  if (bytes != out.end - out.begin) {
    return file.corrupt("tensor '{}': shape [{}] of {} needs {} bytes, but data_offsets span {}",
                        tensor, fmt::join(extents, ", "), out.dtype, bytes, out.end - out.begin);
  }
  out.shape = Shape(std::span<const int64_t>(signed_extents.data(), extents.size()));
  return out;
}

// The tensors must follow each other without gaps or overlaps and end where the file ends.
Status check_layout(const File& file, const std::map<std::string, Described>& tensors,
                    uint64_t data_bytes) {
  std::vector<std::pair<const std::string*, const Described*>> order;
  order.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) order.emplace_back(&name, &tensor);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  uint64_t end = 0;
  for (const auto& [name, tensor] : order) {
    if (tensor->begin != end) {
      return file.corrupt(
          "tensor '{}' begins at {}, which {} the tensor before it, which ends at {}",
          printable(*name), tensor->begin, tensor->begin < end ? "overlaps" : "leaves a gap after",
          end);
    }
    end = tensor->end;
  }
  if (end != data_bytes)
    return file.corrupt("the tensors end at {}, but there are {} bytes of data", end, data_bytes);
  return {};
}

}  // namespace

Result<Safetensors> Safetensors::open(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = stream ? static_cast<std::streamoff>(stream.tellg()) : -1;
  std::error_code code;
  if (size < 0 || !std::filesystem::is_regular_file(path, code)) {
    const bool absent = !std::filesystem::exists(path, code);
    return Error{absent ? ErrorKind::kNotFound : ErrorKind::kIo,
                 fmt::format("{}: {}", path.string(),
                             absent ? "there is no such file" : "cannot open the file")};
  }
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  stream.seekg(0);
  if (!stream.read(reinterpret_cast<char*>(bytes.data()), size)) {
    return Error{ErrorKind::kIo,
                 fmt::format("{}: cannot read the file: {}", path.string(), std::strerror(errno))};
  }
  return parse(std::move(bytes), path.string());
}

Result<Safetensors> Safetensors::parse(std::vector<std::byte> bytes, std::string_view name) {
  const File file{name};
  ByteReader reader(bytes);
  uint64_t header_bytes = 0;
  if (!reader.read(header_bytes))
    return file.corrupt("{} bytes are too few for a safetensors file", bytes.size());
  if (header_bytes > kMaxHeaderBytes || header_bytes > reader.remaining()) {
    return file.corrupt("the header's length is {}, but only {} bytes follow and {} are allowed",
                        header_bytes, reader.remaining(), kMaxHeaderBytes);
  }
  WEFT_ASSIGN(const json header, parse_header(file, reader.take(header_bytes)));
  const uint64_t data_begin = reader.position();
  const uint64_t data_bytes = reader.remaining();
  std::map<std::string, Described> described;
  for (const auto& [tensor, value] : header.items()) {
    if (tensor == "__metadata__") continue;
    WEFT_ASSIGN(described[tensor], read_description(file, printable(tensor), value, data_bytes));
  }
  WEFT_RETURN_IF_ERROR(check_layout(file, described, data_bytes));

  Safetensors out;
  out.name_ = name;
  out.data_ = std::move(bytes);
  // A header of odd length would leave every tensor misaligned: without it the data begins where
  // the vector does.
  uint64_t skipped = data_begin;
  if (data_begin % alignof(double) != 0) {
    out.data_.erase(out.data_.begin(), out.data_.begin() + static_cast<std::ptrdiff_t>(data_begin));
    skipped = 0;
  }
  for (auto& [tensor, it] : described) {
    out.entries_[tensor] = {it.dtype, it.shape,
                            std::span(out.data_).subspan(skipped + it.begin, it.end - it.begin)};
  }
  return out;
}

namespace {

template <class T>
Result<std::span<const T>> typed(const Safetensors& file, std::string_view file_name,
                                 const std::string& name, std::string_view dtype) {
  const auto it = file.entries().find(name);
  if (it == file.entries().end()) {
    return Error{ErrorKind::kNotFound, fmt::format("{}: there is no tensor '{}'", file_name, name)};
  }
  const Safetensors::Entry& entry = it->second;
  if (entry.dtype != dtype) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("{}: tensor '{}' is {}, not {}", file_name, name, entry.dtype, dtype)};
  }
  if (reinterpret_cast<uintptr_t>(entry.bytes.data()) % alignof(T) != 0) {
    return Error{ErrorKind::kCorrupt,
                 fmt::format("{}: tensor '{}' does not begin at a multiple of {} bytes", file_name,
                             name, alignof(T))};
  }
  return std::span(reinterpret_cast<const T*>(entry.bytes.data()), entry.bytes.size() / sizeof(T));
}

}  // namespace

Result<std::span<const float>> Safetensors::floats(const std::string& name) const {
  return typed<float>(*this, name_, name, "F32");
}

Result<std::span<const int32_t>> Safetensors::ints(const std::string& name) const {
  return typed<int32_t>(*this, name_, name, "I32");
}

Result<std::span<const uint8_t>> Safetensors::bytes(const std::string& name) const {
  return typed<uint8_t>(*this, name_, name, "U8");
}

}  // namespace weft
