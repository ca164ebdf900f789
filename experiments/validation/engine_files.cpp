// Writes what engines read.
#include "experiments/validation/engine_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "analysis/study/selector_options.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "kernels/selectors/dense_heads.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

constexpr std::string_view kNative = "native";

/// The formats in which a layer's keys and values are stored.
struct CacheFormat {
  std::string k{kNative}, v{kNative};
  std::string text = "16 bit";  ///< of the label

  bool native() const { return k == kNative && v == kNative; }
  bool is(std::string_view keys, std::string_view values) const { return k == keys && v == values; }
};

/// The selector of a setting; null for kDense.
const StudySelector* selector_of(const Judgement& judgement, std::size_t setting) {
  if (setting == kDense) return nullptr;
  return judgement.set.candidates.empty() ? &judgement.set.selector : &judgement.set.candidates[setting].selector;
}

/// [layer in scope] the certified setting.
std::vector<std::size_t> settings_of_layers(const Judgement& judgement) {
  if (!judgement.units) return std::vector(judgement.set.layers.size(), judgement.single.about().setting);
  return judgement.units->about().assignment;
}

std::optional<std::string> option_of(const StudySelector& selector, const std::string& name) {
  SelectorOptions options = selector_options(selector.options_json);
  const auto found = options.find(name);
  return found != options.end() ? std::optional(std::move(found->second)) : std::nullopt;
}

/// The format of a `side`, "k" or "v".
std::string format_of(const StudySelector& selector, const std::string& side) {
  return option_of(selector, side).value_or(std::string(kNative));
}

/// Whether the selector of a setting is exact in a layer, of a prompt that was studied in it: not every one has all
/// layers.
bool is_dense(const PromptSet& set, int layer, std::size_t setting) {
  for (const Prompt& prompt : set.prompts) {
    const std::vector<int>& studied = prompt.of_study().layers;
    const auto row = std::ranges::find(studied, layer);
    if (row == studied.end()) continue;
    const std::size_t column = set.candidates.empty() ? prompt.selector : prompt.columns[setting].selector;
    return prompt.file->dense(prompt.dump, prompt.sample, column)[static_cast<std::size_t>(row - studied.begin())] != 0;
  }
  return false;
}

void refuse_kv_heads(std::string_view option, bool per_kv_head) {
  if (per_kv_head)
    throw UsageError(fmt::format("{} takes one format per layer, found --per kv_head: use --per layer", option));
}

void refuse_other_than_factor(const std::string& label, std::string_view name, SettingKind kind, bool per_unit) {
  if (name != "skip_softmax" || kind != SettingKind::factor || per_unit)
    throw UsageError(
        fmt::format("--emit-trtllm takes one factor of skip_softmax:unit=factor for the whole model, found {}{}",
                    printable(label), per_unit ? " with settings per unit" : ""));
}

/// [layer of the model]; those that were not judged, or where the selector is exact, stay native. `option` for
/// messages.
std::vector<CacheFormat> formats_of_layers(const Judgement& judgement, std::string_view option) {
  const PromptSet& set = judgement.set;
  refuse_kv_heads(option, judgement.units && judgement.units->kind != UnitKind::layer);
  if (std::ranges::any_of(set.prompts, [](const Prompt& prompt) { return prompt.file == nullptr; }))
    throw UsageError(fmt::format("{} takes results of attest run, found answers alone", option));
  std::vector<CacheFormat> formats(static_cast<std::size_t>(set.num_layers));
  const std::vector<std::size_t> settings = settings_of_layers(judgement);
  for (std::size_t y = 0; y < settings.size(); ++y) {
    const StudySelector* selector = selector_of(judgement, settings[y]);
    if (selector == nullptr || selector->name == "exact") continue;
    const std::string text = printable(judgement.setting_text(settings[y]));
    if (selector->name != "kv_cache")
      throw UsageError(fmt::format("{} takes formats of kv_cache, and exact: '{}' of layer {} is {}", option, text,
                                   set.layers[y], selector->name));
    if (is_dense(set, set.layers[y], settings[y])) continue;
    if (const std::string heads = option_of(*selector, kDenseHeadsOption).value_or(""); !heads.empty())
      throw UsageError(fmt::format("{} takes one format per layer, found {} with exact heads ({}={})", option, text,
                                   kDenseHeadsOption, printable(heads)));
    formats[static_cast<std::size_t>(set.layers[y])] = {format_of(*selector, "k"), format_of(*selector, "v"), text};
  }
  return formats;
}

/// "" if vLLM has no such cache. `latent`: values are in the keys, so that k is all of it.
std::string vllm_name(const CacheFormat& format, bool latent) {
  struct Name {
    std::string_view k, v, name;
  };
  static constexpr Name kNames[] = {{"fp8_e4m3", "fp8_e4m3", "fp8"},
                                    {"fp8_e5m2", "fp8_e5m2", "fp8_e5m2"},
                                    {"nvfp4", "nvfp4", "nvfp4"},
                                    {"int4_token_head", "int4_token_head", "int4_per_token_head"},
                                    {"turboquant4", "turboquant4", "turboquant_4bit_nc"},
                                    {"turboquant3", "turboquant4", "turboquant_k3v4_nc"},
                                    {"turboquant3", "turboquant3", "turboquant_3bit_nc"},
                                    {"fp8_e4m3", "turboquant4", "turboquant_k8v4"}};
  if (format.native()) return "auto";
  if (latent) return format.is("fp8_ds_mla", kNative) ? "fp8_ds_mla" : format.is("fp8_e4m3", kNative) ? "fp8" : "";
  for (const Name& one : kNames)
    if (format.is(one.k, one.v)) return std::string(one.name);
  return {};
}

std::string words_of(const CacheFormat& format) {
  return fmt::format("'{}' (k={}, v={})", format.text, format.k, format.v);
}

}  // namespace

void check_engine_words(std::string_view option, const SelectorSpec* selector, std::string_view per) {
  if (option == "--emit-trtllm") {
    if (selector != nullptr)
      refuse_other_than_factor(selector->label, selector->name, make_selector(*selector)->setting_kind(),
                               per != "model");
    return;
  }
  refuse_kv_heads(option, per == "kv_head");
  // Where there are candidates, or settings of layers, the chosen one decides.
  if (selector != nullptr && per == "model" && selector->name != "kv_cache" && selector->name != "exact")
    throw UsageError(fmt::format("{} takes formats of kv_cache, and exact: '{}' is {}", option,
                                 printable(selector->label), selector->name));
}

std::string trtllm_yaml(const Judgement& judgement) {
  const StudySelector& selector = judgement.set.selector;
  refuse_other_than_factor(selector.label, selector.name, selector.kind, judgement.units.has_value());
  if (!judgement.set.all_layers)
    throw UsageError(
        "--emit-trtllm takes all layers of the model: TensorRT-LLM has one factor for all; leave --layers out");
  // YAML 1.1 takes 1e-05 for text, since it lacks a point.
  std::string factor = fmt::format("{}", selector.grid[judgement.single.about().setting].value);
  if (const std::size_t e = factor.find('e'); e != std::string::npos && factor.find('.') == std::string::npos)
    factor.insert(e, ".0");
  return fmt::format(
      "# attest validate: {}\nsparse_attention_config:\n  algorithm: skip_softmax\n"
      "  threshold_scale_factor:\n    decode: {}\n",
      printable(guarantee_sentence(judgement)), factor);
}

std::string vllm_json(const Judgement& judgement) {
  std::string name = "auto", of;
  Json skipped = Json::array();
  const std::vector<CacheFormat> formats = formats_of_layers(judgement, "--emit-vllm");
  for (std::size_t layer = 0; layer < formats.size(); ++layer) {
    const CacheFormat& format = formats[layer];
    if (format.native()) {
      skipped.push_back(std::to_string(layer));
      continue;
    }
    const std::string own = vllm_name(format, judgement.set.shape.values_in_keys != 0);
    if (own.empty())
      throw UsageError(
          fmt::format("--emit-vllm: vLLM has no KV cache of {}, which layer {} has", words_of(format), layer));
    if (!of.empty() && own != name)
      throw UsageError(fmt::format("--emit-vllm: vLLM has one format and a list of layers without it, found {} and {}",
                                   of, words_of(format)));
    name = own;
    of = words_of(format);
  }
  const Json document = {{"kv_cache_dtype", name},
                         {"kv_cache_dtype_skip_layers", of.empty() ? Json::array() : skipped}};
  return document.dump(2) + "\n";
}

std::string modelopt_json(const Judgement& judgement) {
  Json layers = Json::object();
  std::set<std::string> algorithms;
  const std::vector<CacheFormat> formats = formats_of_layers(judgement, "--emit-modelopt");
  for (std::size_t layer = 0; layer < formats.size(); ++layer) {
    const CacheFormat& format = formats[layer];
    if (format.native()) continue;
    const bool fp8 = format.is("fp8_e4m3", "fp8_e4m3");
    if (!fp8 && !format.is("nvfp4", "nvfp4"))
      throw UsageError(fmt::format("--emit-modelopt: ModelOpt has KV caches of FP8 and NVFP4, found {} in layer {}",
                                   words_of(format), layer));
    const char* algorithm = fp8 ? "FP8" : "NVFP4";
    algorithms.insert(algorithm);
    layers[fmt::format("model.layers.{}.self_attn", layer)] = {{"quant_algo", algorithm}};
  }
  Json quantization = {{"quant_algo", Json()},
                       {"kv_cache_quant_algo", algorithms.empty()      ? Json()
                                               : algorithms.size() > 1 ? Json("MIXED_PRECISION")
                                                                       : Json(*algorithms.begin())},
                       {"kv_cache_quantized_layers", layers},
                       {"kv_cache_schema_version", 1}};
  const Json document = {{"producer", {{"name", "attest"}}}, {"quantization", std::move(quantization)}};
  return document.dump(2) + "\n";
}

std::string scales_note(const Judgement& judgement) {
  std::set<std::string> parts;
  for (const std::size_t setting : settings_of_layers(judgement)) {
    const StudySelector* selector = selector_of(judgement, setting);
    if (selector == nullptr || selector->name != "kv_cache") continue;
    for (const std::string side : {"k", "v"}) {
      const std::string format = format_of(*selector, side), scale = option_of(*selector, side + "_scale").value_or("");
      if ((format.starts_with("fp8_e") || format == "nvfp4") && scale != "unit" && scale != "1" && scale != "file")
        parts.insert(fmt::format("{}_scale={} of '{}'", side, scale, printable(judgement.setting_text(setting))));
    }
  }
  if (parts.empty()) return {};
  return fmt::format("the checkpoint must carry the scales that were judged ({}): without them engines take 1",
                     join(parts, ", "));
}

}  // namespace attest
