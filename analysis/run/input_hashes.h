// Content hashes of a study's inputs, computed while the study reads the same files.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "analysis/results/layer_results.h"
#include "analysis/results/manifest_inputs.h"
#include "dumps/base/input_file.h"

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

/// The hash of some sixteen pieces of an input, which takes no time even if it is large: its first and last 64 KiB, and
/// as many between them. Enough to tell most files of one size apart. Throws InputError.
std::string sampled_hash(const std::string& path);

/// Hashes the inputs block by block. Blocks that the study reads are hashed then, while they are in the cache; one
/// thread hashes the rest beside the study, from the ends of the files, so that it meets the study in the middle.
class InputHashes {
 public:
  /// Starts to hash `inputs`; `threads` as soon as somebody waits.
  InputHashes(const std::vector<InputStatus>& inputs, int threads);
  ~InputHashes();

  /// The hash of a block of inputs[input] that this process has read. Thread-safe, as take() is.
  void set(std::size_t input, const BlockHash& block);

  /// The hash of a block that `process` says it has read. `trusted`: this process need not read the block itself,
  /// unless it has. Throws InputError if this process has found another hash, or does so from get() once it does.
  void take(std::size_t input, const BlockHash& block, const std::string& process, bool trusted);

  /// Nothing is hashed beside the study any more, until somebody waits.
  void rest();
  /// Hashes blocks of inputs[input] that nobody knows, on the calling thread. Throws InputError.
  void hash(std::size_t input, std::span<const std::uint64_t> blocks);

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
  enum class State : std::uint8_t { unknown, being_hashed, known };
  struct Said {
    std::uint64_t hash;
    std::string process;
  };
  void run(const std::stop_token& stop, bool at_once);
  void hash_rest(const std::stop_token& stop);
  /// For one thread: whether it is to hash this block.
  bool begin(std::uint64_t number);
  void store(std::uint64_t number, std::uint64_t hash);
  /// Reads a block that was begun, into `buffer`.
  void hash_block(const InputFile& file, const Block& at, std::span<std::byte> buffer);
  [[noreturn]] void refuse(std::uint64_t number, const std::string& process) const;
  void finish(std::exception_ptr failure);
  void finish_locked(std::exception_ptr failure);
  Block place(std::uint64_t number) const;

  const std::vector<InputStatus> inputs_;
  std::vector<std::uint64_t> begins_;    ///< number of the first block of each input, and of the end
  std::atomic<std::uint64_t> next_ = 0;  ///< counts from the last block of all to the first
  std::mutex mutex_;                     ///< of the members below
  std::vector<std::uint64_t> hashes_of_blocks_;
  std::vector<State> states_;
  std::uint64_t unknown_;               ///< number of blocks whose hash is missing
  std::map<std::uint64_t, Said> said_;  ///< by other processes, of blocks that this one does not know
  std::condition_variable_any changed_;
  std::atomic<bool> hurry_ = false, resting_ = false;
  bool finished_ = false;
  std::vector<std::string> hashes_;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;  ///< last member: the threads use all the others
};

/// The hashes of whole files that nobody else reads. Throws InputError.
std::vector<std::string> content_hashes(const std::vector<std::string>& paths, int threads);

}  // namespace attest
