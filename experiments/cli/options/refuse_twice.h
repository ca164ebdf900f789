// Lists of an option in which each value stands once.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "dumps/base/error.h"

namespace attest {

/// Throws UsageError for a value that is there twice: a typing error, or an overlap of ranges that would count its
/// results twice. `labels`: the values as typed.
template <class Value>
void refuse_twice(std::string_view option, const std::vector<Value>& values, const std::vector<std::string>& labels) {
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (values[i] == values[j])
        throw UsageError(labels[i] == labels[j]
                             ? fmt::format("{}: '{}' is there twice", option, labels[i])
                             : fmt::format("{}: '{}' and '{}' are the same", option, labels[j], labels[i]));
}

/// The same for values of which what was typed is not known.
template <class Value>
void refuse_twice(std::string_view option, const std::vector<Value>& values) {
  std::vector<std::string> labels;
  for (const Value& value : values) labels.push_back(fmt::format("{}", value));
  refuse_twice(option, values, labels);
}

}  // namespace attest
