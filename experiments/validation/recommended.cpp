// Reads a recommendation, and finds its settings in results.
#include "experiments/validation/recommended.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "analysis/results/manifest_inputs.h"
#include "analysis/study/selector_options.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/json_place.h"
#include "dumps/base/parallel_for.h"
#include "dumps/base/printable.h"
#include "experiments/cli/options/grid.h"
#include "experiments/validation/judge_results.h"
#include "experiments/validation/recommendation.h"
#include "kernels/selectors/registry.h"
#include "kernels/selectors/settings_file.h"

namespace attest {
namespace {

constexpr std::size_t kMaxWhy = 600;  // bytes of a sentence of another, which may quote the file
constexpr std::int64_t kLargest = std::int64_t{1} << 40;

Guarantee guarantee_of(const JsonPlace& claim) {
  const auto value_at = [](const JsonPlace& at, const auto& names) {
    return value_in(names, at.one_of(names_in(names)));
  };
  Guarantee guarantee{.kind = value_at(claim["kind"], kGuaranteeNames),
                      .confidence = claim["confidence"].number(),
                      .seed = claim["seed"].unsigned_whole()};
  if (!guarantee.certifies())
    claim["kind"].refuse("prompts or mean: what was only observed certifies nothing that later prompts could break");
  if (guarantee.kind != GuaranteeKind::mean) {
    guarantee.max_violating = claim["beta"].number();
  } else {
    guarantee.bound = value_at(claim["bound"], kBoundNames);
    if (!claim["given_clip"].is_null()) guarantee.clip = claim["given_clip"].number();
  }
  return guarantee;
}

/// Two whole numbers, the first no larger than the second; nothing where a file lacks them.
std::optional<std::pair<std::int64_t, std::int64_t>> range_at(const JsonPlace& at) {
  if (at.is_missing()) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const JsonPlace& one : at.elements()) numbers.push_back(one.whole(0, kLargest));
  if (numbers.size() != 2 || numbers[0] > numbers[1]) at.refuse("a list of two numbers, the smaller first");
  return std::pair(numbers[0], numbers[1]);
}

/// A setting as typed: 5 as "5".
std::string typed(const Json& setting) {
  return setting.is_text() ? setting.text() : fmt::format("{}", setting.number());
}

/// The kind of setting; nothing for kLabelSettings.
std::optional<SettingKind> kind_of(const JsonPlace& setting) {
  std::vector<std::string> names;
  for (const SettingKindInfo& info : kSettingKinds) names.emplace_back(info.name);
  names.emplace_back(kLabelSettings);
  const auto place = static_cast<std::size_t>(std::ranges::find(names, setting.one_of(names)) - names.begin());
  return place < std::size(kSettingKinds) ? std::optional(kSettingKinds[place].kind) : std::nullopt;
}

/// Refuses what is no setting of `kind` as attest validate writes it: a number, or a text where JSON has no such
/// number.
void check_setting(SettingKind kind, const JsonPlace& at) {
  if (kind == SettingKind::delta) return void(read_head_setting(at));
  const std::string valid = kind == SettingKind::none ? "\"none\"" : std::string(info_of(kind).valid);
  if (at.is_missing()) at.refuse(valid);
  const Json& value = at.value();
  if (value == Json("dense")) return;
  bool sound = value == Json("none");
  if (kind != SettingKind::none) {
    sound = false;
    try {
      const Grid grid = value.is_text() || value.is_number() ? parse_grid(kind, typed(value)) : Grid{};
      if (grid.settings.size() == 1 && grid.labels.front() == typed(value))
        sound = value.is_number() || grid.settings.front().percent || std::isinf(grid.settings.front().value);
    } catch (const UsageError&) {  // of an option that attest monitor lacks
    }
  }
  if (!sound) at.refuse(valid + ", or \"dense\"");
}

/// Fills in the settings and the units that have them. `names`: of candidates; else settings are of `kind`.
void read_settings(const JsonPlace& root, const std::vector<std::string>& names, Recommended& found) {
  const auto read = [&](const JsonPlace& at) {
    if (names.empty())
      check_setting(found.kind, at);
    else
      at.one_of(names);
    std::string text = typed(at.value());
    if (text != "dense" && text != "none" && std::ranges::count(found.settings, text) == 0)
      found.settings.push_back(std::move(text));
    return HeadSetting{};
  };
  found.units_file.settings = read_head_settings(root, read, !names.empty());
}

/// What holds for KV heads that are not named. `layer`: the settings of a layer, a text or number, or {default,
/// kv_heads}. `otherwise`: what holds where the layer says nothing.
const Json& fallback_of(const Json& layer, const Json& otherwise) {
  if (!layer.is_object()) return layer.is_null() ? otherwise : layer;
  return layer.contains("default") ? layer["default"] : otherwise;
}

/// Reads those of the candidates that some layer or KV head has.
void read_candidates(const JsonPlace& list, Recommended& found) {
  for (const JsonPlace& one : list.elements()) {
    if (std::ranges::count(found.settings, one["candidate"].text()) == 0) continue;
    one["options"].for_members([](const std::string&, const JsonPlace& option) { option.text(); });
    found.candidates.push_back({one["candidate"].text(), one["label"].text(), one["name"].text(),
                                one["setting"].is_null() ? "" : one["setting"].text(), one["options"].value()});
  }
  if (found.candidates.empty()) list.refuse("a candidate that 'default' or 'layers' has");
}

/// What is recommended: settings of a selector, or candidates.
void read_choice(const JsonPlace& root, Recommended& found) {
  if (const std::optional<SettingKind> kind = kind_of(root["setting"]); !kind) {
    std::vector<std::string> names = {"dense"};
    for (const JsonPlace& one : root["candidates"].elements()) names.push_back(one["candidate"].text());
    read_settings(root, names, found);
    read_candidates(root["candidates"], found);
  } else {
    found.kind = *kind;
    read_settings(root, {}, found);
    found.selector = root["selector"]["name"].text();
    root["selector"]["options"].for_members([](const std::string&, const JsonPlace& option) { option.text(); });
    found.options = root["selector"]["options"].value();
  }
}

/// The targets, which must be fit for the guarantee.
void read_targets(const JsonPlace& claim, Recommended& found) {
  const std::vector<std::string> texts = claim["targets"].texts();
  if (std::ranges::count(texts, kAnswersMetric) > 0)
    throw UsageError(
        fmt::format("{}: is of answers; attest monitor judges cells, attest validate new answers", found.path));
  try {  // these checks are of options of attest validate
    for (const std::string& text : texts) found.targets.push_back(parse_target(text));
    if (texts.empty()) claim["targets"].refuse("at least one target");
    check_guarantee(found.guarantee, found.targets);
  } catch (const UsageError& error) {
    throw InputError(fmt::format("{}: {}", claim.name(), excerpt(error.what())));
  }
}

/// What the claim says about the prompts that certified: tasks, lengths, numbers of queries, judged layers.
void read_prompts(const JsonPlace& claim, Recommended& found) {
  if (!claim["tasks"].is_missing()) found.tasks = claim["tasks"].texts();
  for (const char* const count : {"n", "k"})
    if (const JsonPlace at = claim[count]; !at.is_missing()) at.whole(0, kLargest);
  found.lengths = range_at(claim["lengths"]);
  found.queries = range_at(claim["queries"]);
  if (claim["layers"].value() != Json("all"))
    for (const JsonPlace& layer : claim["layers"].elements())
      found.layers.push_back(static_cast<int>(layer.whole(0, 1 << 20)));
}

/// [prompt][target] the numbers that certified.
void read_certified(const JsonPlace& prompts, Recommended& found) {
  if (prompts.is_missing())
    throw InputError(
        fmt::format("{}: lacks 'certified_on', the numbers that certified; attest validate -o writes it", found.path));
  for (const JsonPlace& prompt : prompts.elements()) {
    std::vector<double>& numbers = found.certified.emplace_back();
    for (const JsonPlace& number : prompt.elements()) {
      if (!number.is_null() && !number.value().is_number()) number.refuse("a number or null");
      numbers.push_back(number.is_null() ? std::nan("") : number.value().number());
    }
    if (numbers.size() != found.targets.size())
      prompt.refuse(fmt::format("a list of {} numbers, one per target", found.targets.size()));
  }
}

std::string label_of(const std::string& name, const Json& options, const Recommended& recommended,
                     const ResultsFile& file) {
  const std::string wanted = options.dump();
  for (const StudySelector& selector : file.study().selectors)
    if (selector.name == name && same_options(name, selector.options_json, wanted)) return selector.label;
  throw UsageError(printable(fmt::format("{} has no selector {} with the options that {} recommends it with",
                                         file.path(), name, recommended.path)));
}

}  // namespace

Recommended read_recommended(const std::string& path) {
  const Json document = read_json_object(path, "a recommendation");
  const JsonPlace root(document, path);
  root["format"].one_of({std::string(kRecommendationFormat)});
  if (const JsonPlace version = root["format_version"];
      version.is_missing() || version.value() != Json(kRecommendationVersion))
    version.refuse(fmt::format("{}", kRecommendationVersion));
  const JsonPlace claim = root["claim"];
  Recommended found{.path = path,
                    .model = root["model"].text(),
                    .targets = {},
                    .guarantee = guarantee_of(claim),
                    .cluster = claim["cluster"].is_null() ? "" : claim["cluster"].text(),
                    .layers = {},
                    .certified = {},
                    .hashes = {},
                    .fallback = root["default"].value(),
                    .units = root["layers"].value(),
                    .settings = {}};
  if (const JsonPlace shape = root["shape"]; !shape.is_missing()) {
    const auto size = [&](const char* name) { return static_cast<int>(shape[name].whole(1, 1 << 20)); };
    found.shape = {.layers = size("layers"), .query_heads = size("query_heads"), .kv_heads = size("kv_heads")};
  }
  found.units_file.path = path;
  read_choice(root, found);
  read_targets(claim, found);
  read_prompts(claim, found);
  read_certified(root["certified_on"], found);
  for (const JsonPlace& file : root["results"].elements())
    if (const JsonPlace hash = file[kContentHashName]; !hash.is_missing()) found.hashes.push_back(hash.text());
  if (const JsonPlace dumps = root["dumps"]; !dumps.is_missing())
    for (std::string& hash : dumps.texts()) found.hashes.push_back(std::move(hash));
  return found;
}

void refuse_certifying(const Recommended& recommended, const std::string& hash, const std::string& path) {
  if (std::ranges::count(recommended.hashes, hash) > 0)
    throw UsageError(
        fmt::format("{} holds the prompts that certified {}; monitoring takes later ones", path, recommended.path));
}

void check_model(const Recommended& recommended, const std::string& model, const std::string& path) {
  if (model != recommended.model)
    throw UsageError(printable(
        fmt::format("{} is of the model '{}', and {} is for '{}'", path, model, recommended.path, recommended.model)));
}

void check_units(const Recommended& recommended, const Recommended::ModelShape& shape, std::string_view holder) {
  const auto words = [](const Recommended::ModelShape& of) {
    return fmt::format("{}, {} query and {} KV heads", counted(of.layers, "layer"), of.query_heads, of.kv_heads);
  };
  if (recommended.shape != Recommended::ModelShape{} && recommended.shape != shape)
    throw UsageError(printable(fmt::format("{} is of a model with {}, and {} is for one with {}", holder, words(shape),
                                           recommended.path, words(recommended.shape))));
  check_heads(recommended.units_file, shape.layers, shape.kv_heads, holder);
  for (const int layer : recommended.layers)
    if (layer >= shape.layers)
      throw InputError(fmt::format("{}: claim.layers has {}, which is no layer of {}, whose model has {}",
                                   recommended.path, layer, holder, shape.layers));
}

void check_studied(const Recommended& recommended) {
  const auto refuse = [&](const std::string& label, std::string_view why) {
    throw InputError(
        printable(fmt::format("{}: the selector '{}': {}", recommended.path, excerpt(label), excerpt(why, kMaxWhy))));
  };
  for (const SelectorSpec& spec : selectors_of(recommended)) {
    SettingKind kind = SettingKind::none;
    try {
      kind = make_selector(spec)->setting_kind();
    } catch (const UsageError& error) {
      refuse(spec.label, error.what());
    }
    if (recommended.candidates.empty() && kind != recommended.kind)
      refuse(spec.label,
             fmt::format("its settings are {}, and the file has {}", name_of(kind), name_of(recommended.kind)));
    for (const auto& [text, label, selector, setting, options] : recommended.candidates) {
      if (label != spec.label) continue;
      if ((kind == SettingKind::none) != setting.empty())
        refuse(label,
               fmt::format("candidate '{}' has {}", excerpt(text), setting.empty() ? "no setting" : "a setting"));
      if (setting.empty()) continue;
      try {
        if (parse_grid(kind, setting).labels.size() == 1) continue;
      } catch (const UsageError&) {
      }
      refuse(label, fmt::format("'{}' is not {}", excerpt(setting), info_of(kind).valid));
    }
  }
}

std::vector<SelectorSpec> selectors_of(const Recommended& recommended) {
  std::vector<SelectorSpec> specs;
  const auto add = [&](const std::string& label, const std::string& selector, const Json& options) {
    if (std::ranges::count(specs, label, &SelectorSpec::label) > 0) return;
    SelectorSpec& spec = specs.emplace_back(SelectorSpec{.label = label, .name = selector, .options = {}});
    for (const auto& [name, value] : options.members())
      if (!value.text().empty()) spec.options.emplace_back(name, value.text());
  };
  if (recommended.candidates.empty()) add(recommended.selector, recommended.selector, recommended.options);
  for (const auto& candidate : recommended.candidates) add(candidate.label, candidate.selector, candidate.options);
  return specs;
}

JudgementOptions study_request(const Recommended& recommended) {
  JudgementOptions request;
  if (recommended.candidates.empty()) request.grid = join(recommended.settings, ",");
  for (const auto& [text, label, selector, setting, options] : recommended.candidates)
    request.candidates.push_back(setting.empty() ? label : label + "@" + setting);
  request.layers = join(recommended.layers, ",");
  return request;
}

void find_recommended(const Recommended& recommended, const ResultsFile& file, PromptScope& scope) {
  if (recommended.candidates.empty())
    scope.selector = label_of(recommended.selector, recommended.options, recommended, file);
  for (const auto& [text, label, selector, setting, options] : recommended.candidates)
    scope.candidates.push_back(label_of(selector, options, recommended, file) + (setting.empty() ? "" : "@" + setting));
}

std::vector<std::vector<std::size_t>> recommended_settings(const Recommended& recommended, const PromptSet& set) {
  const auto index = [&](const Json& setting) {
    const auto candidate = setting.is_text() ? std::ranges::find(recommended.candidates, setting.text(),
                                                                 &Recommended::RecommendedCandidate::text)
                                             : recommended.candidates.end();
    if (candidate != recommended.candidates.end())
      return static_cast<std::size_t>(candidate - recommended.candidates.begin());
    if (setting == Json("dense") || !set.candidates.empty()) return kDense;
    return set.selector.kind == SettingKind::none ? 0 : find_setting(set, typed(setting), recommended.path);
  };
  const auto group = static_cast<std::size_t>(set.shape.num_query_heads / set.shape.num_kv_heads);
  std::vector<std::vector<std::size_t>> settings;
  for (const int layer : set.layers) {
    const Json& own = recommended.units[std::to_string(layer)];
    const Json& fallback = fallback_of(own, recommended.fallback);
    std::vector<std::size_t>& heads = settings.emplace_back();
    for (std::size_t h = 0; h < static_cast<std::size_t>(set.shape.num_query_heads); ++h) {
      const Json* head = own.is_object() ? own["kv_heads"].find(std::to_string(h / group)) : nullptr;
      heads.push_back(index(head != nullptr ? *head : fallback));
    }
  }
  return settings;
}

PromptNumbers numbers_at(const PromptSet& set, std::span<const Target> targets,
                         const std::vector<std::vector<std::size_t>>& settings, int threads) {
  const std::size_t first = settings.front().front();
  const bool one_for_all = std::ranges::all_of(settings, [&](const std::vector<std::size_t>& layer) {
    return std::ranges::all_of(layer, [&](std::size_t setting) { return setting == first; });
  });
  if (one_for_all && first != kDense) return numbers_at(values_of(set, targets, threads), first);
  const bool by_layer = std::ranges::all_of(settings, [](const std::vector<std::size_t>& layer) {
    return std::ranges::all_of(layer, [&](std::size_t setting) { return setting == layer.front(); });
  });
  const std::vector<Unit> units = units_of(set, by_layer ? UnitKind::layer : UnitKind::kv_head, targets);
  Assignment assignment;
  for (const Unit& unit : units) assignment.push_back(settings[unit.row][static_cast<std::size_t>(unit.first_head)]);
  PromptNumbers numbers(set.prompts.size());
  parallel_for(threads, numbers.size(), [&](int, std::size_t p) {
    numbers[p] = assemble(set, p, targets, units, {&assignment, 1}).front().targets;
  });
  return numbers;
}

}  // namespace attest
