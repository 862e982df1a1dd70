#include "checkpoint/gguf_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

#include "checkpoint/gguf_format.h"

namespace weft {
namespace {

using gguf::ValueType;

uint64_t tensor_bytes(DType dtype, const Shape& shape) {
  return static_cast<uint64_t>(shape.rows() * row_bytes(dtype, shape.row_elements()));
}

class ByteWriter {
 public:
  template <class T>
  void put(T value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof(T));
  }
  void put(ValueType type) { put(static_cast<uint32_t>(type)); }
  void put(std::string_view text) {
    put(static_cast<uint64_t>(text.size()));
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), begin, begin + text.size());
  }
  void pad(uint64_t alignment) { bytes_.resize(gguf::align_up(bytes_.size(), alignment)); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Calls put(type, convert) with the narrowest GGUF type of T that holds all `values`; `convert`
// narrows one of them.
template <class T>
ValueType narrowest(std::span<const T> values) {
  if constexpr (std::is_same_v<T, double>) {
    return ValueType::kF32;
  } else {
    using Narrow = std::conditional_t<std::is_same_v<T, int64_t>, int32_t, uint32_t>;
    const bool fits = std::all_of(values.begin(), values.end(),
                                  [](T value) { return std::in_range<Narrow>(value); });
    if constexpr (std::is_same_v<T, int64_t>) return fits ? ValueType::kI32 : ValueType::kI64;
    return fits ? ValueType::kU32 : ValueType::kU64;
  }
}

template <class T>
void put_number(ByteWriter& out, ValueType type, T value) {
  switch (type) {
    case ValueType::kI32:
      return out.put(static_cast<int32_t>(value));
    case ValueType::kU32:
      return out.put(static_cast<uint32_t>(value));
    case ValueType::kF32:
      return out.put(static_cast<float>(value));
    default:
      return out.put(value);
  }
}

template <class T>
void put_elements(ByteWriter& out, const std::vector<T>& values) {
  ValueType type = ValueType::kString;
  if constexpr (std::is_same_v<T, bool>) type = ValueType::kBool;
  if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
    type = narrowest(std::span<const T>(values));
  out.put(type);
  out.put(static_cast<uint64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_same_v<T, bool>) {
      out.put(static_cast<uint8_t>(values[i]));
    } else if constexpr (std::is_same_v<T, std::string>) {
      out.put(std::string_view(values[i]));
    } else {
      put_number(out, type, values[i]);
    }
  }
}

void put_value(ByteWriter& out, const MetaValue& value) {
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, MetaArray>) {
          out.put(ValueType::kArray);
          std::visit([&](const auto& elements) { put_elements(out, elements); }, v);
        } else if constexpr (std::is_same_v<T, std::string>) {
          out.put(ValueType::kString);
          out.put(std::string_view(v));
        } else if constexpr (std::is_same_v<T, bool>) {
          out.put(ValueType::kBool);
          out.put(static_cast<uint8_t>(v));
        } else {
          const ValueType type = narrowest(std::span<const T>(&v, 1));
          out.put(type);
          put_number(out, type, v);
        }
      },
      value);
}

uint64_t alignment_of(const Metadata& metadata) {
  const Result<std::optional<int64_t>> given = metadata.get_int(gguf::kAlignmentKey);
  WEFT_CHECK(given.ok(), "{}", given.error().message);
  const uint64_t alignment =
      given->has_value() ? static_cast<uint64_t>(**given) : gguf::kDefaultAlignment;
  WEFT_CHECK(gguf::valid_alignment(alignment) && alignment <= std::numeric_limits<uint32_t>::max(),
             "{} is {}", gguf::kAlignmentKey, alignment);
  return alignment;
}

}  // namespace

void GgufWriter::add(std::string key, MetaValue value) {
  WEFT_CHECK(!key.empty() && !metadata_.contains(key), "metadata key '{}' is empty or added twice",
             key);
  metadata_.add(std::move(key), std::move(value));
}

void GgufWriter::add_tensor(std::string name, DType dtype, Shape shape, Fill fill) {
  WEFT_CHECK(shape.rank() >= 1 && shape.elements() > 0, "tensor '{}' has shape {}", name,
             shape.str());
  tensors_.push_back({std::move(name), dtype, shape, std::move(fill)});
}

uint64_t GgufWriter::data_bytes() const {
  const uint64_t alignment = alignment_of(metadata_);
  uint64_t bytes = 0;
  for (const Tensor& tensor : tensors_)
    bytes += gguf::align_up(tensor_bytes(tensor.dtype, tensor.shape), alignment);
  return bytes;
}

std::vector<std::byte> GgufWriter::header() const {
  const uint64_t alignment = alignment_of(metadata_);
  ByteWriter out;
  out.put(gguf::kMagic);
  out.put(gguf::kVersion);
  out.put(static_cast<uint64_t>(tensors_.size()));
  out.put(static_cast<uint64_t>(metadata_.entries().size()));
  for (const auto& [key, value] : metadata_.entries()) {
    out.put(std::string_view(key));
    put_value(out, value);
  }
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    out.put(std::string_view(tensor.name));
    out.put(static_cast<uint32_t>(tensor.shape.rank()));
    for (int axis = tensor.shape.rank() - 1; axis >= 0; --axis)
      out.put(static_cast<uint64_t>(tensor.shape[axis]));
    out.put(gguf::tensor_type(tensor.dtype));
    out.put(offset);
    offset += gguf::align_up(tensor_bytes(tensor.dtype, tensor.shape), alignment);
  }
  out.pad(alignment);
  return out.take();
}

std::vector<std::byte> GgufWriter::to_bytes(const std::function<void(uint64_t)>& progress) const {
  const uint64_t alignment = alignment_of(metadata_);
  std::vector<std::byte> out = header();
  out.reserve(out.size() + data_bytes());
  for (const Tensor& tensor : tensors_) {
    const uint64_t size = tensor_bytes(tensor.dtype, tensor.shape);
    const size_t begin = out.size();
    out.resize(begin + gguf::align_up(size, alignment));
    tensor.fill(std::span(out).subspan(begin, size));
    if (progress) progress(out.size());
  }
  return out;
}

Status GgufWriter::write(const std::filesystem::path& path,
                         const std::function<void(uint64_t)>& progress) const {
  const auto io_error = [&](std::string_view action) {
    return Error{ErrorKind::kIo,
                 fmt::format("{}: cannot {}: {}", path.string(), action, std::strerror(errno))};
  };
  std::filesystem::path partial = path;
  partial += ".partial";
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file(std::fopen(partial.c_str(), "wb"));
  if (!file) return io_error("create the file");
  uint64_t written = 0;
  const auto put = [&](std::span<const std::byte> bytes) {
    written += bytes.size();
    return std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
  };
  bool ok = put(header());
  const uint64_t alignment = alignment_of(metadata_);
  std::vector<std::byte> data;
  for (size_t i = 0; ok && i < tensors_.size(); ++i) {
    const uint64_t size = tensor_bytes(tensors_[i].dtype, tensors_[i].shape);
    data.assign(gguf::align_up(size, alignment), std::byte{0});
    tensors_[i].fill(std::span(data).first(size));
    ok = put(data);
    if (ok && progress) progress(written);
  }
  ok = ok && std::fflush(file.get()) == 0;
  Status status;
  if (!ok) status = io_error("write the file");
  file.reset();
  if (ok && std::rename(partial.c_str(), path.c_str()) != 0)
    status = io_error("rename the written file");
  if (!status.ok()) std::remove(partial.c_str());
  return status;
}

}  // namespace weft
