// Processes by what /proc says of them.
#include "dumps/base/process_identity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "dumps/base/printable.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
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

std::string this_machine() {
  std::string boot = text_of("/proc/sys/kernel/random/boot_id");
  if (boot.ends_with('\n')) boot.pop_back();
  std::error_code error;
  return boot + " " + fs::read_symlink("/proc/self/ns/pid", error).string();
}

}  // namespace

ProcessIdentity ProcessIdentity::of_this_process() {
  return {host_name(), this_machine(), ::getpid(), start_of(::getpid())};
}

bool ProcessIdentity::on_this_machine() const { return machine == this_machine(); }

bool ProcessIdentity::alive() const {
  const std::string now = start_of(process);
  return now.empty() ? ::kill(process, 0) == 0 || errno == EPERM : now == started;
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? printable(name) : "";
}

}  // namespace attest
