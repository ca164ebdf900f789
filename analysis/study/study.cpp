// Builds the description of a selector in a study.
#include "analysis/study/study.h"

#include "analysis/study/selector_options.h"
#include "dumps/base/json.h"
#include "kernels/selectors/registry.h"

namespace attest {

StudySelector make_study_selector(const std::string& label, std::shared_ptr<Selector> selector,
                                  std::vector<Setting> grid, std::vector<std::string> labels) {
  Json options = Json::object();
  // Empty dense_heads are left out: recommendations and results that are older than the option are of the same options.
  for (const OptionValue& option : selector->options())
    if (option.name != kDenseHeadsOption || !option.value.empty()) options[option.name] = option.value;
  return {.label = label,
          .name = selector->name(),
          .options_json = options.dump(),
          .kind = selector->setting_kind(),
          .grid = std::move(grid),
          .setting_labels = std::move(labels),
          .selector = std::move(selector)};
}

bool counts_scan(const StudySelector& chosen) {
  if (chosen.selector) return chosen.selector->counts_scan();
  const SelectorOptions options = selector_options(chosen.options_json);
  try {
    return make_selector({chosen.label, chosen.name, {options.begin(), options.end()}})->counts_scan();
  } catch (const std::exception&) {  // results of a program version with other selectors or options
    return true;
  }
}

bool shifts_settings(const StudySelector& chosen) {
  const Json options = parsed_json(chosen.options_json).value_or(nullptr);
  return options.contains("settings_file") && options["settings_file"] != "";
}

}  // namespace attest
