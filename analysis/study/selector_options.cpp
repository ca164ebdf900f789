// Compares options of selectors with their defaults filled in.
#include "analysis/study/selector_options.h"

#include <algorithm>
#include <memory>

#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "kernels/selectors/registry.h"

namespace attest {

SelectorOptions selector_options(const std::string& json) {
  SelectorOptions options;
  const Json parsed = parsed_json(json).value_or(nullptr);
  if (parsed.is_object())
    for (const auto& [name, value] : parsed.members()) options[name] = value.is_text() ? value.text() : value.dump();
  return options;
}

SelectorOptions completed_options(const std::string& selector, const SelectorOptions& given) {
  try {
    SelectorOptions all;
    const OptionPairs pairs(given.begin(), given.end());
    const std::unique_ptr<Selector> made = make_selector({selector, selector, pairs});
    for (const OptionValue& option : made->options()) all[option.name] = option.value;
    return all;
  } catch (const Error&) {
    return given;
  }
}

bool same_options(const SelectorOptions& studied, const SelectorOptions& given, const SelectorOptions& completed) {
  return std::ranges::all_of(studied,
                             [&](const auto& option) {
                               const auto other = completed.find(option.first);
                               return other == completed.end() || other->second == option.second;
                             }) &&
         std::ranges::all_of(given, [&](const auto& option) { return studied.contains(option.first); });
}

bool same_options(const std::string& selector, const std::string& one, const std::string& other) {
  if (one == other) return true;
  const auto completed = [&](const std::string& json) {
    SelectorOptions given = selector_options(json);
    std::erase_if(given, [](const auto& option) { return option.second.empty(); });
    return completed_options(selector, given);
  };
  return completed(one) == completed(other);
}

}  // namespace attest
