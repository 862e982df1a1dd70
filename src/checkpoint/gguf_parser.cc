#include "checkpoint/gguf_parser.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "checkpoint/byte_reader.h"
#include "checkpoint/gguf_format.h"
#include "checkpoint/printable.h"

namespace weft {
namespace {

using gguf::ValueType;

constexpr uint64_t kSmallestMemory = uint64_t{64} << 20;
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxRank = 4;
// Smallest entries: an empty key with a one-byte value; a tensor with an empty name and one
// dimension.
constexpr uint64_t kMinEntryBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

// What a number of the file is kept as.
template <class T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double,
                                std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

// Calls read.operator()<T>() for the C++ type T of a numeric value type; nullopt for other types.
template <class Read>
std::optional<Result<MetaValue>> with_number_type(uint32_t type, Read read) {
  switch (static_cast<ValueType>(type)) {
    case ValueType::kU8:
      return read.template operator()<uint8_t>();
    case ValueType::kI8:
      return read.template operator()<int8_t>();
    case ValueType::kU16:
      return read.template operator()<uint16_t>();
    case ValueType::kI16:
      return read.template operator()<int16_t>();
    case ValueType::kU32:
      return read.template operator()<uint32_t>();
    case ValueType::kI32:
      return read.template operator()<int32_t>();
    case ValueType::kU64:
      return read.template operator()<uint64_t>();
    case ValueType::kI64:
      return read.template operator()<int64_t>();
    case ValueType::kF32:
      return read.template operator()<float>();
    case ValueType::kF64:
      return read.template operator()<double>();
    default:
      return std::nullopt;
  }
}

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, std::string_view name)
      : bytes_(bytes),
        name_(name),
        reader_(bytes),
        memory_left_(std::max<uint64_t>(bytes.size(), kSmallestMemory)) {}

  Result<GgufPart> run() {
    WEFT_RETURN_IF_ERROR(read_header());
    WEFT_RETURN_IF_ERROR(read_metadata());
    WEFT_RETURN_IF_ERROR(read_tensor_list());
    WEFT_RETURN_IF_ERROR(place_tensors());
    return std::move(part_);
  }

 private:
  template <class... Args>
  Error error(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) const {
    return Error{kind,
                 fmt::format("{}: {}", name_, fmt::format(format, std::forward<Args>(args)...))};
  }
  template <class... Args>
  Error corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    return error(ErrorKind::kCorrupt, format, std::forward<Args>(args)...);
  }
  Error truncated(std::string_view field) const {
    return corrupt("the file ends at byte {} inside {}: it is truncated", bytes_.size(), field);
  }

  Status take_memory(uint64_t bytes, std::string_view field);
  Status read_header();
  Result<std::string_view> read_string(std::string_view field);
  Status read_metadata();
  template <class T>
  Result<MetaValue> read_number(std::string_view field);
  Result<bool> read_bool(std::string_view field);
  Result<MetaValue> read_value(uint32_t type, std::string_view field);
  template <class T>
  Result<MetaValue> read_number_array(uint64_t count, std::string_view field);
  Result<MetaValue> read_bool_array(uint64_t count, std::string_view field);
  Result<MetaValue> read_string_array(uint64_t count, std::string_view field);
  Result<MetaValue> read_array(std::string_view field);
  Status read_tensor_list();
  Status read_tensor(uint64_t index);
  Result<Shape> read_shape(std::string_view field);
  Result<DType> read_dtype(std::string_view field);
  Status place_tensors();
  Status check_overlaps() const;

  std::span<const std::byte> bytes_;
  std::string_view name_;
  ByteReader reader_;
  uint64_t memory_left_;
  uint64_t tensor_count_ = 0;
  uint64_t entry_count_ = 0;
  GgufPart part_;
  std::vector<uint64_t> offsets_;  // of part_.tensors, from the start of the data section
};

Status Parser::take_memory(uint64_t bytes, std::string_view field) {
  if (bytes > memory_left_) {
    return corrupt("{} needs {} bytes of memory, more than a file of {} bytes may take", field,
                   bytes, bytes_.size());
  }
  memory_left_ -= bytes;
  return {};
}

Status Parser::read_header() {
  uint32_t magic = 0;
  uint32_t version = 0;
  if (!reader_.read(magic)) return truncated("the magic number");
  if (magic != gguf::kMagic)
    return corrupt("it is not a GGUF file: its first four bytes are 0x{:08x}", magic);
  if (!reader_.read(version)) return truncated("the version");
  if (version == 0x02000000 || version == 0x03000000) {
    return error(ErrorKind::kUnsupported, "it is a big-endian GGUF; convert it to little-endian");
  }
  if (version != 2 && version != 3) {
    return error(ErrorKind::kUnsupported, "GGUF version {} is not supported, only 2 and 3 are",
                 version);
  }
  if (!reader_.read(tensor_count_)) return truncated("the tensor count");
  if (!reader_.read(entry_count_)) return truncated("the metadata count");
  const auto fits = [&](uint64_t count, uint64_t smallest) {
    return count <= reader_.remaining() / smallest;
  };
  if (!fits(entry_count_, kMinEntryBytes)) {
    return corrupt("metadata count {} is more than a file of {} bytes can hold", entry_count_,
                   bytes_.size());
  }
  if (!fits(tensor_count_, kMinTensorBytes)) {
    return corrupt("tensor count {} is more than a file of {} bytes can hold", tensor_count_,
                   bytes_.size());
  }
  return {};
}

Result<std::string_view> Parser::read_string(std::string_view field) {
  uint64_t length = 0;
  if (!reader_.read(length)) return truncated(field);
  if (length > reader_.remaining()) {
    return corrupt("{} has length {}, but only {} bytes are left in the file", field, length,
                   reader_.remaining());
  }
  return reader_.take(length);
}

Status Parser::read_metadata() {
  std::unordered_set<std::string_view> keys;  // into the file's bytes
  for (uint64_t i = 0; i < entry_count_; ++i) {
    WEFT_ASSIGN(const std::string_view key, read_string(fmt::format("metadata key {}", i)));
    if (key.empty()) return corrupt("metadata key {} is empty", i);
    if (key.size() > kMaxKeyBytes)
      return corrupt("metadata key {} is {} bytes long, at most {} are allowed", i, key.size(),
                     kMaxKeyBytes);
    const std::string field = fmt::format("metadata key '{}'", printable(key));
    if (!keys.insert(key).second) return corrupt("{} appears twice", field);
    uint32_t type = 0;
    if (!reader_.read(type)) return truncated(field);
    WEFT_RETURN_IF_ERROR(
        take_memory(key.size() + sizeof(std::pair<std::string, MetaValue>), field));
    WEFT_ASSIGN(MetaValue value, read_value(type, field));
    part_.metadata.add(std::string(key), std::move(value));
  }
  return {};
}

template <class T>
Result<MetaValue> Parser::read_number(std::string_view field) {
  T value{};
  if (!reader_.read(value)) return truncated(field);
  return MetaValue(static_cast<Wide<T>>(value));
}

Result<bool> Parser::read_bool(std::string_view field) {
  uint8_t value = 0;
  if (!reader_.read(value)) return truncated(field);
  if (value > 1) return corrupt("{} holds {} where a boolean must be 0 or 1", field, value);
  return value == 1;
}

Result<MetaValue> Parser::read_value(uint32_t type, std::string_view field) {
  const auto number = [&]<class T>() { return read_number<T>(field); };
  if (auto value = with_number_type(type, number)) return *std::move(value);
  switch (static_cast<ValueType>(type)) {
    case ValueType::kBool: {
      WEFT_ASSIGN(const bool value, read_bool(field));
      return MetaValue(value);
    }
    case ValueType::kString: {
      WEFT_ASSIGN(const std::string_view text, read_string(field));
      WEFT_RETURN_IF_ERROR(take_memory(text.size(), field));
      return MetaValue(std::string(text));
    }
    case ValueType::kArray:
      return read_array(field);
    default:
      return corrupt("{} has value type {}, but types go from 0 to 12", field, type);
  }
}

Result<MetaValue> Parser::read_array(std::string_view field) {
  uint32_t type = 0;
  uint64_t count = 0;
  if (!reader_.read(type) || !reader_.read(count)) return truncated(field);
  const auto numbers = [&]<class T>() { return read_number_array<T>(count, field); };
  if (auto value = with_number_type(type, numbers)) return *std::move(value);
  switch (static_cast<ValueType>(type)) {
    case ValueType::kBool:
      return read_bool_array(count, field);
    case ValueType::kString:
      return read_string_array(count, field);
    case ValueType::kArray:
      return error(ErrorKind::kUnsupported, "{} is an array of arrays, which is not supported",
                   field);
    default:
      return corrupt("{} is an array of value type {}, but types go from 0 to 12", field, type);
  }
}

template <class T>
Result<MetaValue> Parser::read_number_array(uint64_t count, std::string_view field) {
  if (count > reader_.remaining() / sizeof(T)) {
    return corrupt("{} is an array of {} elements, but only {} bytes are left in the file", field,
                   count, reader_.remaining());
  }
  WEFT_RETURN_IF_ERROR(take_memory(count * sizeof(Wide<T>), field));
  std::vector<Wide<T>> values(count);
  for (Wide<T>& value : values) {
    T narrow{};
    if (!reader_.read(narrow)) return truncated(field);
    value = static_cast<Wide<T>>(narrow);  // NOLINT(bugprone-signed-char-misuse): signs are meant
  }
  return MetaValue(MetaArray(std::move(values)));
}

Result<MetaValue> Parser::read_bool_array(uint64_t count, std::string_view field) {
  if (count > reader_.remaining()) {
    return corrupt("{} is an array of {} elements, but only {} bytes are left in the file", field,
                   count, reader_.remaining());
  }
  WEFT_RETURN_IF_ERROR(take_memory(count, field));
  std::vector<bool> values(count);
  for (uint64_t i = 0; i < count; ++i) {
    WEFT_ASSIGN(const bool value, read_bool(field));
    values[i] = value;
  }
  return MetaValue(MetaArray(std::move(values)));
}

Result<MetaValue> Parser::read_string_array(uint64_t count, std::string_view field) {
  if (count > reader_.remaining() / sizeof(uint64_t)) {
    return corrupt("{} is an array of {} strings, but only {} bytes are left in the file", field,
                   count, reader_.remaining());
  }
  WEFT_RETURN_IF_ERROR(take_memory(count * sizeof(std::string), field));
  std::vector<std::string> values(count);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    if (!reader_.read(length)) return truncated(field);
    if (length > reader_.remaining()) {
      return corrupt("string {} of {} has length {}, but only {} bytes are left in the file", i,
                     field, length, reader_.remaining());
    }
    WEFT_RETURN_IF_ERROR(take_memory(length, field));
    values[i] = reader_.take(length);
  }
  return MetaValue(MetaArray(std::move(values)));
}

Status Parser::read_tensor_list() {
  for (uint64_t i = 0; i < tensor_count_; ++i) WEFT_RETURN_IF_ERROR(read_tensor(i));
  std::unordered_set<std::string_view> names;
  for (const NamedTensor& tensor : part_.tensors) {
    if (!names.insert(tensor.name).second)
      return corrupt("tensor '{}' appears twice", printable(tensor.name));
  }
  return {};
}

Status Parser::read_tensor(uint64_t index) {
  WEFT_ASSIGN(const std::string_view name,
              read_string(fmt::format("the name of tensor {}", index)));
  if (name.empty()) return corrupt("the name of tensor {} is empty", index);
  const std::string field = fmt::format("tensor '{}'", printable(name));
  WEFT_RETURN_IF_ERROR(take_memory(name.size() + sizeof(NamedTensor) + sizeof(uint64_t), field));
  NamedTensor tensor{std::string(name), {}};
  WEFT_ASSIGN(tensor.view.shape, read_shape(field));
  WEFT_ASSIGN(tensor.view.dtype, read_dtype(field));
  uint64_t offset = 0;
  if (!reader_.read(offset)) return truncated(field);
  const DTypeInfo& info = dtype_info(tensor.view.dtype);
  if (tensor.view.shape.row_elements() % info.block_elems != 0) {
    return corrupt("{} has rows of {} values, which are not whole {} blocks of {}", field,
                   tensor.view.shape.row_elements(), info.name, info.block_elems);
  }
  offsets_.push_back(offset);
  part_.tensors.push_back(std::move(tensor));
  return {};
}

Result<Shape> Parser::read_shape(std::string_view field) {
  uint32_t rank = 0;
  if (!reader_.read(rank)) return truncated(field);
  if (rank == 0 || rank > kMaxRank)
    return corrupt("{} has {} dimensions, but must have 1 to {}", field, rank, kMaxRank);
  std::array<int64_t, kMaxRank>
      extents{};  // outermost first, as Shape wants; the file has the innermost first
  uint64_t elements = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    uint64_t extent = 0;
    if (!reader_.read(extent)) return truncated(field);
    if (extent == 0) return corrupt("dimension {} of {} is 0", i, field);
    // A value takes more than two bits in every type, so 8 x the file's size bounds any honest
    // count.
    if (extent > bytes_.size() * 8 / elements) {
      return corrupt("dimension {} of {} is {}, which makes it larger than the file of {} bytes", i,
                     field, extent, bytes_.size());
    }
    elements *= extent;
    extents[rank - 1 - i] = static_cast<int64_t>(extent);
  }
  return Shape(std::span<const int64_t>(extents.data(), rank));
}

Result<DType> Parser::read_dtype(std::string_view field) {
  uint32_t type = 0;
  if (!reader_.read(type)) return truncated(field);
  const std::optional<DType> dtype = gguf::dtype_of(type);
  if (!dtype) {
    return error(ErrorKind::kUnsupported, "{} has type {} ({}), which is not supported", field,
                 type, gguf::unsupported_type_name(type));
  }
  return *dtype;
}

Status Parser::place_tensors() {
  uint64_t alignment = gguf::kDefaultAlignment;
  const Result<std::optional<int64_t>> given = part_.metadata.get_int(gguf::kAlignmentKey);
  if (!given.ok()) return corrupt("{}", given.error().message);
  if (given->has_value()) alignment = static_cast<uint64_t>(**given);
  if (!gguf::valid_alignment(alignment) || alignment > std::numeric_limits<uint32_t>::max()) {
    return corrupt("{} is {}, but must be a power of two from 8 to 2147483648", gguf::kAlignmentKey,
                   **given);
  }
  if (part_.tensors.empty()) return {};
  const uint64_t data_begin = gguf::align_up(reader_.position(), alignment);
  if (data_begin > bytes_.size()) return truncated("the padding before the tensor data");
  const std::span<const std::byte> data = bytes_.subspan(data_begin);
  for (size_t i = 0; i < part_.tensors.size(); ++i) {
    NamedTensor& tensor = part_.tensors[i];
    const uint64_t offset = offsets_[i];
    if (offset % alignment != 0) {
      return corrupt("tensor '{}' begins at offset {}, which is not a multiple of the alignment {}",
                     printable(tensor.name), offset, alignment);
    }
    const DTypeInfo& info = dtype_info(tensor.view.dtype);
    // Elements are bounded by 8 x the file's size and a block by 210 bytes: for any file this stays
    // far below 2^64.
    const uint64_t size = static_cast<uint64_t>(tensor.view.shape.elements()) /
                          static_cast<uint64_t>(info.block_elems) *
                          static_cast<uint64_t>(info.block_bytes);
    if (offset > data.size() || size > data.size() - offset) {
      return corrupt(
          "tensor '{}' takes {} bytes at offset {}, but the file has only {} bytes of tensor data: "
          "it is truncated",
          printable(tensor.name), size, offset, data.size());
    }
    tensor.view.bytes = data.subspan(offset, size);
  }
  return check_overlaps();
}

Status Parser::check_overlaps() const {
  std::vector<const NamedTensor*> order;
  order.reserve(part_.tensors.size());
  for (const NamedTensor& tensor : part_.tensors) order.push_back(&tensor);
  const auto begin = [](const NamedTensor* tensor) { return tensor->view.bytes.data(); };
  std::sort(order.begin(), order.end(),
            [&](const auto* a, const auto* b) { return begin(a) < begin(b); });
  for (size_t i = 1; i < order.size(); ++i) {
    if (begin(order[i - 1]) + order[i - 1]->view.bytes.size() > begin(order[i])) {
      return corrupt("tensors '{}' and '{}' overlap", printable(order[i - 1]->name),
                     printable(order[i]->name));
    }
  }
  return {};
}

}  // namespace

Result<GgufPart> parse_gguf(std::span<const std::byte> bytes, std::string_view name) {
  return Parser(bytes, name).run();
}

}  // namespace weft
