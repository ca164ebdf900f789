// Reads and writes the settings of a recommendation. The file is untrusted.
#include "kernels/selectors/settings_file.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>

#include "dumps/base/error.h"
#include "dumps/base/json_place.h"
#include "dumps/base/text_parts.h"

namespace attest {
namespace {

constexpr std::string_view kDense = "dense", kInfinite = "inf";

/// A text that may be absent.
std::string text_at(const JsonPlace& at) { return at.is_missing() ? "" : at.text(); }

/// The number of a layer or KV head.
int index_of(const std::string& name, const JsonPlace& at, std::string_view what) {
  if (const std::optional<int> index = parse_index(name)) return *index;
  throw InputError(fmt::format("{} has no number of a {} as its name", at.name(), what));
}

using ReadSetting = std::function<HeadSetting(const JsonPlace&)>;

LayerSettings layer_settings(const JsonPlace& at, const ReadSetting& form) {
  LayerSettings layer;
  at.for_members([&](const std::string& name, const JsonPlace& member) {
    if (name == "default")
      layer.fallback = form(member);
    else if (name == "kv_heads")
      member.for_members([&](const std::string& head, const JsonPlace& setting) {
        layer.kv_heads[index_of(head, setting, "KV head")] = form(setting);
      });
    else
      throw InputError(fmt::format("{} is unknown, expected 'default' or 'kv_heads'", member.name()));
  });
  return layer;
}

}  // namespace

HeadSetting read_head_setting(const JsonPlace& at) {
  const std::string expected = fmt::format("a number of at least 0, \"{}\" or \"{}\"", kInfinite, kDense);
  if (at.is_missing()) at.refuse(expected);
  const Json& value = at.value();
  if (value == kDense) return {.value = 0, .dense = true};
  if (value == kInfinite) return {.value = std::numeric_limits<double>::infinity(), .dense = false};
  const double number = value.is_number() ? value.number() : -1;
  if (!(number >= 0 && std::isfinite(number))) at.refuse(expected);
  return {.value = number, .dense = false};
}

HeadSettings read_head_settings(const JsonPlace& document, const ReadSetting& form, bool bare_layers) {
  HeadSettings settings{.fallback = form(document["default"])};
  if (const JsonPlace layers = document["layers"]; !layers.is_missing())
    layers.for_members([&](const std::string& name, const JsonPlace& layer) {
      settings.layers[index_of(name, layer, "layer")] = bare_layers && !layer.value().is_object()
                                                            ? LayerSettings{.fallback = form(layer)}
                                                            : layer_settings(layer, form);
    });
  return settings;
}

SettingsFile read_settings_file(const std::string& path) {
  const Json json = read_json_object(path, "a recommendation");
  const JsonPlace document(json, path);
  document["format"].must_be(kRecommendationFormat);
  document["format_version"].must_be(kRecommendationVersion);
  document["setting"].must_be("delta");
  SettingsFile file{.path = path, .model = text_at(document["model"]), .selector = {}, .options = {}, .settings = {}};
  if (const JsonPlace selector = document["selector"]; json["selector"].is_object()) {
    file.selector = text_at(selector["name"]);
    if (const JsonPlace options = selector["options"]; !options.is_missing())
      options.for_members(
          [&](const std::string& name, const JsonPlace& value) { file.options.emplace_back(name, value.text()); });
  } else {
    file.selector = text_at(selector);
  }
  file.settings = read_head_settings(document, read_head_setting);
  return file;
}

void check_heads(const SettingsFile& file, int num_layers, int num_kv_heads, std::string_view dump) {
  for (const auto& [layer, settings] : file.settings.layers) {
    const std::string place = fmt::format("layers.{}", layer);
    if (layer >= num_layers)
      throw InputError(fmt::format("{}: {} is no layer of {}, whose model has {}", file.path, place, dump, num_layers));
    if (settings.kv_heads.empty()) continue;
    if (const int last = settings.kv_heads.rbegin()->first; last >= num_kv_heads)
      throw InputError(fmt::format("{}: {}.kv_heads.{} is no KV head of {}, whose layers have {}", file.path, place,
                                   last, dump, num_kv_heads));
  }
}

Json head_settings_json(const HeadSettings& settings) {
  return head_settings_json(settings, [](const HeadSetting& setting) -> Json {
    if (setting.dense) return kDense;
    if (std::isinf(setting.value)) return kInfinite;
    return setting.value;
  });
}

Json head_settings_json(const HeadSettings& settings, const std::function<Json(const HeadSetting&)>& form) {
  Json layers = Json::object();
  for (const auto& [number, own] : settings.layers) {
    Json& layer = layers[std::to_string(number)] = Json::object();
    if (own.fallback) layer["default"] = form(*own.fallback);
    for (const auto& [head, setting] : own.kv_heads) layer["kv_heads"][std::to_string(head)] = form(setting);
  }
  return {{"default", form(settings.fallback)}, {"layers", layers}};
}

}  // namespace attest
