// Checks that the inputs of a study do not change while it runs or between its runs.
#include "analysis/run/input_guard.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "dumps/base/error.h"
#include "dumps/base/json_text.h"

namespace attest {
namespace {

using nlohmann::json;

constexpr const char* kNote = "inputs.json";
/// Inputs that are hashed before the first unit, so that their hash is noted whenever the study is killed.
constexpr std::uint64_t kSmall = std::uint64_t{64} << 20;
constexpr auto kSmallWait = std::chrono::milliseconds(500);
constexpr auto kPollInterval = std::chrono::milliseconds(20);

[[noreturn]] void refuse(const std::string& path, std::string_view why) {
  throw UsageError(fmt::format("cannot resume: '{}' {}; {}", path, why, PartialResults::kStartOver));
}

/// The note of an earlier run: modification time and hash of each input; the hash is "" if it was not known yet.
struct Noted {
  std::vector<std::int64_t> modified_ns;
  std::vector<std::string> hashes;
};

std::optional<Noted> read_note(const PartialResults& partial, std::size_t num_inputs) {
  const std::optional<std::string> text = partial.load_note(kNote);
  if (!text) return std::nullopt;
  const std::optional<json> note = parse_json(*text);
  if (!note) return std::nullopt;
  try {
    Noted noted;
    for (const json& input : *note) {
      noted.modified_ns.push_back(input.at("modified_ns"));
      noted.hashes.push_back(input.at(kContentHashName));
    }
    if (noted.hashes.size() == num_inputs) return noted;
  } catch (const json::exception&) {  // a damaged note counts as missing
  }
  return std::nullopt;
}

}  // namespace

InputGuard::InputGuard(std::vector<InputStatus> inputs, PartialResults& partial, InputHashes& hashes,
                       const std::atomic<bool>& stop)
    : inputs_(std::move(inputs)), partial_(partial), hashes_(hashes), stop_(stop), begun_with_(check_against_note()) {
  if (begun_with_.empty()) begun_with_.assign(inputs_.size(), "");
  note(begun_with_);
  std::uint64_t bytes = 0;
  for (const InputStatus& input : inputs_) bytes += input.bytes;
  if (bytes <= kSmall) hashes_.wait(kSmallWait);
  poll();
}

std::vector<std::string> InputGuard::check_against_note() {
  const std::optional<Noted> noted = read_note(partial_, inputs_.size());
  if (!noted) return {};
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].modified_ns == noted->modified_ns[i]) continue;
    if (noted->hashes[i].empty()) refuse(inputs_[i].path, "was modified since the study was started");
    if (wait_for_hashes()[i] != noted->hashes[i])
      refuse(inputs_[i].path, "has other contents than when the study was started");
  }
  return noted->hashes;
}

const std::vector<std::string>& InputGuard::wait_for_hashes() {
  for (;;) {
    if (const std::vector<std::string>* hashes = hashes_.wait(kPollInterval)) return *hashes;
    if (stop_) throw Interrupted("interrupted");
  }
}

void InputGuard::note(const std::vector<std::string>& hashes) {
  json list = json::array();
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    list.push_back({{"modified_ns", inputs_[i].modified_ns}, {kContentHashName, hashes[i]}});
  partial_.store_note(kNote, list.dump());
}

void InputGuard::poll() {
  if (noted_) return;
  const std::vector<std::string>* hashes = hashes_.get();
  if (hashes == nullptr) return;
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (!begun_with_[i].empty() && begun_with_[i] != (*hashes)[i])
      refuse(inputs_[i].path, "has other contents than when the study was started");
  note(*hashes);
  noted_ = true;
}

std::vector<std::string> InputGuard::finish() {
  const std::vector<std::string>& hashes = wait_for_hashes();
  poll();
  for (const InputStatus& input : inputs_)
    if (input_status(input.path) != input)
      throw InputError(fmt::format("'{}' changed while it was studied", input.path));
  return hashes;
}

}  // namespace attest
