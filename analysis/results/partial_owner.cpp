// PartialOwner: files that only one process can make, and which processes are alive.
#include "analysis/results/partial_owner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "dumps/base/atomic_file.h"
#include "dumps/base/error.h"
#include "dumps/base/json_text.h"
#include "dumps/base/printable.h"

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

/// When a process was started, in ticks since the machine's start: field 22 of its stat, whose second field is a name
/// in parentheses that may have anything in it. Empty if there is no such process.
std::string start_of(pid_t process) {
  const std::string stat = text_of(fmt::format("/proc/{}/stat", process));
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return "";
  std::string field;
  std::istringstream fields(stat.substr(name_end + 1));
  for (int i = 3; i <= 22; ++i) fields >> field;
  return field;
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? printable(name) : "";
}

/// The same for processes that see each other's numbers: this start of the machine, and the container.
std::string machine() {
  std::string boot = text_of("/proc/sys/kernel/random/boot_id");
  if (boot.ends_with('\n')) boot.pop_back();
  std::error_code error;
  return boot + " " + fs::read_symlink("/proc/self/ns/pid", error).string();
}

json this_process() {
  return {{"host", host_name()}, {"machine", machine()}, {"process", ::getpid()}, {"started", start_of(::getpid())}};
}

bool alive(pid_t process, const std::string& started) {
  const std::string now = start_of(process);
  return now.empty() ? ::kill(process, 0) == 0 || errno == EPERM : now == started;
}

/// Throws OutputError unless the owner has died on this machine.
void require_dead(const std::string& folder, const std::string& path, const std::string& text) {
  constexpr const char* kWhy = "its file system has no locks, so one process at a time can work on the study";
  const std::optional<json> owner = parse_json(text);
  try {
    if (!owner) throw OutputError(fmt::format("'{}' is damaged; if no process uses '{}', remove it", path, folder));
    const pid_t process = owner->at("process");
    if (owner->at("machine") != machine())
      throw OutputError(
          fmt::format("'{}' belongs to process {} on '{}', and {}; if that process has ended, remove '{}'", folder,
                      process, printable(owner->at("host").get<std::string>()), kWhy, path));
    if (alive(process, owner->at("started")))
      throw OutputError(fmt::format("'{}' belongs to process {}, which is running, and {}", folder, process, kWhy));
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
