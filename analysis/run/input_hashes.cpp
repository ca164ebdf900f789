// Hashes files piece by piece: threads take the pieces in the order of the files.
#include "analysis/run/input_hashes.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <system_error>

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

constexpr std::size_t kSlice = std::size_t{1} << 20;  // read and hashed at a time: it fits the cache

struct Piece {
  std::size_t file;
  std::uint64_t begin, end;
};

std::vector<Piece> pieces_of(const std::vector<std::string>& paths) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::uint64_t size = InputFile(paths[i]).size();
    for (std::uint64_t begin = 0; begin < size; begin += kHashedPiece)
      pieces.push_back({i, begin, std::min(size, begin + kHashedPiece)});
  }
  return pieces;
}

std::uint64_t hash_piece(const std::string& path, const Piece& piece, std::vector<std::byte>& slice,
                         const std::stop_token& stop) {
  // Opened for each piece, because there may be more files than a process may have open.
  const InputFile file(path);
  ContentHash hash;
  slice.resize(kSlice);
  for (std::uint64_t at = piece.begin; at < piece.end; at += kSlice) {
    if (stop.stop_requested()) throw Interrupted("stopped while hashing '" + path + "'");
    const std::span bytes = std::span(slice).first(std::min<std::uint64_t>(kSlice, piece.end - at));
    file.read(at, bytes);
    hash.update(bytes);
  }
  return hash.digest();
}

}  // namespace

std::vector<std::string> content_hashes(const std::vector<std::string>& paths, int threads,
                                        const std::stop_token& stop) {
  const std::vector<Piece> pieces = pieces_of(paths);
  std::vector<std::uint64_t> digests(pieces.size());
  std::vector<std::vector<std::byte>> slices(static_cast<std::size_t>(threads));
  parallel_for(threads, pieces.size(), [&](int worker, std::size_t i) {
    digests[i] = hash_piece(paths[pieces[i].file], pieces[i], slices[static_cast<std::size_t>(worker)], stop);
  });
  std::vector<std::string> lines(paths.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) lines[pieces[i].file] += hex_digits(digests[i]) + '\n';
  std::vector<std::string> hashes;
  for (const std::string& text : lines) hashes.push_back(hex_digits(hash_of(std::as_bytes(std::span(text)))));
  return hashes;
}

int hashing_threads(int threads) { return std::clamp(threads / 2, 1, 8); }

InputHashes::InputHashes(std::vector<std::string> paths, int threads)
    : paths_(std::move(paths)), threads_(threads), thread_([this](const std::stop_token& stop) { run(stop); }) {}

void InputHashes::run(const std::stop_token& stop) {
  std::vector<std::string> hashes;
  std::exception_ptr failure;
  try {
    hashes = content_hashes(paths_, threads_, stop);
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
