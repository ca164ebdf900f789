// What a study says of a selector.
#include "analysis/study/study.h"

#include <nlohmann/json.hpp>

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

}  // namespace attest
