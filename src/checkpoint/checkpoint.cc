#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "checkpoint/gguf_parser.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/printable.h"

namespace weft {
namespace {

constexpr std::string_view kSplitNumber = "split.no";
constexpr std::string_view kSplitCount = "split.count";
constexpr std::string_view kSplitTensors = "split.tensors.count";
constexpr int kMaxParts = 99999;  // five digits in a file's name

// What a part says of itself: its number from 0 and of how many. A file that is no part is 0 of 1.
struct Split {
  int number = 0;
  int count = 1;
};

Result<Split> read_split(const Metadata& metadata, std::string_view name) {
  Split split;
  const auto read = [&](std::string_view key, int lowest, int highest, int& value) -> Status {
    const Result<std::optional<int64_t>> given = metadata.get_int(key);
    if (!given.ok())
      return Error{ErrorKind::kCorrupt, fmt::format("{}: {}", name, given.error().message)};
    if (!given->has_value()) return {};
    if (**given < lowest || **given > highest) {
      return Error{ErrorKind::kCorrupt,
                   fmt::format("{}: metadata key '{}' is {}, but must be from {} to {}", name, key,
                               **given, lowest, highest)};
    }
    value = static_cast<int>(**given);
    return {};
  };
  WEFT_RETURN_IF_ERROR(read(kSplitCount, 0, kMaxParts, split.count));
  split.count = std::max(split.count, 1);
  WEFT_RETURN_IF_ERROR(read(kSplitNumber, 0, split.count - 1, split.number));
  return split;
}

// "-00002-of-00003.gguf" for number 1 of 3.
std::string part_suffix(const Split& split) {
  return fmt::format("-{:05}-of-{:05}.gguf", split.number + 1, split.count);
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::filesystem::path& path) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  std::string stem;  // of a split model: the name without "-0000k-of-0000N.gguf"
  int parts = 1;
  for (int i = 0; i < parts; ++i) {
    const std::filesystem::path part_path =
        i == 0 ? path : std::filesystem::path(stem + part_suffix({i, parts}));
    WEFT_ASSIGN(MappedFile file, MappedFile::open(part_path));
    checkpoint.files_.push_back(std::make_shared<const MappedFile>(std::move(file)));
    const std::span<const std::byte> bytes = checkpoint.files_.back()->bytes();
    WEFT_RETURN_IF_ERROR(checkpoint.add_part(bytes, part_path.string(), i, parts));
    if (i == 0) {
      WEFT_ASSIGN(const Split split, read_split(checkpoint.metadata_, part_path.string()));
      const std::string name = path.string();
      const std::string suffix = part_suffix(split);
      if (split.count > 1 && !name.ends_with(suffix)) {
        return Error{
            ErrorKind::kInvalidArgument,
            fmt::format(
                "{}: it is part 1 of {} of a split model, but is not named *{}, so its other parts "
                "cannot be found: give it its name back",
                name, split.count, suffix)};
      }
      if (split.count > 1) stem = name.substr(0, name.size() - suffix.size());
      parts = split.count;
    }
  }
  WEFT_RETURN_IF_ERROR(checkpoint.index_names());
  return checkpoint;
}

Result<Checkpoint> Checkpoint::parse(std::span<const std::byte> bytes, std::string_view name) {
  Checkpoint checkpoint;
  checkpoint.path_ = name;
  WEFT_RETURN_IF_ERROR(checkpoint.add_part(bytes, name, 0, 1));
  WEFT_ASSIGN(const Split split, read_split(checkpoint.metadata_, name));
  if (split.count > 1) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format(
            "{}: it is part 1 of {} of a split model, which can only be opened from its files",
            name, split.count)};
  }
  WEFT_RETURN_IF_ERROR(checkpoint.index_names());
  return checkpoint;
}

// Takes in part `number` of `count`; `count` is 1 for the first file, which tells the real one
// itself.
Status Checkpoint::add_part(std::span<const std::byte> bytes, std::string_view name, int number,
                            int count) {
  WEFT_ASSIGN(GgufPart part, parse_gguf(bytes, name));
  WEFT_ASSIGN(const Split split, read_split(part.metadata, name));
  if (number == 0 && split.number != 0) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("{}: it is part {} of {} of a split model: open the first part, *{}",
                             name, split.number + 1, split.count, part_suffix({0, split.count}))};
  }
  if (number != 0 && (split.number != number || split.count != count)) {
    return Error{ErrorKind::kCorrupt,
                 fmt::format("{}: it should be part {} of {}, but says that it is part {} of {}",
                             name, number + 1, count, split.number + 1, split.count)};
  }
  file_bytes_ += bytes.size();
  if (number == 0) metadata_ = std::move(part.metadata);
  std::move(part.tensors.begin(), part.tensors.end(), std::back_inserter(tensors_));
  return {};
}

// After the last part: what only the whole can show.
Status Checkpoint::index_names() {
  const std::string name = path_.string();
  const Result<std::optional<int64_t>> wanted = metadata_.get_int(kSplitTensors);
  if (!wanted.ok())
    return Error{ErrorKind::kCorrupt, fmt::format("{}: {}", name, wanted.error().message)};
  if (wanted->has_value() && static_cast<uint64_t>(**wanted) != tensors_.size()) {
    return Error{ErrorKind::kCorrupt,
                 fmt::format("{}: metadata key '{}' is {}, but the parts hold {} tensors", name,
                             kSplitTensors, **wanted, tensors_.size())};
  }
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [&](size_t a, size_t b) { return tensors_[a].name < tensors_[b].name; });
  const auto twice = std::adjacent_find(by_name_.begin(), by_name_.end(), [&](size_t a, size_t b) {
    return tensors_[a].name == tensors_[b].name;
  });
  if (twice != by_name_.end()) {
    return Error{ErrorKind::kCorrupt, fmt::format("{}: tensor '{}' appears twice", name,
                                                  printable(tensors_[*twice].name))};
  }
  return {};
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto it = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [&](size_t index, std::string_view wanted) { return tensors_[index].name < wanted; });
  if (it == by_name_.end() || tensors_[*it].name != name) return nullptr;
  return &tensors_[*it].view;
}

void Checkpoint::drop_pages(const TensorView& view) const {
  for (const auto& file : files_) {
    if (file->contains(view.bytes)) return file->drop_pages(view.bytes);
  }
}

}  // namespace weft
