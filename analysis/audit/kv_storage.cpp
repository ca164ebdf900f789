// Storages of keys and values: the declared one, all that fit, and what attention reads through one.
#include "analysis/audit/kv_storage.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "dumps/base/join.h"
#include "kernels/kv_formats/kv_scale.h"

namespace attest {
namespace {

/// Options of a selector kv_cache by name.
std::map<std::string, std::string> options_of(const Selector& selector) {
  std::map<std::string, std::string> options;
  if (selector.name() == "kv_cache")
    for (const OptionValue& option : selector.options()) options[option.name] = option.value;
  return options;
}

std::shared_ptr<const ScalesFile> scales_file_of(const std::map<std::string, std::string>& options) {
  const auto found = options.find("scales_file");
  if (found == options.end() || found->second.empty()) return nullptr;
  return std::make_shared<const ScalesFile>(found->second);
}

KvStorage make_storage(const AttentionLayer& layer, const LayerAmax& amax, bool keys, const KvFormat* format,
                       const std::string& scale, bool rotate, const std::shared_ptr<const ScalesFile>& file) {
  KvStorage storage{.format = format, .scale = {}, .rotate = rotate, .scales = {}, .same_numbers = {}};
  if (format == nullptr || format->scale_divisor == 0) return storage;
  storage.scale = scale;
  const KvScale scales("kv_cache", scale, format, keys, file);
  scales.check_layer(layer.layer, layer.shape.num_kv_heads);
  for (int head = 0; head < layer.shape.num_kv_heads; ++head)
    storage.scales.push_back(scales.of(layer.layer, head, keys ? amax.keys : amax.values));
  return storage;
}

std::string use_text(const KvStorage& storage, std::string_view side) {
  if (storage.use == ScaleUse::stored_and_read) return {};
  return fmt::format("{} stored {} {}_scale={} and read {} it", side == "k" ? "keys" : "values",
                     storage.use == ScaleUse::stored_alone ? "with" : "without", side, storage.scale,
                     storage.use == ScaleUse::stored_alone ? "without" : "with");
}

void convert_rows(const AttentionLayer& layer, const LayerBuffer& buffer, int channels, int kv_head, std::int64_t first,
                  std::int64_t count, float* out) {
  const std::size_t element = static_cast<std::size_t>((kv_head * layer.num_tokens + first) * channels);
  convert_to_float(layer.element_type, buffer.data() + element * size_of(layer.element_type),
                   static_cast<std::size_t>(count * channels), out);
}

}  // namespace

std::string storages_text(const KvStorages& storages) {
  const auto name = [](const KvStorage& side) { return side.format == nullptr ? "native" : side.format->name; };
  if (storages.keys.format == nullptr && storages.values.format == nullptr)
    return "exact attention, from keys and values as dumped";
  std::string text = fmt::format("k={},v={}", name(storages.keys), name(storages.values));
  std::vector<std::string> notes, same;
  for (const auto& [side, storage] : {std::pair("k", &storages.keys), std::pair("v", &storages.values)}) {
    if (storage->scale.empty()) continue;
    if (storage->use != ScaleUse::stored_and_read)
      notes.push_back(use_text(*storage, side));
    else if (storage->scale != KvScale::default_text(storage->format, false))
      text += fmt::format(",{}_scale={}", side, storage->scale);
    for (const std::string& other : storage->same_numbers) same.push_back(fmt::format("{}_scale={}", side, other));
  }
  const auto plain = [](const KvStorage& side) { return side.format != nullptr && !side.rotate; };
  if (plain(storages.keys) || plain(storages.values)) text += ",rotate=none";
  if (storages.keys.cut || storages.values.cut)
    notes.push_back(fmt::format("codes{} are cut towards zero, not rounded", !storages.values.cut ? " of keys"
                                                                             : !storages.keys.cut ? " of values"
                                                                                                  : ""));
  if (storages.keys.integer_products) notes.emplace_back("queries in q8_0");
  if (!same.empty()) notes.push_back(fmt::format("the same here as {}", join(same, ",")));
  return notes.empty() ? text : fmt::format("{} ({})", text, join(notes, "; "));
}

KvStorages declared_storages(const Selector& selector, const AttentionLayer& layer, const LayerAmax& amax) {
  const std::map<std::string, std::string> options = options_of(selector);
  if (options.empty() || selector.is_dense_layer(layer.layer, layer.shape.num_kv_heads)) return {};
  const std::shared_ptr<const ScalesFile> file = scales_file_of(options);
  const bool rotate = options.at("rotate") == "auto";
  const auto side = [&](const char* format, const char* scale, bool keys) {
    return make_storage(layer, amax, keys, find_kv_format(options.at(format)), options.at(scale), rotate, file);
  };
  return {side("k", "k_scale", true), side("v", "v_scale", false)};
}

std::vector<KvStorage> possible_storages(const AttentionLayer& layer, const LayerAmax& amax, bool keys,
                                         const KvStorage& declared, const Selector& selector) {
  const std::shared_ptr<const ScalesFile> file = scales_file_of(options_of(selector));
  std::vector<KvStorage> storages(1);
  const auto add_one = [&](KvStorage storage) {
    const auto same = std::ranges::find_if(storages, [&](const KvStorage& known) { return known.same_as(storage); });
    if (same == storages.end())
      storages.push_back(std::move(storage));
    else if (same->scale != storage.scale)
      same->same_numbers.push_back(storage.scale);
  };
  const auto add = [&](KvStorage storage) {
    if (keys && has_integer_products(storage)) {
      KvStorage integers = storage;
      integers.integer_products = !storage.integer_products;
      add_one(std::move(storage));
      storage = std::move(integers);
    }
    add_one(std::move(storage));
  };
  if (declared.format != nullptr) add(declared);
  if (!keys && layer.shape.values_in_keys != 0) return storages;
  for (const KvFormat* format : kv_formats()) {
    if ((!keys && !format->of_values) || !format->fault(kv_rows(layer, keys, true)).empty()) continue;
    std::vector<std::string> scales{""};
    if (format->scale_divisor > 0) {
      scales = {"unit", "amax", "modelopt"};
      if (format->scale_of_head) scales.emplace_back("amax_head");
      // A file without this layer, or of another kind of scale, is no candidate.
      if (file != nullptr && (keys ? file->keys : file->values).contains(layer.layer) && format == declared.format)
        scales.emplace_back("file");
    }
    for (const std::string& scale : scales) add(make_storage(layer, amax, keys, format, scale, true, file));
    if (format->of_llama_cpp && kv_rows(layer, keys, true).channels % 64 == 0)
      add(make_storage(layer, amax, keys, format, "", false, file));
  }
  for (std::size_t i = 0, count = storages.size(); i < count; ++i) {
    const KvStorage& storage = storages[i];
    if (storage.format == nullptr || storage.format->apply_cut == nullptr) continue;
    if (storage.scale != "unit" && !storage.same_as(declared)) continue;
    KvStorage cut = storage;
    cut.cut = true;
    add(std::move(cut));
  }
  if (std::ranges::any_of(declared.scales, [](float scale) { return scale != 1; }))
    for (const ScaleUse use : {ScaleUse::stored_alone, ScaleUse::read_alone}) {
      KvStorage one_sided = declared;
      one_sided.use = use;
      add(std::move(one_sided));
    }
  return storages;
}

std::vector<float> read_query(const KvStorage& keys, const AttentionLayer& layer, std::span<const float> query) {
  std::vector<float> read(query.begin(), query.end());
  if (!keys.integer_products) return read;
  std::vector<double> rounded(query.size());
  find_kv_format("q8_0")->apply(kv_rows(layer, true, keys.rotate), 1, query.data(), 1, rounded.data(),
                                static_cast<std::int64_t>(query.size()));
  std::ranges::transform(rounded, read.begin(), [](double x) { return static_cast<float>(x); });
  return read;
}

void through_storage(const KvStorage& storage, const KvRows& rows, int kv_head, const float* x, std::int64_t count,
                     double* out) {
  if (storage.format == nullptr) {
    std::copy_n(x, count * rows.channels, out);
    return;
  }
  const float scale = storage.scales.empty() ? 1.0f : storage.scales[static_cast<std::size_t>(kv_head)];
  const auto apply = storage.cut ? storage.format->apply_cut : storage.format->apply;
  apply(rows, storage.use == ScaleUse::read_alone ? 1.0f : scale, x, count, out, rows.channels);
  if (storage.use == ScaleUse::stored_and_read) return;
  const double factor = storage.use == ScaleUse::read_alone ? scale : 1.0 / scale;
  for (std::int64_t i = 0; i < count * rows.channels; ++i) out[i] *= factor;
}

void StoredHead::dumped_keys(std::int64_t first, std::int64_t count, float* out) const {
  convert_rows(layer_, layer_.k, layer_.shape.head_dim, kv_head_, first, count, out);
}

void StoredHead::keys(std::int64_t first, std::int64_t count, double* out) const {
  const KvRows rows = kv_rows(layer_, true, storages_.keys.rotate);
  std::vector<float> dumped(static_cast<std::size_t>(count * rows.channels));
  dumped_keys(first, count, dumped.data());
  through_storage(storages_.keys, rows, kv_head_, dumped.data(), count, out);
}

void StoredHead::values(std::int64_t first, std::int64_t count, double* out) const {
  const AttentionShape& shape = layer_.shape;
  if (shape.values_in_keys != 0 && storages_.keys.format != nullptr) {
    std::vector<double> keys_of_tokens(static_cast<std::size_t>(count * shape.head_dim));
    keys(first, count, keys_of_tokens.data());
    for (std::int64_t t = 0; t < count; ++t)
      std::copy_n(keys_of_tokens.data() + t * shape.head_dim, shape.value_dim, out + t * shape.value_dim);
    return;
  }
  const KvRows rows = kv_rows(layer_, false, storages_.values.rotate);
  std::vector<float> dumped(static_cast<std::size_t>(count * rows.channels));
  convert_rows(layer_, layer_.v, shape.value_dim, kv_head_, first, count, dumped.data());
  through_storage(storages_.values, rows, kv_head_, dumped.data(), count, out);
}

}  // namespace attest
