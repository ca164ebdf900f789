// The messages of errors.
#pragma once

#include <string>

namespace attest {

/// The message of the error of type E that `call` throws; "" when it throws none.
template <class E, class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

}  // namespace attest
