// Typed errors of the whole project. Libraries throw them; only experiments/main.cpp maps them to exit codes.
#pragma once

#include <stdexcept>
#include <string>

namespace attest {

/// Base of all errors that a user can cause; what() is one sentence that names file, object, expected and found.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Unknown option, selector or value; duplicate label; missing device; --resume with other options. Exit 2.
struct UsageError : Error {
  using Error::Error;
};

/// Missing, unreadable or malformed input; NaN or Inf in a dump. Exit 4.
struct InputError : Error {
  using Error::Error;
};

/// The target exists without --force, cannot be written, or the disk is full. Exit 5.
struct OutputError : Error {
  using Error::Error;
};

/// The GPU ran out of memory, or a call of its runtime failed. Exit 5, as for a full disk: finished work can be
/// resumed.
struct DeviceError : Error {
  using Error::Error;
};

/// A limit of the machine or the session is reached: open files, processes, threads, memory. Exit 5.
struct LimitError : Error {
  using Error::Error;
};

/// A command has not certified what it was asked. what() may be empty: the verdict has been told. Exit 3.
struct NotCertified : Error {
  using Error::Error;
};

/// Ctrl-C or another signal that ends the program, or --time-limit. Exit 130.
struct Interrupted : Error {
  using Error::Error;
};

}  // namespace attest
