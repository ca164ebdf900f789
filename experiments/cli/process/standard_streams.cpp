// Opening and flushing of the standard streams.
#include "experiments/cli/process/standard_streams.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>

#include "dumps/base/error.h"

namespace attest {

void open_missing_standard_streams() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor)
    if (::fcntl(descriptor, F_GETFD) < 0) ::open("/dev/null", O_RDWR);  // it gets the lowest free number, this one
}

void flush_standard_output() {
  errno = 0;
  if (std::cout.flush()) return;
  const int error = errno;  // 0 if an earlier write failed
  pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  if (::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0) {  // a pipe without a reader
    std::signal(SIGPIPE, SIG_DFL);
    ::raise(SIGPIPE);
  }
  throw OutputError(error == 0 ? "cannot write to standard output"
                               : fmt::format("cannot write to standard output ({})", std::strerror(error)));
}

}  // namespace attest
