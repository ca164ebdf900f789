// What a guarded child tells the parent about its end. For guarded_child.cpp.
#pragma once

#include <sys/wait.h>

#include <cstdint>
#include <string>

#include "dumps/hdf5/child_limits.h"

namespace attest {

/// A page shared with the parent: holds the child's error, and what it was reading even if it crashes.
struct ChildReport {
  char object[1024];
  char error[3071];
  std::uint8_t little_memory;  ///< not 0: a limit of the session leaves less than the child should have
};

/// The exit code; not 1, which sanitizers and abort handlers use.
enum class ChildEnd : int {
  done = 0,
  reported = 42,
  limit_reported = 43,
  memory_reported = 44,  ///< an error that too little memory explains
};
inline bool has_ended(int status, ChildEnd how) {
  return WIFEXITED(status) && WEXITSTATUS(status) == static_cast<int>(how);
}

/// Throws what a child that ended with `status`, which is not `done`, says of the file: InputError, LimitError or
/// Interrupted.
[[noreturn]] void throw_for(const std::string& file, int status, const ChildReport& report, const ChildLimits& limits);

}  // namespace attest
