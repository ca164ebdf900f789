// Reads and writes the settings of a recommendation. The file is untrusted.
#include "kernels/selectors/settings_file.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "dumps/base/error.h"
#include "dumps/base/json_file.h"

namespace attest {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;
constexpr std::string_view kDense = "dense", kInfinite = "inf";

[[noreturn]] void refuse(const std::string& path, std::string_view place, const std::string& what) {
  throw InputError(fmt::format("{}: {} {}", path, place, what));
}

void expect_value(const std::string& path, const json& document, const char* name, const json& expected) {
  const auto found = document.find(name);
  if (found == document.end() || *found != expected)
    refuse(
        path, name,
        fmt::format("is {}, expected {}", found == document.end() ? "missing" : found_text(*found), expected.dump()));
}

/// A text that may be absent.
std::string text_at(const std::string& path, const json& object, const std::string& name, std::string_view place) {
  const auto found = object.find(name);
  if (found == object.end()) return {};
  if (!found->is_string()) refuse(path, inside(place, name), fmt::format("is {}, expected a text", found_text(*found)));
  return found->get<std::string>();
}

const json& object_at(const std::string& path, const json& value, const std::string& place) {
  if (!value.is_object()) refuse(path, place, fmt::format("is {}, expected an object", found_text(value)));
  return value;
}

std::string unit_values() { return fmt::format("a number of at least 0, \"{}\" or \"{}\"", kInfinite, kDense); }

UnitSetting unit_setting(const std::string& path, const json& value, const std::string& place) {
  if (value == kDense) return {.value = 0, .dense = true};
  if (value == kInfinite) return {.value = std::numeric_limits<double>::infinity(), .dense = false};
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!(number >= 0 && std::isfinite(number)))
    refuse(path, place, fmt::format("is {}, expected {}", found_text(value), unit_values()));
  return {.value = number, .dense = false};
}

/// The number of a layer or KV head.
int index_of(const std::string& path, const std::string& name, const std::string& place, std::string_view what) {
  int index = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  const bool whole = error == std::errc{} && end == name.data() + name.size() && index >= 0;
  if (!whole || std::to_string(index) != name)
    refuse(path, place, fmt::format("has no number of a {} as its name", what));
  return index;
}

LayerSettings layer_settings(const std::string& path, const json& value, const std::string& place) {
  LayerSettings layer;
  for (const auto& [name, member] : object_at(path, value, place).items()) {
    const std::string own = inside(place, name);
    if (name == "default") {
      layer.fallback = unit_setting(path, member, own);
    } else if (name == "kv_heads") {
      for (const auto& [head, setting] : object_at(path, member, own).items()) {
        const std::string at = inside(own, head);
        layer.kv_heads[index_of(path, head, at, "KV head")] = unit_setting(path, setting, at);
      }
    } else {
      refuse(path, own, "is unknown, expected 'default' or 'kv_heads'");
    }
  }
  return layer;
}

}  // namespace

SettingsFile read_settings_file(const std::string& path) {
  const json document = read_json_object(path, "a recommendation", kMostBytes);
  expect_value(path, document, "format", kRecommendationFormat);
  expect_value(path, document, "format_version", kRecommendationVersion);
  expect_value(path, document, "setting", "delta");
  SettingsFile file{
      .path = path, .model = text_at(path, document, "model", ""), .selector = {}, .options = {}, .units = {}};
  if (const auto selector = document.find("selector"); selector != document.end() && selector->is_object()) {
    file.selector = text_at(path, *selector, "name", "selector");
    if (const auto options = selector->find("options"); options != selector->end())
      for (const auto& [name, value] : object_at(path, *options, "selector.options").items())
        file.options.emplace_back(name, text_at(path, *options, name, "selector.options"));
  } else {
    file.selector = text_at(path, document, "selector", "");
  }
  const auto fallback = document.find("default");
  if (fallback == document.end()) refuse(path, "default", "is missing, expected " + unit_values());
  file.units.fallback = unit_setting(path, *fallback, "default");
  if (const auto layers = document.find("layers"); layers != document.end())
    for (const auto& [name, value] : object_at(path, *layers, "layers").items()) {
      const std::string place = inside("layers", name);
      file.units.layers[index_of(path, name, place, "layer")] = layer_settings(path, value, place);
    }
  return file;
}

void check_units(const SettingsFile& file, int num_layers, int num_kv_heads, std::string_view dump) {
  for (const auto& [layer, settings] : file.units.layers) {
    const std::string place = fmt::format("layers.{}", layer);
    if (layer >= num_layers)
      refuse(file.path, place, fmt::format("is no layer of {}, whose model has {}", dump, num_layers));
    if (settings.kv_heads.empty()) continue;
    if (const int last = settings.kv_heads.rbegin()->first; last >= num_kv_heads)
      refuse(file.path, fmt::format("{}.kv_heads.{}", place, last),
             fmt::format("is no KV head of {}, whose layers have {}", dump, num_kv_heads));
  }
}

nlohmann::ordered_json unit_settings_json(const UnitSettings& units) {
  return unit_settings_json(units, [](const UnitSetting& unit) -> nlohmann::ordered_json {
    if (unit.dense) return kDense;
    if (std::isinf(unit.value)) return kInfinite;
    return unit.value;
  });
}

nlohmann::ordered_json unit_settings_json(const UnitSettings& units,
                                          const std::function<nlohmann::ordered_json(const UnitSetting&)>& form) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::object();
  for (const auto& [number, settings] : units.layers) {
    nlohmann::ordered_json& layer = layers[std::to_string(number)] = nlohmann::ordered_json::object();
    if (settings.fallback) layer["default"] = form(*settings.fallback);
    for (const auto& [head, unit] : settings.kv_heads) layer["kv_heads"][std::to_string(head)] = form(unit);
  }
  return {{"default", form(units.fallback)}, {"layers", layers}};
}

}  // namespace attest
