// Resolves labels, and compares grids and options.
#include "experiments/compare/selector_matching.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "analysis/study/typed_setting.h"
#include "analysis/validation/candidates.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "experiments/cli/options/study_choice.h"
#include "experiments/study_view/model_study.h"

namespace attest {
namespace {

std::string quoted(const std::vector<std::string>& texts) {
  return excerpt(texts.empty() ? "none" : join(texts, ", "));
}

std::vector<std::string> labels_in(const ResultsFile& file) {
  std::vector<std::string> labels;
  for (const StudySelector& selector : file.study().selectors) labels.push_back(selector.label);
  return labels;
}

/// The pairs that a text can mean: labels may have '=' themselves.
std::vector<MatchedSelector> meanings(const ResultsFile& first, const ResultsFile& second, const std::string& typed) {
  std::vector<MatchedSelector> found;
  const auto add = [&](const std::string& a, const std::string& b) {
    std::optional<LabelledSetting> at = find_labelled(first, a), other = find_labelled(second, b);
    if (!at || !other) return;
    // A selector without settings, such as a format of the KV cache, stands beside one setting of another.
    const auto complete = [](const ResultsFile& file, LabelledSetting& one, const LabelledSetting& beside) {
      if (!one.setting && beside.setting && file.study().selectors[one.selector].kind == SettingKind::none)
        one.setting = 0;
    };
    complete(first, *at, *other);
    complete(second, *other, *at);
    if (at->setting.has_value() != other->setting.has_value()) return;
    MatchedSelector pair{.first = at->selector,
                         .second = other->selector,
                         .first_label = first.study().selectors[at->selector].label,
                         .second_label = second.study().selectors[other->selector].label,
                         .settings = {},
                         .only_first = {},
                         .only_second = {}};
    if (at->setting) {
      pair.chosen = true;
      pair.settings.push_back({*at->setting, *other->setting});
    }
    found.push_back(std::move(pair));
  };
  add(typed, typed);
  if (!found.empty()) return found;
  for (std::size_t at = typed.find('='); at != std::string::npos; at = typed.find('=', at + 1))
    add(typed.substr(0, at), typed.substr(at + 1));
  return found;
}

/// For a text without meaning whose labels are known: which settings they have instead of the typed one. Else empty.
std::string unknown_settings(const ResultsFile& first, const ResultsFile& second, const std::string& typed) {
  const auto unknown = [&](const std::string& a, const std::string& b) {
    const std::string in_first = unknown_setting(first, a), in_second = unknown_setting(second, b);
    return in_first + (in_first.empty() || in_second.empty() ? "" : "; ") + in_second;
  };
  // Settings have no '=': what stands behind one is the other label.
  std::string text = typed.find('=', typed.rfind('@')) == std::string::npos ? unknown(typed, typed) : "";
  for (std::size_t at = typed.find('='); at != std::string::npos && text.empty(); at = typed.find('=', at + 1))
    text = unknown(typed.substr(0, at), typed.substr(at + 1));
  return text;
}

std::vector<MatchedSelector> chosen_pairs(const ResultsFile& first, const ResultsFile& second,
                                          const std::vector<std::string>& typed) {
  std::vector<MatchedSelector> pairs;
  for (const std::string& item :
       joined_items(typed, [&](const std::string& text) { return !meanings(first, second, text).empty(); })) {
    const std::vector<MatchedSelector> found = meanings(first, second, item);
    if (found.empty()) {
      if (const std::string unknown = unknown_settings(first, second, item); !unknown.empty())
        throw UsageError(fmt::format("--selectors: {}", unknown));
      throw UsageError(fmt::format(
          "--selectors: '{}' is neither a label that both files have, LABEL1=LABEL2, nor "
          "LABEL1@SETTING=LABEL2@SETTING; {} has {}; {} has {}",
          printable(item), first.path(), quoted(labels_in(first)), second.path(), quoted(labels_in(second))));
    }
    if (found.size() > 1)
      throw UsageError(fmt::format("--selectors: '{}' can be '{}' and '{}', or '{}' and '{}'", printable(item),
                                   printable(found[0].first_label), printable(found[0].second_label),
                                   printable(found[1].first_label), printable(found[1].second_label)));
    if (std::ranges::any_of(pairs, [&](const auto& p) {
          return p.name() == found[0].name() && (!p.chosen || p.settings == found[0].settings);
        }))
      throw UsageError(fmt::format("--selectors: '{}' is there twice", printable(item)));
    pairs.push_back(found[0]);
  }
  return pairs;
}

void pair_settings(const StudySelector& a, const StudySelector& b, MatchedSelector& pair) {
  std::set<std::size_t> taken;  // a damaged file may have a setting twice
  for (std::size_t s = 0; s < a.grid.size(); ++s) {
    const auto other = static_cast<std::size_t>(std::ranges::find(b.grid, a.grid[s]) - b.grid.begin());
    if (other == b.grid.size())
      pair.only_first.push_back(a.setting_labels[s]);
    else if (taken.insert(other).second)
      pair.settings.push_back({s, other});
  }
  for (std::size_t s = 0; s < b.grid.size(); ++s)
    if (std::ranges::count(a.grid, b.grid[s]) == 0) pair.only_second.push_back(b.setting_labels[s]);
}

void add_option_differences(const StudySelector& a, const StudySelector& b, const std::string& name,
                            std::vector<OptionDifference>& differences) {
  if (a.name != b.name) {  // options of two methods have nothing to do with each other
    differences.push_back({name, "selector", a.name, b.name});
    return;
  }
  using Options = std::map<std::string, std::string>;
  const Options in_a = PooledSelector{a}.options();
  const Options in_b = PooledSelector{b}.options();
  std::set<std::string> names;
  for (const Options* options : {&in_a, &in_b})
    for (const auto& [option, value] : *options) names.insert(option);
  const auto text = [](const Options& options, const std::string& option) {
    const auto at = options.find(option);
    return at == options.end() ? std::string("-") : at->second;
  };
  for (const std::string& option : names)
    if (text(in_a, option) != text(in_b, option))
      differences.push_back({name, option, text(in_a, option), text(in_b, option)});
}

/// Leaves only those settings that were `typed`, each of which must be common to a pair.
void choose_settings(const Study& first, const Study& second, const std::vector<std::string>& typed,
                     std::vector<MatchedSelector>& pairs) {
  const auto is_typed = [&](const MatchedSelector& pair, const IndexPair& setting, const std::string& text) {
    return is_setting(first.selectors[pair.first], setting.first, text) ||
           is_setting(second.selectors[pair.second], setting.second, text);
  };
  std::set<std::string> found;
  std::vector<std::string> common;
  for (MatchedSelector& pair : pairs) {
    const StudySelector& selector = first.selectors[pair.first];
    if (selector.kind == SettingKind::none || pair.chosen) continue;
    for (const IndexPair& setting : pair.settings)
      if (std::ranges::count(common, selector.setting_labels[setting.first]) == 0)
        common.push_back(selector.setting_labels[setting.first]);
    std::erase_if(pair.settings, [&](const IndexPair& setting) {
      bool chosen = false;
      for (const std::string& text : typed)
        if (is_typed(pair, setting, text)) {
          found.insert(text);
          chosen = true;
        }
      return !chosen;
    });
    pair.only_first.clear();
    pair.only_second.clear();
  }
  for (const std::string& text : typed)
    if (!found.contains(text))
      throw UsageError(fmt::format("--settings: no selector has the setting '{}' in both files; common are {}",
                                   printable(text), quoted(common)));
}

}  // namespace

std::string MatchedSelector::name() const {
  return first_label == second_label ? first_label : fmt::format("{}={}", first_label, second_label);
}

MatchedSelectors match_selectors(const ResultsFile& first, const ResultsFile& second,
                                 const std::vector<std::string>& selectors, const std::vector<std::string>& settings,
                                 bool same_bytes) {
  MatchedSelectors matched;
  const Study &a = first.study(), &b = second.study();
  if (selectors.empty()) {
    for (const std::string& label : labels_in(first))
      if (second.find_selector(label))
        matched.pairs.push_back(meanings(first, second, label).front());
      else
        matched.only_first.push_back(label);
    for (const std::string& label : labels_in(second))
      if (!first.find_selector(label)) matched.only_second.push_back(label);
  } else {
    matched.pairs = chosen_pairs(first, second, selectors);
  }
  if (matched.pairs.empty())
    throw InputError(fmt::format(
        "no label is common: {} has {}; {} has {}; --selectors LABEL1=LABEL2 compares selectors of two labels",
        first.path(), quoted(labels_in(first)), second.path(), quoted(labels_in(second))));
  for (MatchedSelector& pair : matched.pairs) {
    const StudySelector &in_a = a.selectors[pair.first], &in_b = b.selectors[pair.second];
    if (same_bytes && (in_a.kind == SettingKind::none || pair.chosen))
      throw UsageError(fmt::format("--same-bytes finds the settings of '{}', which has {}", excerpt(pair.name()),
                                   pair.chosen ? "those of --selectors" : "none"));
    if (in_a.kind != in_b.kind && !pair.chosen && !same_bytes)
      throw InputError(
          fmt::format("selector '{}': its kinds of setting differ, {} in {}, {} in {}; --selectors "
                      "LABEL1@SETTING=LABEL2@SETTING or --same-bytes says which are compared",
                      excerpt(pair.name()), name_of(in_a.kind), first.path(), name_of(in_b.kind), second.path()));
    if (!pair.chosen && !same_bytes) pair_settings(in_a, in_b, pair);
    add_option_differences(in_a, in_b, pair.name(), matched.options);
  }
  if (same_bytes) return matched;
  if (std::ranges::all_of(matched.pairs, [](const MatchedSelector& pair) { return pair.settings.empty(); })) {
    const MatchedSelector& pair = matched.pairs.front();
    throw InputError(fmt::format("selector '{}': no setting is common: {} has {}; {} has {}", excerpt(pair.name()),
                                 first.path(), quoted(a.selectors[pair.first].setting_labels), second.path(),
                                 quoted(b.selectors[pair.second].setting_labels)));
  }
  if (!settings.empty()) choose_settings(a, b, settings, matched.pairs);
  return matched;
}

}  // namespace attest
