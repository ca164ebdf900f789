// Content hashes of a study's inputs, computed on separate threads while the study reads the same files.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stop_token>
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

/// Name of the hash in manifests. A plain XXH64 takes longer than the study of a large dump on a GPU, because it cannot
/// be shared among threads. This one can: it is the XXH64 of a text that has the XXH64 of each piece of 16 MiB as one
/// line of 16 hexadecimal digits. A command gives the same digits:
/// `split -b 16M --filter='xxhsum -H1 | cut -c1-16' FILE | xxhsum -H1`.
inline constexpr const char* kContentHashName = "xxh64_of_16MiB";
inline constexpr std::uint64_t kHashedPiece = std::uint64_t{16} << 20;

/// Hashes of the contents of files in hexadecimal, in the order of `paths`. The threads share the pieces of all files.
/// Throws InputError, and Interrupted if a stop is requested.
std::vector<std::string> content_hashes(const std::vector<std::string>& paths, int threads,
                                        const std::stop_token& stop = {});

/// Number of threads that hash while a study runs on `threads` threads.
int hashing_threads(int threads);

class InputHashes {
 public:
  /// Starts hashing `paths`.
  InputHashes(std::vector<std::string> paths, int threads);

  /// Waits up to `timeout` for the hashes. Returns them in the order of the paths, or null if they are not ready.
  /// Rethrows an exception of content_hashes().
  const std::vector<std::string>* wait(std::chrono::milliseconds timeout);

 private:
  void run(const std::stop_token& stop);

  const std::vector<std::string> paths_;
  const int threads_;
  std::vector<std::string> hashes_;
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool finished_ = false;
  std::jthread thread_;  ///< last member: the thread uses all the others
};

}  // namespace attest
