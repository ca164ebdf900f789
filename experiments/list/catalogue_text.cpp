// The text of `attest list`, made from its JSON.
#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "analysis/study/study.h"
#include "dumps/base/join.h"
#include "dumps/base/json.h"
#include "experiments/list/catalogue.h"

namespace attest {
namespace {

std::string text_at(const Json& entry, const char* key) { return entry[key].text_or(""); }

/// "NAME  TEXT", the name in a column of its own; further lines of one name start below the first text.
class Lines {
 public:
  void add(std::string_view name, std::string_view text) {
    text_ += fmt::format("  {:<10}{}\n", name == last_ ? "" : name, text);
    last_ = name;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_, last_;
};

void add_options(const Json& selector, bool with_meaning, Lines& lines) {
  std::size_t width = 0;
  const auto default_of = [](const Json& option) { return text_at(option, "name") + "=" + text_at(option, "default"); };
  for (const Json& option : selector["options"]) width = std::max(width, default_of(option).size());
  for (const Json& option : selector["options"]) {
    const std::string unit = text_at(option, "unit");
    const std::string valid =
        text_at(option, "valid") + (unit.empty() || unit == text_at(option, "valid") ? "" : " " + unit);
    lines.add("option", fmt::format("{:<{}}  {}", default_of(option), width, valid));
    if (with_meaning) lines.add("option", fmt::format("  {}", text_at(option, "meaning")));
  }
}

std::string setting_text(const Json& setting, bool with_grid) {
  std::string text = text_at(setting, "setting");
  if (setting.contains("when")) text += fmt::format(" with {}", text_at(setting, "when"));
  if (with_grid && setting.contains("option"))
    text += fmt::format(": {}, {}; {} by default", text_at(setting, "option"), text_at(setting, "valid"),
                        text_at(setting, "default_grid"));
  return text;
}

std::string selector_text(const Json& selector, bool in_full) {
  Lines lines;
  if (in_full) {
    for (const Json& setting : selector["settings"]) lines.add("setting", setting_text(setting, true));
  } else {
    std::vector<std::string> settings;
    for (const Json& setting : selector["settings"]) settings.push_back(setting_text(setting, false));
    lines.add("setting", join(settings, ", "));
  }
  add_options(selector, in_full, lines);
  if (in_full && selector["takes_cache"].as<bool>())
    lines.add(
        "option",
        "also cache=FORMAT, cache_scale, cache_scales_file: over a quantised cache (formats: attest list kv_cache)");
  if (in_full && !selector["formats"].empty())
    lines.add("format", "name: bytes per token and KV head of C channels; rule (source)");
  for (const Json& format : in_full ? selector["formats"] : Json())
    lines.add("format", fmt::format("{}: {}; {} ({})", text_at(format, "name"), text_at(format, "bytes"),
                                    text_at(format, "rule"), text_at(format, "source")));
  lines.add("bytes", text_at(selector, "io_bytes"));
  lines.add("source", text_at(selector, "source"));
  for (const Json& note : selector["notes"]) lines.add("note", note.text());
  for (const Json& own : selector["metrics"]) {
    lines.add("metric", fmt::format("{}: {}", text_at(own, "name"), text_at(own, "definition")));
    if (in_full)
      lines.add("metric", fmt::format("  {}; {}; {}", join(own["axes"].as<std::vector<std::string>>(), ", "),
                                      text_at(own, "unit"), text_at(own, "range")));
  }
  if (in_full) {
    lines.add("metric", "and those of all selectors, see 'attest list'");
    if (!selector["metrics_not_defined"].empty())
      lines.add("lacks", join(selector["metrics_not_defined"].as<std::vector<std::string>>(), ", "));
  }
  return fmt::format("{}: {}\n{}", text_at(selector, "name"), text_at(selector, "summary"), lines.text());
}

std::string metric_text(const Json& metric) {
  Lines lines;
  lines.add("axes", join(metric["axes"].as<std::vector<std::string>>(), ", "));
  lines.add("unit", text_at(metric, "unit"));
  lines.add("range", text_at(metric, "range"));
  lines.add("better", text_at(metric, "better"));
  const auto names = metric["selectors"].as<std::vector<std::string>>();
  lines.add("of", names.empty() ? "the exact scores, group 'scores'" : join(names, ", "));
  for (const Json& need : metric["needs"]) {
    if (need == "spans") lines.add("needs", "a sample with spans");
    if (need == "few span tokens") lines.add("needs", fmt::format("at most {} tokens in its spans", kMaxSpanTokens));
    if (need == "sinks") lines.add("needs", "a layer with learned sinks");
    if (need == "head gradients") {
      lines.add("needs", "head gradients in the dump (attest capture --head-weights), or attest run --weights");
      lines.add("note",
                "weighted_error is that of all layers together: a column of attest table, a target of attest validate");
    }
    if (need == "output gradients") {
      lines.add("needs", "output gradients in the dump (attest capture --output-gradients)");
      lines.add("note",
                "predicted_loss is that of all layers together, predicted_margin the row's margin less it: columns of "
                "attest table, targets of attest validate");
    }
    if (need == "estimate") lines.add("needs", "a selector with an estimate");
    if (need == "scores") lines.add("needs", "an estimate in natural-log units");
  }
  lines.add("source", text_at(metric, "source"));
  return fmt::format("{}: {}\n{}", text_at(metric, "name"), text_at(metric, "definition"), lines.text());
}

std::string experiment_text(const Json& experiment) {
  return fmt::format("{}: {}; needs {}\n", text_at(experiment, "name"), text_at(experiment, "paper"),
                     text_at(experiment, "needs"));
}

}  // namespace

std::string catalogue_text(const Json& catalogue) {
  std::string text = "Selectors (attest run --selector [LABEL=]NAME[:option=value,...])\n";
  for (const Json& selector : catalogue["selectors"]) text += "\n" + selector_text(selector, false);
  text += "\nMetrics (name, unit, which way is better, definition)\n";
  for (const Json& metric : catalogue["metrics"]) {
    const std::string better = text_at(metric, "better");
    text += fmt::format("  {:<26} {:<12} {:<7} {}\n", text_at(metric, "name"), text_at(metric, "unit"),
                        better == "neither" ? "-" : better, text_at(metric, "definition"));
  }
  text += "\nExperiments (attest figures RESULTS... -o DIR)\n";
  for (const Json& experiment : catalogue["experiments"]) text += "  " + experiment_text(experiment);
  return text + "\n'attest list NAME' tells all of one of them.\n";
}

std::string entry_text(const Json& entry) {
  if (entry["kind"] == "selector") return selector_text(entry, true);
  return entry["kind"] == "metric" ? metric_text(entry) : experiment_text(entry);
}

}  // namespace attest
