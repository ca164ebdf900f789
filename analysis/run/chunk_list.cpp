// Reads names from the standard input such that an interruption ends the wait.
#include "analysis/run/chunk_list.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "dumps/base/error.h"

namespace attest {
namespace {

constexpr int kPollMs = 100;                   ///< between two looks for an interruption
constexpr std::size_t kLongestName = 1 << 16;  ///< 16 times PATH_MAX

}  // namespace

ChunkList::ChunkList(const std::vector<std::string>& files)
    : files_(files), from_input_(files.size() == 1 && files[0] == "-") {}

std::optional<std::string> ChunkList::next(const std::atomic<bool>& stop) {
  if (!from_input_) {
    if (stop) throw Interrupted("interrupted");
    return next_ < files_.size() ? std::optional(files_[next_++]) : std::nullopt;
  }
  for (;;) {
    if (stop) throw Interrupted("interrupted");
    if (const std::size_t end = read_.find('\n'); end != std::string::npos) {
      std::string name = read_.substr(0, end);
      read_.erase(0, end + 1);
      return name;
    }
    if (read_.size() > kLongestName) throw InputError("--take -: a line of the standard input is no file's name");
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (poll(&input, 1, kPollMs) <= 0) continue;
    std::array<char, 4096> bytes{};
    const ssize_t count = read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw InputError(
          fmt::format("--take -: the standard input cannot be read ({})", std::generic_category().message(errno)));
    if (count == 0) return std::nullopt;  // what is left is no whole line: whoever wrote it was killed
    read_.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

void ChunkList::taken(const std::string& path) const {
  std::error_code ignored;  // whoever named it removes its folder
  if (from_input_) std::filesystem::remove(path, ignored);
}

}  // namespace attest
