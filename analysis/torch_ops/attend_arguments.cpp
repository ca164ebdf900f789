// The operator's selector and setting, from text and number.
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>

#include "analysis/torch_ops/attend.h"
#include "dumps/base/error.h"
#include "kernels/selectors/registry.h"
#include "kernels/selectors/selector_text.h"

namespace attest {
namespace {

struct Known {
  std::shared_ptr<const Selector> selector;
  std::uint64_t asked = 0;  ///< number of the last call that asked for it
};

std::shared_ptr<const Selector> make(const std::string& text) {
  SelectorSpec spec{.label = text, .name = {}, .options = {}};
  if (const std::string wrong = parse_selector_text(text, spec); !wrong.empty())
    throw UsageError(fmt::format("selector: '{}': {}; expected NAME[:option=value,...]", text, wrong));
  std::shared_ptr<const Selector> selector = make_selector(spec);
  const bool imports = !selector->estimate_sources().empty();
  if (imports || !selector->calibration_samples().empty())
    throw UsageError(fmt::format("selector '{}' takes {} from a dump, and here is none: expected another {}",
                                 selector->name(), imports ? "estimates" : "a calibration",
                                 imports ? "selector" : "source of its calibration"));
  return selector;
}

}  // namespace

std::shared_ptr<const Selector> selector_of(std::string_view text) {
  static std::mutex mutex;
  static std::map<std::string, Known, std::less<>> all;
  static std::uint64_t calls = 0;
  const std::lock_guard lock(mutex);
  auto found = all.find(text);
  if (found == all.end()) {
    std::shared_ptr<const Selector> selector = make(std::string(text));
    if (all.size() == kMaxSelectors)
      all.erase(std::ranges::min_element(all, {}, [](const auto& known) { return known.second.asked; }));
    found = all.emplace(text, Known{.selector = std::move(selector)}).first;
  }
  found->second.asked = ++calls;
  return found->second.selector;
}

Setting setting_of(const Selector& selector, double value) {
  const SettingKind kind = selector.setting_kind();
  if (kind == SettingKind::none) {
    if (value != 0)
      throw UsageError(fmt::format("selector '{}' has no setting: expected 0, found {}", selector.name(), value));
    return {};
  }
  const bool share = kind == SettingKind::budget && value < 1;
  const Setting setting{.value = share ? value * 100 : value, .percent = share};
  if (!is_valid(kind, setting))
    throw UsageError(fmt::format("selector '{}': the setting {} is not {}", selector.name(), value,
                                 kind == SettingKind::budget
                                     ? "a budget: a whole number of tokens above 0, or a share of the visible keys "
                                       "between 0 and 1"
                                     : info_of(kind).valid));
  return setting;
}

void refuse_overflow(const Overflow& where, const Selector& selector, const AttentionLayer& layer,
                     std::int64_t sequence) {
  Study study;
  study.selectors.emplace_back().label = selector.name();
  throw InputError((sequence < 0 ? std::string() : fmt::format("sequence {}, ", sequence)) +
                   describe(where, study, layer));
}

}  // namespace attest
