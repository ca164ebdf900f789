// Hashes files with read-ahead, on a separate thread.
#include "analysis/run/input_hashes.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <span>
#include <system_error>
#include <thread>

#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
#include "dumps/base/parallel_for.h"

namespace attest {

InputStatus input_status(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw InputError(fmt::format("{}: {}", path, std::generic_category().message(errno)));
  return {.path = path,
          .bytes = static_cast<std::uint64_t>(status.st_size),
          .modified_ns = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

namespace {

/// Reads a file piece by piece. The next piece is read while the caller works on the current one.
class ReadAhead {
 public:
  explicit ReadAhead(const InputFile& file)
      : file_(file), readers_(std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 4, 1, kMostReaders)) {
    begin_next();
  }
  ~ReadAhead() {
    if (reading_.valid()) reading_.wait();
  }

  /// Empty at the end of the file; valid until the next call.
  std::span<const std::byte> next() {
    const std::span<const std::byte> piece = reading_.get();
    if (!piece.empty()) begin_next();
    return piece;
  }

 private:
  static constexpr std::uint64_t kPiece = std::uint64_t{16} << 20;
  static constexpr int kMostReaders = 4;

  void begin_next() {
    current_ ^= 1;
    reading_ = std::async(std::launch::async,
                          [this, &buffer = buffers_[current_], begin = offset_] { return read(buffer, begin); });
    offset_ += kPiece;
  }
  std::span<const std::byte> read(std::vector<std::byte>& buffer, std::uint64_t begin) const {
    buffer.resize(static_cast<std::size_t>(begin < file_.size() ? std::min(kPiece, file_.size() - begin) : 0));
    const std::size_t part = buffer.size() / static_cast<std::size_t>(readers_) + 1;
    parallel_for(readers_, static_cast<std::size_t>(readers_), [&](int, std::size_t i) {
      const std::size_t first = std::min(buffer.size(), i * part), last = std::min(buffer.size(), first + part);
      file_.read(begin + first, std::span(buffer).subspan(first, last - first));
    });
    return buffer;
  }

  const InputFile& file_;
  const int readers_;
  std::array<std::vector<std::byte>, 2> buffers_;
  std::size_t current_ = 0;
  std::uint64_t offset_ = 0;
  std::future<std::span<const std::byte>> reading_;
};

}  // namespace

std::string content_hash(const std::string& path, const std::stop_token& stop) {
  const InputFile file(path);
  ReadAhead pieces(file);
  ContentHash hash;
  for (std::span<const std::byte> piece; !(piece = pieces.next()).empty();) {
    if (stop.stop_requested()) throw Interrupted("stopped while hashing '" + path + "'");
    hash.update(piece);
  }
  return hex_digits(hash.digest());
}

InputHashes::InputHashes(std::vector<std::string> paths)
    : paths_(std::move(paths)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

void InputHashes::run(const std::stop_token& stop) {
  std::vector<std::string> hashes;
  std::exception_ptr failure;
  try {
    for (const std::string& path : paths_) hashes.push_back(content_hash(path, stop));
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  hashes_ = std::move(hashes);
  failure_ = failure;
  finished_ = true;
  changed_.notify_all();
}

const std::vector<std::string>* InputHashes::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, timeout, [this] { return finished_; })) return nullptr;
  if (failure_) std::rethrow_exception(failure_);
  return &hashes_;
}

}  // namespace attest
