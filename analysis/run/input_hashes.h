// Content hashes of a study's inputs, computed on a separate thread while the study reads the same files.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace attest {

/// Size and modification time of an input: cheap to get, and enough to notice most changes.
struct InputStatus {
  std::string path;  ///< as given
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;  ///< since 1970, UTC
  bool operator==(const InputStatus&) const = default;
};

/// Throws InputError if there is no such file.
InputStatus input_status(const std::string& path);

/// Name of the hash in manifests; `xxhsum -H1 FILE` prints the same digits.
inline constexpr const char* kContentHashName = "xxh64";

/// Hash of a file's bytes in hexadecimal. Throws InputError, and Interrupted if a stop is requested.
std::string content_hash(const std::string& path, const std::stop_token& stop = {});

class InputHashes {
 public:
  /// Starts hashing `paths`, one after another.
  explicit InputHashes(std::vector<std::string> paths);

  /// Waits up to `timeout` for the hashes. Returns them in the order of the paths, or null if they are not ready.
  /// Rethrows an exception of content_hash().
  const std::vector<std::string>* wait(std::chrono::milliseconds timeout);

 private:
  void run(const std::stop_token& stop);

  std::vector<std::string> paths_;
  std::vector<std::string> hashes_;
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool finished_ = false;
  std::jthread thread_;  ///< last member: the thread uses all the others
};

}  // namespace attest
