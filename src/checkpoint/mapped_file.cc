#include "checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

namespace weft {
namespace {

Error system_error(const std::filesystem::path& path, std::string_view action) {
  const int code = errno;
  return Error{code == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo,
               fmt::format("{}: cannot {}: {}", path.string(), action, std::strerror(code))};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe that nobody writes to must not wait.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return system_error(path, "open the file");
  struct stat info{};
  if (fstat(fd, &info) != 0) {
    Error error = system_error(path, "read the file's size");
    close(fd);
    return error;
  }
  if (!S_ISREG(info.st_mode) || info.st_size == 0) {
    close(fd);
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("{}: {}", path.string(),
                             S_ISREG(info.st_mode) ? "the file is empty" : "it is not a file")};
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* raw = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (raw == MAP_FAILED) {
    Error error = system_error(path, "map the file into memory");
    close(fd);
    return error;
  }
  close(fd);
  return MappedFile(std::span(static_cast<const std::byte*>(raw), size));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

bool MappedFile::contains(std::span<const std::byte> part) const {
  const std::less_equal<> before;  // a total order also over pointers into different mappings
  return before(bytes_.data(), part.data()) &&
         before(part.data() + part.size(), bytes_.data() + bytes_.size());
}

void MappedFile::drop_pages(std::span<const std::byte> part) const {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<size_t>(part.data() - bytes_.data());
  const size_t begin = offset / page * page;
  // A neighbour on the first or last page loses that page too, and reads it again when it is
  // touched.
  madvise(const_cast<std::byte*>(bytes_.data()) + begin, offset + part.size() - begin,
          MADV_DONTNEED);
}

}  // namespace weft
