// Limits in words, from getrlimit.
#include "dumps/base/machine_limits.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <cerrno>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/base/file_descriptor.h"

namespace attest {
namespace {

/// "ulimit -n is 64"; empty if there is no limit.
std::string ulimit_text(decltype(RLIMIT_AS) resource, char letter, rlim_t unit, const char* unit_name) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format("ulimit -{} is {}{}", letter, limit.rlim_cur / unit, unit_name);
}

std::string with_limits(const std::string& text, const std::vector<std::string>& limits) {
  std::string known;
  for (const std::string& limit : limits)
    if (!limit.empty()) known += (known.empty() ? "" : ", ") + limit;
  return known.empty() ? text : fmt::format("{} ({})", text, known);
}

}  // namespace

std::string memory_limit_text() { return with_limits("out of memory", {ulimit_text(RLIMIT_AS, 'v', 1024, " KiB")}); }

std::string limit_text(int error_number) {
  switch (error_number) {
    case EMFILE:
      return with_limits("too many open files", {ulimit_text(RLIMIT_NOFILE, 'n', 1, "")});
    case ENFILE:
      return "too many open files on this machine";
    case EAGAIN:  // of fork and of starting a thread, also when there is no memory for its stack
      return with_limits("no further process or thread can be started",
                         {ulimit_text(RLIMIT_NPROC, 'u', 1, ""), ulimit_text(RLIMIT_AS, 'v', 1024, " KiB")});
    case ENOMEM:
      return memory_limit_text();
    default:
      return "";
  }
}

void throw_if_limit(const std::string& what, int error_number) {
  if (const std::string limit = limit_text(error_number); !limit.empty())
    throw LimitError(fmt::format("{}: {}", what, limit));
}

void require_descriptors(const std::string& what, int count) {
  std::vector<FileDescriptor> tried;
  for (int i = 0; i < count; ++i) {
    tried.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!tried.back()) throw_if_limit(what, errno);
  }
}

}  // namespace attest
