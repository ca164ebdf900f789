// Writes certified settings in the terms of selectors and engines.
#include "experiments/validation/recommendation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "analysis/results/manifest_inputs.h"
#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "dumps/base/json_numbers.h"
#include "dumps/base/printable.h"
#include "experiments/validation/judge_results.h"
#include "experiments/validation/verdict_sentences.h"
#include "kernels/selectors/settings_file.h"

namespace attest {
namespace {

/// The most frequent value; the first one of several.
std::size_t most_frequent(const std::vector<std::size_t>& settings) {
  std::map<std::size_t, std::size_t> counts;
  for (const std::size_t s : settings) ++counts[s];
  return *std::ranges::max_element(settings, {}, [&](std::size_t s) { return counts[s]; });
}

/// [layer in scope][KV head] of the certified assignment.
std::vector<std::vector<std::size_t>> settings_of_kv_heads(const Judgement& judgement) {
  const PromptSet& set = judgement.set;
  if (!judgement.units)
    return std::vector(set.layers.size(), std::vector<std::size_t>(static_cast<std::size_t>(set.shape.num_kv_heads),
                                                                   judgement.single.about().setting));
  const UnitValidation& units = *judgement.units;
  const std::vector<std::vector<std::size_t>> heads = settings_of_heads(set, units.units, units.about().assignment);
  const auto group = static_cast<std::size_t>(set.shape.num_query_heads / set.shape.num_kv_heads);
  std::vector<std::vector<std::size_t>> settings;
  for (const std::vector<std::size_t>& layer : heads) {
    std::vector<std::size_t>& own = settings.emplace_back();
    for (std::size_t h = 0; h < layer.size(); h += group) own.push_back(layer[h]);
  }
  return settings;
}

Json selector_json(const StudySelector& selector) {
  return {{"name", selector.name},
          {"label", selector.label},
          {"options", parsed_json(selector.options_json).value_or(Json::object())}};
}

/// [{candidate, name, label, options, setting}], the safest first.
Json candidates_json(const PromptSet& set) {
  Json list = Json::array();
  for (const Candidate& candidate : set.candidates) {
    Json one = {{"candidate", candidate.text}};
    one.update(selector_json(candidate.selector));
    const std::string& setting = candidate.selector.setting_labels[candidate.setting];
    one["setting"] = candidate.selector.kind == SettingKind::none ? Json() : Json(setting);
    list.push_back(std::move(one));
  }
  return list;
}

/// [prompt][target], null where a prompt does not count.
Json numbers_json(const PromptNumbers& numbers) {
  Json list = Json::array();
  for (const std::vector<double>& prompt : numbers) list.push_back(prompt);
  return list;
}

/// The hashes of the dumps of the prompts, as far as the results have them. `attest monitor` knows by them which
/// prompts are not new.
Json dump_hashes(const PromptSet& set) {
  std::set<std::string> hashes;
  for (const Prompt& prompt : set.prompts)
    if (prompt.file != nullptr && prompt.origin != prompt.file->study().dumps[prompt.dump].path)
      hashes.insert(prompt.origin);
  return std::vector(hashes.begin(), hashes.end());
}

}  // namespace

std::string_view setting_kind_name(const PromptSet& set) {
  return set.candidates.empty() ? name_of(set.selector.kind) : kLabelSettings;
}

Json setting_json(const Judgement& judgement, std::size_t setting) {
  if (setting == kDense) return "dense";
  if (!judgement.set.candidates.empty()) return judgement.label(setting);
  if (judgement.set.selector.kind == SettingKind::none) return "none";
  const Setting& value = judgement.set.selector.grid[setting];
  if (value.percent || !std::isfinite(value.value)) return judgement.label(setting);
  return value.value;
}

Json results_json(const Judgement& judgement) {
  Json list = Json::array();
  for (const JudgedFile& file : judgement.results)
    list.push_back({{"path", file.path}, {kContentHashName, file.content_hash}});
  return list;
}

Json selector_json(const PromptSet& set) { return set.candidates.empty() ? selector_json(set.selector) : Json(); }

Json guarantee_json(const Judgement& judgement) {
  const Guarantee& guarantee = judgement.request.guarantee;
  const Evidence& evidence = judgement.evidence();
  std::set<std::string> tasks;
  for (const Prompt& prompt : judgement.set.prompts) tasks.insert(prompt.task);
  Json targets = Json::array();
  for (const Target& target : judgement.request.targets) targets.push_back(target.text);
  Json json = {{"sentence", guarantee_sentence(judgement)},
               {"kind", name_in(kGuaranteeNames, guarantee.kind)},
               {"targets", targets},
               {"confidence", guarantee.confidence}};
  if (guarantee.kind == GuaranteeKind::mean) {
    json["bound"] = name_in(kBoundNames, guarantee.bound);
    Json clips = Json::array();
    for (const Target& target : judgement.request.targets) clips.push_back(guarantee.clip_of(target));
    json["clip"] = clips;
    json["given_clip"] = guarantee.clip;
  } else {
    json["beta"] = guarantee.max_violating;
  }
  json["n"] = evidence.prompts;
  json["k"] = evidence.violations;
  json["p_value"] = guarantee.kind == GuaranteeKind::observed ? Json() : Json(evidence.p_value);
  json["lengths"] = Json::array({judgement.set.shortest(), judgement.set.longest()});
  if (judgement.extrapolated_to) json["extrapolated_to"] = *judgement.extrapolated_to;
  json["tasks"] = std::vector(tasks.begin(), tasks.end());
  json["layers"] = judgement.set.all_layers ? Json("all") : Json(judgement.set.layers);
  if (const auto queries = judged_queries(judgement.set))
    json["queries"] = Json::array({queries->first, queries->second});
  json["covers"] = coverage_text(judgement);
  json["seed"] = guarantee.seed;
  json["cluster"] = text_or_null(judgement.set.cluster_key);
  json["chosen_on"] = judgement.units ? judgement.units->choosing.size() : 0;
  json["choose"] = judgement.units ? judgement.unit_request.choosing : 0.0;
  json["per"] = !judgement.units ? std::string_view("model") : name_of(judgement.units->kind);
  return json;
}

Json recommendation_json(const Judgement& judgement, const std::string& program) {
  const PromptSet& set = judgement.set;
  const std::vector<std::vector<std::size_t>> settings = settings_of_kv_heads(judgement);
  std::vector<std::size_t> all;
  for (const auto& layer : settings) all.insert(all.end(), layer.begin(), layer.end());
  // Layers that were not judged stay exact.
  const std::size_t fallback = all.empty()      ? judgement.single.about().setting  // answers alone: of the whole model
                               : set.all_layers ? most_frequent(all)
                                                : kDense;
  // Units are indices into the grid until they are written.
  const auto unit = [](std::size_t setting) {
    return HeadSetting{.value = static_cast<double>(setting), .dense = setting == kDense};
  };
  HeadSettings units{.fallback = unit(fallback)};
  for (std::size_t y = 0; y < settings.size(); ++y) {
    const std::size_t own = most_frequent(settings[y]);
    LayerSettings layer;
    if (own != fallback) layer.fallback = unit(own);
    for (std::size_t g = 0; g < settings[y].size(); ++g)
      if (settings[y][g] != own) layer.kv_heads[static_cast<int>(g)] = unit(settings[y][g]);
    if (layer != LayerSettings{}) units.layers[set.layers[y]] = std::move(layer);
  }
  Json members = head_settings_json(units, [&](const HeadSetting& one) {
    return setting_json(judgement, one.dense ? kDense : static_cast<std::size_t>(one.value));
  });
  // A layer of one candidate is its text alone, and each judged layer is named.
  for (std::size_t y = 0; y < settings.size() && !set.candidates.empty(); ++y) {
    Json& layer = members["layers"][std::to_string(set.layers[y])];
    if (const Json own = setting_json(judgement, most_frequent(settings[y])); layer["kv_heads"].is_object())
      layer["default"] = own;
    else
      layer = own;
  }
  Json document = {
      {"format", kRecommendationFormat},
      {"format_version", kRecommendationVersion},
      {"model", set.model},
      {"shape",
       {{"layers", set.num_layers}, {"query_heads", set.shape.num_query_heads}, {"kv_heads", set.shape.num_kv_heads}}},
      {"selector", selector_json(set)},
      {"setting", setting_kind_name(set)},
      {"default", members["default"]},
      {"layers", members["layers"]},
      {"claim", guarantee_json(judgement)},
      {"certified_on", numbers_json(judgement.numbers())},
      {"results", results_json(judgement)},
      {"dumps", dump_hashes(set)},
      {"program", {{"name", "attest"}, {"version", program}}}};
  if (!set.candidates.empty()) document["candidates"] = candidates_json(set);
  return document;
}

}  // namespace attest
