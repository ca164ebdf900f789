// InputHashes: a table of the hashes of all blocks, filled in by whoever has read a block.
#include "analysis/run/input_hashes.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <system_error>

#include "analysis/results/partial_results.h"
#include "analysis/results/study_difference.h"
#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "dumps/format/dump_reader.h"

namespace attest {

InputStatus input_status(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw InputError(fmt::format("{}: {}", path, std::generic_category().message(errno)));
  return {.path = path,
          .bytes = static_cast<std::uint64_t>(status.st_size),
          .modified_ns = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

std::string sampled_hash(const std::string& path) {
  constexpr std::uint64_t kPiece = 64 << 10, kPieces = 16;
  const InputFile file(path);
  ContentHash hash;
  std::vector<std::byte> bytes(std::min(file.size(), kPiece));
  const std::string size = std::to_string(file.size());
  hash.update(std::as_bytes(std::span(size)));
  const std::uint64_t last = file.size() - bytes.size();
  for (std::uint64_t i = 0; i < kPieces; ++i) {
    file.read(last / (kPieces - 1) * i + last % (kPieces - 1) * i / (kPieces - 1), bytes);
    hash.update(bytes);
  }
  return hex_digits(hash.digest());
}

InputHashes::InputHashes(const std::vector<InputStatus>& inputs, int threads) : inputs_(inputs), begins_{0} {
  for (const InputStatus& input : inputs_)
    begins_.push_back(begins_.back() + (input.bytes + kFileBlock - 1) / kFileBlock);
  hashes_of_blocks_.resize(begins_.back());
  states_.resize(begins_.back());
  unknown_ = begins_.back();
  if (unknown_ == 0) finish(nullptr);
  for (int i = 0; i < std::max(1, threads); ++i)
    threads_.emplace_back([this, i](const std::stop_token& stop) { run(stop, i == 0); });
}

InputHashes::~InputHashes() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

InputHashes::Block InputHashes::place(std::uint64_t number) const {
  const auto after = std::ranges::upper_bound(begins_, number);
  const auto input = static_cast<std::size_t>(after - begins_.begin()) - 1;
  return {input, number - begins_[input]};
}

void InputHashes::set(std::size_t input, const BlockHash& block) {
  // Otherwise the file has grown, which InputGuard notices.
  if (block.block >= begins_.at(input + 1) - begins_.at(input)) return;
  store(begins_.at(input) + block.block, block.hash);
}

void InputHashes::store(std::uint64_t number, std::uint64_t hash) {
  const std::lock_guard lock(mutex_);
  const auto said = said_.find(number);
  if (said != said_.end() && said->second.hash != hash) {
    try {
      refuse(number, said->second.process);
    } catch (const InputError&) {
      return finish_locked(std::current_exception());
    }
  }
  if (said != said_.end()) said_.erase(said);
  if (states_[number] == State::known) return;
  hashes_of_blocks_[number] = hash;
  states_[number] = State::known;
  if (--unknown_ == 0) finish_locked(nullptr);
}

void InputHashes::take(std::size_t input, const BlockHash& block, const std::string& process, bool trusted) {
  if (input + 1 >= begins_.size() || block.block >= begins_[input + 1] - begins_[input])
    throw InputError(fmt::format("{} has computed a layer from a file of another size than this one", process));
  const std::uint64_t number = begins_[input] + block.block;
  const std::lock_guard lock(mutex_);
  if (states_[number] == State::known) {
    if (hashes_of_blocks_[number] != block.hash) refuse(number, process);
    return;
  }
  const auto [said, is_new] = said_.emplace(number, Said{.hash = block.hash, .process = process});
  if (!is_new && said->second.hash != block.hash)
    refuse(number, fmt::format("{} or {}", said->second.process, process));
  if (!trusted) return;
  // What was said stays: this process may still read the block for a layer of its own.
  hashes_of_blocks_[number] = block.hash;
  states_[number] = State::known;
  if (--unknown_ == 0) finish_locked(nullptr);
}

void InputHashes::refuse(std::uint64_t number, const std::string& process) const {
  const Block at = place(number);
  const std::string found =
      fmt::format("'{}' has other content than the file from which {} has computed a layer, in the {} bytes from {} on",
                  inputs_[at.input].path, printable(process), kFileBlock, at.block * kFileBlock);
  throw OtherStudyError<InputError>(fmt::format("{}; {}", found, PartialResults::kStartOver), found);
}

bool InputHashes::begin(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (states_[number] != State::unknown) return false;
  states_[number] = State::being_hashed;
  return true;
}

void InputHashes::run(const std::stop_token& stop, bool at_once) {
  const auto wait_until_wanted = [&] {
    std::unique_lock lock(mutex_);
    return changed_.wait(lock, stop, [this] { return hurry_ || finished_; });
  };
  if (!at_once && !wait_until_wanted()) return;
  try {
    hash_rest(stop);
    if (at_once && resting_ && wait_until_wanted()) hash_rest(stop);
  } catch (...) {
    finish(std::current_exception());
  }
}

void InputHashes::hash_rest(const std::stop_token& stop) {
  std::vector<std::byte> buffer(kFileBlock);
  std::optional<InputFile> file;
  std::size_t open_input = inputs_.size();
  const auto at_rest = [this] { return resting_ && !hurry_; };
  for (std::uint64_t i = 0; !stop.stop_requested() && !at_rest() && (i = next_++) < states_.size();) {
    const std::uint64_t number = states_.size() - 1 - i;
    if (!begin(number)) continue;
    const Block at = place(number);
    if (at.input != open_input) file.emplace(inputs_[at.input].path);
    open_input = at.input;
    hash_block(*file, at, buffer);
  }
}

void InputHashes::hash_block(const InputFile& file, const Block& at, std::span<std::byte> buffer) {
  const std::uint64_t begin = at.block * kFileBlock;
  const std::span bytes = buffer.first(std::min(kFileBlock, inputs_[at.input].bytes - begin));
  file.read(begin, bytes);
  store(begins_[at.input] + at.block, hash_of(bytes));
}

void InputHashes::hash(std::size_t input, std::span<const std::uint64_t> blocks) {
  std::vector<std::byte> buffer(kFileBlock);
  const InputFile file(inputs_.at(input).path);
  for (const std::uint64_t block : blocks)
    if (block < begins_[input + 1] - begins_[input] && begin(begins_[input] + block))
      hash_block(file, {input, block}, buffer);
}

void InputHashes::finish(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  finish_locked(std::move(failure));
}

void InputHashes::finish_locked(std::exception_ptr failure) {
  if (failure) {
    if (!failure_) failure_ = std::move(failure);
    finished_ = true;
    changed_.notify_all();
    return;
  }
  if (finished_) return;
  std::vector<std::string> hashes;
  for (std::size_t input = 0; input < inputs_.size(); ++input) {
    std::string lines;
    for (std::uint64_t number = begins_[input]; number < begins_[input + 1]; ++number)
      lines += hex_digits(hashes_of_blocks_[number]) + '\n';
    hashes.push_back(hex_digits(hash_of(std::as_bytes(std::span(lines)))));
  }
  hashes_ = std::move(hashes);
  finished_ = true;
  changed_.notify_all();
}

void InputHashes::rest() { resting_ = true; }

const std::vector<std::string>* InputHashes::get() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  return finished_ ? &hashes_ : nullptr;
}

const std::vector<std::string>* InputHashes::wait(std::chrono::milliseconds timeout) {
  {
    std::unique_lock lock(mutex_);
    hurry_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, timeout, [this] { return finished_; });
  }
  return get();
}

std::vector<std::string> content_hashes(const std::vector<std::string>& paths, int threads) {
  std::vector<InputStatus> inputs;
  for (const std::string& path : paths) inputs.push_back(input_status(path));
  InputHashes hashes(inputs, threads);
  const std::vector<std::string>* known = nullptr;
  while (known == nullptr) known = hashes.wait(std::chrono::seconds(1));
  return *known;
}

}  // namespace attest
