// Processes by what /proc says of them.
#include "dumps/base/process_identity.h"

#include <fmt/core.h>
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

struct ProcessStat {
  std::string state;    ///< field 3
  std::string started;  ///< field 22: in ticks since the machine's start
  bool is_dead() const { return state == "Z" || state == "X"; }
};

/// The second field is a name in parentheses that may have anything in it. Empty fields if there is no such process.
ProcessStat stat_of(pid_t process) {
  const std::string stat = text_of(fmt::format("/proc/{}/stat", process));
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return {};
  ProcessStat found;
  std::istringstream fields(stat.substr(name_end + 1));
  fields >> found.state;
  for (int i = 4; i <= 22; ++i) fields >> found.started;
  return found;
}

std::string this_machine() {
  std::string boot = text_of("/proc/sys/kernel/random/boot_id");
  if (boot.ends_with('\n')) boot.pop_back();
  std::error_code error;
  return boot + " " + fs::read_symlink("/proc/self/ns/pid", error).string();
}

}  // namespace

ProcessIdentity ProcessIdentity::of_this_process() {
  return {host_name(), this_machine(), ::getpid(), stat_of(::getpid()).started};
}

bool ProcessIdentity::on_this_machine() const { return machine == this_machine(); }

bool ProcessIdentity::alive() const {
  const ProcessStat now = stat_of(process);
  if (now.is_dead()) return false;  // its parent has not waited for it yet
  return now.started.empty() ? ::kill(process, 0) == 0 || errno == EPERM : now.started == started;
}

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? printable(name) : "";
}

}  // namespace attest
