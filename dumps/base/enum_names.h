// The words that options and files have for the values of an enum.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace attest {

/// An array of these stands beside the enum.
template <class Enum>
struct EnumName {
  Enum value;
  std::string_view name;
};

/// Throws std::logic_error for a value that the array lacks.
template <class Enum, std::size_t kCount>
constexpr std::string_view name_in(const EnumName<Enum> (&names)[kCount], Enum value) {
  for (const EnumName<Enum>& one : names)
    if (one.value == value) return one.name;
  throw std::logic_error("a value of an enum without a name");
}

/// Throws std::logic_error for a name that the array lacks: whoever reads names refuses others.
template <class Enum, std::size_t kCount>
constexpr Enum value_in(const EnumName<Enum> (&names)[kCount], std::string_view name) {
  for (const EnumName<Enum>& one : names)
    if (one.name == name) return one.value;
  throw std::logic_error("not the name of a value of an enum");
}

/// All names, for checks and messages.
template <class Enum, std::size_t kCount>
std::vector<std::string> names_in(const EnumName<Enum> (&names)[kCount]) {
  std::vector<std::string> all;
  for (const EnumName<Enum>& one : names) all.emplace_back(one.name);
  return all;
}

}  // namespace attest
