// Sentences about limits of the machine or the session: open files, processes, threads, memory.
#pragma once

#include <string>

namespace attest {

/// "too many open files (ulimit -n is 64)": for the errno of a system call that met a limit. Empty for other errors.
std::string limit_text(int error_number);

/// "out of memory (ulimit -v is 40000 KiB)"
std::string memory_limit_text();

/// Throws LimitError, "WHAT: limit_text", if the errno tells of a limit.
void throw_if_limit(const std::string& what, int error_number);

/// Throws LimitError if this process may not open so many further files.
void require_descriptors(const std::string& what, int count);

}  // namespace attest
