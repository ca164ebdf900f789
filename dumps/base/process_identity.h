// A process on a machine, for files that name the process that works on them.
#pragma once

#include <sys/types.h>

#include <string>

namespace attest {

struct ProcessIdentity {
  std::string host;  ///< name of the machine, fit for messages
  /// The same for processes that see each other's numbers: this start of the machine, and the container.
  std::string machine;
  pid_t process = 0;
  std::string started;  ///< distinguishes it from a later process of the same number

  static ProcessIdentity of_this_process();
  bool on_this_machine() const;
  /// Whether a process on_this_machine() has not ended.
  bool alive() const;
};

/// The name of this machine, fit for messages.
std::string host_name();

}  // namespace attest
