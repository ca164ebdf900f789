// PartialOwner: files that only one process can make, and which processes are alive.
#include "analysis/results/partial_owner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "dumps/base/atomic_file.h"
#include "dumps/base/error.h"
#include "dumps/base/json_text.h"
#include "dumps/base/printable.h"
#include "dumps/base/process_identity.h"

namespace attest {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kPrefix = "owner-";

/// N of owner-N, or 0.
int number_in(std::string_view name) {
  int number = 0;
  if (!name.starts_with(kPrefix)) return 0;
  name.remove_prefix(kPrefix.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc{} && end == name.data() + name.size() && number > 0 && number < INT_MAX ? number : 0;
}

std::string file_of(const std::string& folder, int number) { return fmt::format("{}/{}{}", folder, kPrefix, number); }

/// Ascending.
std::vector<int> numbers_in(const std::string& folder) {
  std::vector<int> numbers;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (const int number = number_in(at->path().filename().string()); number > 0) numbers.push_back(number);
  std::ranges::sort(numbers);
  return numbers;
}

std::string text_of(const std::string& path) {
  constexpr std::size_t kMost = 4096;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMost, '\0');
  file.read(text.data(), static_cast<std::streamsize>(kMost));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

json this_process() {
  const ProcessIdentity self = ProcessIdentity::of_this_process();
  return {{"host", self.host}, {"machine", self.machine}, {"process", self.process}, {"started", self.started}};
}

/// Throws OutputError unless the owner has died on this machine.
void require_dead(const std::string& folder, const std::string& path, const std::string& text) {
  constexpr const char* kWhy = "its file system has no locks, so one process at a time can work on the study";
  const std::optional<json> owner = parse_json(text);
  try {
    if (!owner) throw OutputError(fmt::format("'{}' is damaged; if no process uses '{}', remove it", path, folder));
    const ProcessIdentity found{owner->at("host"), owner->at("machine"), owner->at("process"), owner->at("started")};
    if (!found.on_this_machine())
      throw OutputError(
          fmt::format("'{}' belongs to process {} on '{}', and {}; if that process has ended, remove '{}'", folder,
                      found.process, printable(found.host), kWhy, path));
    if (found.alive())
      throw OutputError(
          fmt::format("'{}' belongs to process {}, which is running, and {}", folder, found.process, kWhy));
  } catch (const json::exception&) {
    throw OutputError(fmt::format("'{}' is damaged; if no process uses '{}', remove it", path, folder));
  }
}

}  // namespace

PartialOwner::PartialOwner(const std::string& folder) : content_(this_process().dump() + "\n") {
  for (;;) {
    const std::vector<int> numbers = numbers_in(folder);
    const int last = numbers.empty() ? 0 : numbers.back();
    if (last > 0) {
      const std::string path = file_of(folder, last), text = text_of(path);
      std::error_code error;
      if (text.empty() && !fs::exists(path, error)) continue;  // its process has just ended
      require_dead(folder, path, text);
    }
    path_ = file_of(folder, last + 1);
    try {
      write_atomically(path_, content_, {.overwrite = false});
      break;
    } catch (const OutputError&) {
      std::error_code error;
      if (!fs::exists(path_, error)) throw;  // else another process was faster
    }
  }
  cleanup_.emplace([path = path_] { ::unlink(path.c_str()); });
}

PartialOwner::~PartialOwner() {
  if (text_of(path_) == content_) ::unlink(path_.c_str());  // else remove_files() was called, and another one has come
}

bool PartialOwner::is_file_name(std::string_view name) { return number_in(name) > 0; }

bool PartialOwner::is_this_process(const std::string& folder) {
  const std::vector<int> numbers = numbers_in(folder);
  return !numbers.empty() && text_of(file_of(folder, numbers.back())) == this_process().dump() + "\n";
}

void PartialOwner::remove_files(const std::string& folder) {
  for (const int number : numbers_in(folder)) ::unlink(file_of(folder, number).c_str());
}

}  // namespace attest
