// InputFile by pread.
#include "dumps/base/input_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dumps/base/error.h"
#include "dumps/base/file_kind.h"
#include "dumps/base/machine_limits.h"

namespace attest {

InputFile::InputFile(const std::string& path)
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (!descriptor_) throw_if_limit(path, errno);
  if (!descriptor_) throw InputError(fmt::format("{}: cannot be opened ({})", path, std::strerror(errno)));
  struct stat status {};
  if (::fstat(descriptor_.get(), &status) != 0)
    throw InputError(fmt::format("{}: cannot be read ({})", path, std::strerror(errno)));
  if (!S_ISREG(status.st_mode))
    throw InputError(fmt::format("{}: expected a file, found {}", path, kind_of_file(path)));
  size_ = static_cast<std::uint64_t>(status.st_size);
  constexpr std::uint64_t kBlock = 512;  // of st_blocks, on every file system
  stored_bytes_ = std::min(size_, static_cast<std::uint64_t>(status.st_blocks) * kBlock);
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    constexpr std::size_t maximum = std::size_t{1} << 30;  // the kernel reads less than 2^31 bytes at once
    const ssize_t got =
        ::pread(descriptor_.get(), out.data(), std::min(out.size(), maximum), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw InputError(fmt::format("{}: cannot be read ({})", path_, std::strerror(errno)));
    if (got == 0) throw InputError(fmt::format("{}: ends at byte {}, expected {} more", path_, offset, out.size()));
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace attest
