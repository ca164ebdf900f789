#include "analysis/input_hashes.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "dumps/error.h"
#include "dumps/input_file.h"
#include "dumps/xxh64.h"

namespace attest {

InputStatus input_status(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0)
    throw InputError(fmt::format("{}: {}", path, std::generic_category().message(errno)));
  return {.path = path,
          .bytes = static_cast<std::uint64_t>(status.st_size),
          .modified_ns = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

std::string content_hash(const std::string& path, const std::stop_token& stop) {
  const InputFile file(path);
  std::vector<std::byte> buffer(std::size_t{4} << 20);
  Xxh64 hash;
  for (std::uint64_t offset = 0; offset < file.size();) {
    if (stop.stop_requested()) throw Interrupted("stopped while hashing '" + path + "'");
    const std::size_t taken = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), file.size() - offset));
    const std::span part = std::span(buffer).first(taken);
    file.read(offset, part);
    hash.update(part);
    offset += taken;
  }
  return hex_digest(hash.digest());
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

const std::vector<std::string>* InputHashes::wait(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, patience, [this] { return finished_; })) return nullptr;
  if (failure_) std::rethrow_exception(failure_);
  return &hashes_;
}

}  // namespace attest
