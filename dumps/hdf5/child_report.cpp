// The words of errors of a guarded child.
#include "dumps/hdf5/child_report.h"

#include <fmt/core.h>

#include <csignal>
#include <cstring>

#include "dumps/base/error.h"
#include "dumps/base/machine_limits.h"
#include "dumps/base/printable.h"

namespace attest {
namespace {

/// For the parent: the file may have damaged the memory of the child, whose text may then have no end.
template <std::size_t N>
std::string text_of(const char (&written)[N]) {
  return printable({written, ::strnlen(written, N)});
}

}  // namespace

void throw_for(const std::string& file, int status, const ChildReport& report, const ChildLimits& limits) {
  const bool of_memory = has_ended(status, ChildEnd::memory_reported);
  const bool reported = of_memory || has_ended(status, ChildEnd::reported);
  const std::string object = text_of(report.object), error = text_of(report.error);
  if (has_ended(status, ChildEnd::limit_reported)) throw LimitError(error);
  // With too little memory HDF5 crashes or says that it cannot allocate, which tells nothing of the file.
  const int ended_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  const bool busy = ended_by == SIGXCPU || ended_by == SIGALRM;
  if (report.little_memory != 0 && !busy && (!reported || of_memory))
    throw LimitError(fmt::format("{}: {}: cannot be read, {}", file, object, memory_limit_text()));
  if (reported) throw InputError(error);
  if (ended_by == SIGINT || ended_by == SIGTERM || ended_by == SIGHUP) throw Interrupted("interrupted");
  if (ended_by == SIGKILL)
    throw LimitError(
        fmt::format("{}: {}: the process that reads it was killed, probably for want of memory", file, object));
  std::string what = "HDF5 failed on it";
  if (ended_by != 0) {
    what = busy ? fmt::format("HDF5 was still busy with it after {} s",
                              ended_by == SIGALRM ? wall_seconds(limits) : limits.processor_seconds)
                : fmt::format("HDF5 crashed on it ({})", strsignal(ended_by));
  }
  throw InputError(fmt::format("{}: {}: the file is damaged, {}", file, object, what));
}

}  // namespace attest
