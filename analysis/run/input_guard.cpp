// Checks that the inputs of a study do not change while it runs or between its runs.
#include "analysis/run/input_guard.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "dumps/base/error.h"

namespace attest {
namespace {

using nlohmann::json;

constexpr const char* kNote = "inputs.json";
constexpr auto kHashWait = std::chrono::milliseconds(100);

std::vector<std::string> paths_of(const std::vector<InputStatus>& inputs) {
  std::vector<std::string> paths;
  for (const InputStatus& input : inputs) paths.push_back(input.path);
  return paths;
}

[[noreturn]] void refuse(const std::string& path, std::string_view why) {
  throw UsageError(fmt::format("cannot resume: '{}' {}; start over with --force", path, why));
}

/// The note of an earlier run: modification time and hash of each input; the hash is "" if it was not known yet.
struct Noted {
  std::vector<std::int64_t> modified_ns;
  std::vector<std::string> hashes;
};

std::optional<Noted> read_note(const PartialResults& partial, std::size_t num_inputs) {
  const std::optional<std::string> text = partial.load_note(kNote);
  if (!text) return std::nullopt;
  try {
    Noted noted;
    for (const json& input : json::parse(*text)) {
      noted.modified_ns.push_back(input.at("modified_ns"));
      noted.hashes.push_back(input.at(kContentHashName));
    }
    if (noted.hashes.size() == num_inputs) return noted;
  } catch (const json::exception&) {  // a damaged note counts as missing
  }
  return std::nullopt;
}

std::vector<std::string> check_against_note(const std::vector<InputStatus>& inputs, const PartialResults& partial) {
  const std::optional<Noted> noted = read_note(partial, inputs.size());
  if (!noted) return {};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].modified_ns == noted->modified_ns[i]) continue;
    if (noted->hashes[i].empty()) refuse(inputs[i].path, "was modified since the study was started");
    if (content_hash(inputs[i].path) != noted->hashes[i])
      refuse(inputs[i].path, "has other contents than when the study was started");
  }
  return noted->hashes;
}

}  // namespace

InputGuard::InputGuard(std::vector<InputStatus> inputs, PartialResults& partial)
    : inputs_(std::move(inputs)),
      partial_(partial),
      begun_with_(check_against_note(inputs_, partial)),
      hashes_(paths_of(inputs_)) {
  if (begun_with_.empty()) begun_with_.assign(inputs_.size(), "");
  note(begun_with_);
  // Long enough to hash inputs of up to about 1 GiB before the first unit.
  hashes_.wait(kHashWait);
  poll();
}

void InputGuard::note(const std::vector<std::string>& hashes) {
  json list = json::array();
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    list.push_back({{"modified_ns", inputs_[i].modified_ns}, {kContentHashName, hashes[i]}});
  partial_.store_note(kNote, list.dump());
}

void InputGuard::poll() {
  if (noted_) return;
  const std::vector<std::string>* hashes = hashes_.wait(std::chrono::milliseconds(0));
  if (hashes == nullptr) return;
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (!begun_with_[i].empty() && begun_with_[i] != (*hashes)[i])
      refuse(inputs_[i].path, "has other contents than when the study was started");
  note(*hashes);
  noted_ = true;
}

std::vector<std::string> InputGuard::finish(const std::atomic<bool>& stop) {
  const std::vector<std::string>* hashes = hashes_.wait(kHashWait);
  for (; hashes == nullptr; hashes = hashes_.wait(kHashWait))
    if (stop) throw Interrupted("interrupted");
  poll();
  for (const InputStatus& input : inputs_)
    if (input_status(input.path) != input)
      throw InputError(fmt::format("'{}' changed while it was studied", input.path));
  return *hashes;
}

}  // namespace attest
