// InputHashes: a table of the hashes of all blocks, filled in by whoever has read a block.
#include "analysis/run/input_hashes.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <system_error>

#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "dumps/base/input_file.h"
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

InputHashes::InputHashes(const std::vector<InputStatus>& inputs, int threads) : inputs_(inputs), begins_{0} {
  for (const InputStatus& input : inputs_)
    begins_.push_back(begins_.back() + (input.bytes + kFileBlock - 1) / kFileBlock);
  hashes_of_blocks_.resize(begins_.back());
  taken_ = std::vector<std::atomic<bool>>(begins_.back());
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
  const std::uint64_t number = begins_.at(input) + block.block;
  if (taken_[number].exchange(true)) return;
  hashes_of_blocks_[number] = block.hash;
  if (--unknown_ == 0) finish(nullptr);
}

void InputHashes::run(const std::stop_token& stop, bool at_once) {
  if (!at_once) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [this] { return hurry_ || finished_; })) return;
  }
  try {
    hash_rest(stop);
  } catch (...) {
    finish(std::current_exception());
  }
}

void InputHashes::hash_rest(const std::stop_token& stop) {
  std::vector<std::byte> buffer(kFileBlock);
  std::optional<InputFile> file;
  std::size_t open_input = inputs_.size();
  for (std::uint64_t i = next_++; i < taken_.size() && !stop.stop_requested(); i = next_++) {
    const std::uint64_t number = taken_.size() - 1 - i;
    if (taken_[number].exchange(true)) continue;
    const Block at = place(number);
    const InputStatus& input = inputs_[at.input];
    if (at.input != open_input) file.emplace(input.path);
    open_input = at.input;
    const std::uint64_t begin = at.block * kFileBlock;
    const std::span bytes = std::span(buffer).first(std::min(kFileBlock, input.bytes - begin));
    file->read(begin, bytes);
    hashes_of_blocks_[number] = hash_of(bytes);
    if (--unknown_ == 0) finish(nullptr);
  }
}

void InputHashes::finish(std::exception_ptr failure) {
  std::vector<std::string> hashes;
  for (std::size_t input = 0; !failure && input < inputs_.size(); ++input) {
    std::string lines;
    for (std::uint64_t number = begins_[input]; number < begins_[input + 1]; ++number)
      lines += hex_digits(hashes_of_blocks_[number]) + '\n';
    hashes.push_back(hex_digits(hash_of(std::as_bytes(std::span(lines)))));
  }
  const std::lock_guard lock(mutex_);
  if (finished_) return;
  hashes_ = std::move(hashes);
  failure_ = std::move(failure);
  finished_ = true;
  changed_.notify_all();
}

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
