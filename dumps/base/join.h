// Lists and counts in messages.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace attest {

/// The values, each as fmt writes it, with `separator` between them.
template <class Values>
std::string join(const Values& values, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const auto& value : values) {
    if (!first) text += separator;
    first = false;
    text += fmt::format("{}", value);
  }
  return text;
}

/// "1 sample", "12 samples".
inline std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace attest
