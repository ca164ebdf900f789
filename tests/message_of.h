// The messages of errors.
#pragma once

#include <gtest/gtest.h>

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

/// The same of a file: one line, which begins with the path; without the path.
template <class E, class Call>
std::string refusal_of_file(const std::string& path, Call&& call) {
  const std::string message = message_of<E>(call);
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  if (message.starts_with(path + ": ")) return message.substr(path.size() + 2);
  EXPECT_EQ(message, "") << "expected " << path << " at its begin";
  return message;
}

}  // namespace attest
