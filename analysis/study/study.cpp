// Builds the description of a selector in a study.
#include "analysis/study/study.h"

#include <nlohmann/json.hpp>

#include "dumps/base/json_text.h"
#include "kernels/selectors/registry.h"

namespace attest {

StudySelector make_study_selector(const std::string& label, std::shared_ptr<Selector> selector,
                                  std::vector<Setting> grid, std::vector<std::string> labels) {
  nlohmann::ordered_json options = nlohmann::ordered_json::object();
  for (const OptionValue& option : selector->options()) options[option.name] = option.value;
  return {.label = label,
          .name = selector->name(),
          .options_json = options.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace),
          .kind = selector->setting_kind(),
          .grid = std::move(grid),
          .setting_labels = std::move(labels),
          .selector = std::move(selector)};
}

bool counts_scan(const StudySelector& chosen) {
  if (chosen.selector) return chosen.selector->counts_scan();
  SelectorSpec spec{.label = chosen.label, .name = chosen.name, .options = {}};
  const nlohmann::json options = parse_json(chosen.options_json).value_or(nullptr);
  try {
    for (const auto& [option, value] : options.items()) spec.options.emplace_back(option, value.get<std::string>());
    return make_selector(spec)->counts_scan();
  } catch (const std::exception&) {  // results of a program version with other selectors or options
    return true;
  }
}

bool shifts_settings(const StudySelector& chosen) {
  const nlohmann::json options = parse_json(chosen.options_json).value_or(nullptr);
  const auto file = options.is_object() ? options.find("settings_file") : options.end();
  return options.is_object() && file != options.end() && *file != "";
}

}  // namespace attest
