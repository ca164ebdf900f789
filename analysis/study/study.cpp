// What a study says of a selector.
#include "analysis/study/study.h"

#include <nlohmann/json.hpp>

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
  try {
    for (const auto& [option, value] : nlohmann::json::parse(chosen.options_json).items())
      spec.options.emplace_back(option, value.get<std::string>());
    return make_selector(spec)->counts_scan();
  } catch (const std::exception&) {  // results of a program that knew other selectors or options
    return true;
  }
}

}  // namespace attest
