// The project's errors as text, for another process that throws them again.
#pragma once

#include <string>

namespace attest {

struct ErrorText {
  std::string kind;  ///< "usage", "input", "output", "device", "limit", "interrupted" or "internal"
  std::string sentence;

  /// Of the exception that is being handled.
  static ErrorText of_current();
  /// Throws the error of that kind.
  [[noreturn]] void rethrow() const;
};

}  // namespace attest
