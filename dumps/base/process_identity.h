// Which process on which machine: for files that say who is at work.
#pragma once

#include <sys/types.h>

#include <string>

namespace attest {

struct ProcessIdentity {
  std::string host;  ///< name of the machine, fit for messages
  std::string
      machine;  ///< the same for processes that see each other's numbers: this start of the machine, the container
  pid_t process = 0;
  std::string started;  ///< tells it from a later process of that number

  static ProcessIdentity of_this_process();
  bool on_this_machine() const;
  /// Whether a process on_this_machine() has not ended.
  bool alive() const;
};

/// The name of this machine, fit for messages.
std::string host_name();

}  // namespace attest
