// Compares the hashes of a study's inputs with those that another process has found.
#include "analysis/run/input_guard.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "analysis/results/study_difference.h"
#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kNote = "inputs.json";
/// Inputs that are hashed before the first unit, so that their hash is noted whenever the study is killed.
constexpr std::uint64_t kSmall = std::uint64_t{64} << 20;
constexpr auto kSmallWait = std::chrono::milliseconds(500);
constexpr auto kPollInterval = std::chrono::milliseconds(20);

}  // namespace

InputGuard::InputGuard(std::vector<InputStatus> inputs, const PartialResults& partial, InputHashes& hashes,
                       const std::atomic<bool>& stop)
    : inputs_(std::move(inputs)), partial_(partial), hashes_(hashes), stop_(stop) {
  std::uint64_t bytes = 0;
  for (const InputStatus& input : inputs_) bytes += input.bytes;
  const Clock::time_point start = Clock::now();
  while (bytes <= kSmall && hashes_.wait(kPollInterval) == nullptr && Clock::now() - start < kSmallWait && !stop_) {
  }
  poll();
}

void InputGuard::poll() {
  if (compared_) return;
  const std::vector<std::string>* hashes = hashes_.get();
  if (hashes == nullptr) return;
  compare_or_note(*hashes);
  compared_ = true;
}

void InputGuard::compare_or_note(const std::vector<std::string>& hashes) {
  const Json own{{"by", partial_.self()}, {kContentHashName, hashes}};
  if (partial_.store_note(kNote, own.dump())) return;
  const std::optional<std::string> text = partial_.load_note(kNote);
  const std::optional<Json> note = text ? parsed_json(*text) : std::nullopt;
  try {
    if (!note) return;  // the study is complete, or the note is damaged: the units' own hashes remain
    const auto noted = note->at(kContentHashName).as<std::vector<std::string>>();
    for (std::size_t i = 0; i < std::min(hashes.size(), noted.size()); ++i)
      if (noted[i] != hashes[i]) {
        const std::string found = fmt::format("{} reads another '{}' than {} did, of other content", partial_.self(),
                                              inputs_[i].path, excerpt(note->at("by").text()));
        throw OtherStudyError<InputError>(fmt::format("cannot resume: {}; {}", found, PartialResults::kStartOver),
                                          found);
      }
  } catch (const JsonError&) {  // a damaged note counts as missing
  }
}

std::vector<std::string> InputGuard::finish() {
  const std::vector<std::string>* hashes = hashes_.get();
  while (hashes == nullptr) {
    if (stop_) throw Interrupted("interrupted");
    hashes = hashes_.wait(kPollInterval);
  }
  compare_or_note(*hashes);
  for (const InputStatus& input : inputs_)
    if (input_status(input.path) != input)
      throw InputError(fmt::format("'{}' changed while it was studied", input.path));
  return *hashes;
}

}  // namespace attest
