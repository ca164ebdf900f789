// Content hashes of a study's inputs, computed while the study reads the same files.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "analysis/results/layer_results.h"
#include "analysis/results/manifest_inputs.h"

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

/// Hashes the inputs block by block. Blocks that the study reads are hashed then, while they are in the cache; one
/// thread hashes the rest beside the study, from the ends of the files, so that it meets the study in the middle.
class InputHashes {
 public:
  /// Starts to hash `inputs`; `threads` as soon as somebody waits.
  InputHashes(const std::vector<InputStatus>& inputs, int threads);
  ~InputHashes();

  /// The hash of a block of inputs[input] that has been read. Ignored if it is known already. Thread-safe.
  void set(std::size_t input, const BlockHash& block);

  /// The hashes in hexadecimal, in the order of the inputs, or null if they are not known yet. Throws InputError if an
  /// input could not be read.
  const std::vector<std::string>* get();
  /// Waits up to `timeout` for the hashes, with all threads at work.
  const std::vector<std::string>* wait(std::chrono::milliseconds timeout);

 private:
  struct Block {
    std::size_t input;
    std::uint64_t block;
  };
  void run(const std::stop_token& stop, bool at_once);
  void hash_rest(const std::stop_token& stop);
  void finish(std::exception_ptr failure);
  Block place(std::uint64_t number) const;

  const std::vector<InputStatus> inputs_;
  std::vector<std::uint64_t> begins_;  ///< number of the first block of each input, and of the end
  std::vector<std::uint64_t> hashes_of_blocks_;
  std::vector<std::atomic<bool>> taken_;  ///< blocks that are hashed, or being hashed
  std::atomic<std::uint64_t> unknown_;    ///< number of blocks whose hash is missing
  std::atomic<std::uint64_t> next_ = 0;   ///< counts from the last block of all to the first
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool hurry_ = false;
  bool finished_ = false;
  std::vector<std::string> hashes_;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;  ///< last member: the threads use all the others
};

/// The hashes of whole files that nobody else reads. Throws InputError.
std::vector<std::string> content_hashes(const std::vector<std::string>& paths, int threads);

}  // namespace attest
