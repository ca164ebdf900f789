// Parses k_scale and v_scale, and computes the scale of a layer and KV head.
#include "kernels/kv_formats/kv_scale.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "dumps/base/error.h"
#include "dumps/base/text_parts.h"

namespace attest {
namespace {

constexpr float kLargestE4m3 = 448;

}  // namespace

std::string_view KvScale::default_text(const KvFormat* format, bool has_file) {
  if (has_file) return "file";
  return format != nullptr && format->amax_by_default ? "amax" : "unit";
}

KvScale::KvScale(const std::string& where, const std::string& text, const KvFormat* format, bool keys,
                 std::shared_ptr<const ScalesFile> file, ScaleOptionNames options)
    : format_(format),
      takes_scale_(format != nullptr && format->scale_divisor > 0),
      keys_(keys),
      file_(std::move(file)),
      options_(options) {
  struct Word {
    std::string_view word;
    Kind kind;
  };
  constexpr std::array<Word, 5> kWords{{{"unit", Kind::number},  // number_ is 1
                                        {"amax", Kind::amax},
                                        {"amax_head", Kind::amax_head},
                                        {"modelopt", Kind::modelopt},
                                        {"file", Kind::file}}};
  const auto word = std::ranges::find(kWords, text, &Word::word);
  if (word == kWords.end()) {
    const std::optional<float> number = parse_number<float>(text);
    if (!number || !std::isnormal(*number) || *number < 0)
      throw UsageError(
          fmt::format("{} is '{}', expected a number above 0 that float32 holds, 'unit', 'amax', "
                      "'amax_head', 'modelopt' or 'file'",
                      where, text));
    number_ = *number;
    return;
  }
  kind_ = word->kind;
  if (kind_ == Kind::file && !file_)
    throw UsageError(fmt::format("{} is 'file', expected the option '{}' beside it", where, options_.file));
  if (kind_ == Kind::amax_head && takes_scale_ && !format->scale_of_head)
    throw UsageError(
        fmt::format("{} is 'amax_head', expected another: {} has one scale for all KV heads", where, format->name));
}

void KvScale::check_layer(int layer, int num_kv_heads) const {
  if (!takes_scale_ || kind_ != Kind::file) return;
  const std::string_view name = keys_ ? "k_scale" : "v_scale";
  const auto& layers = keys_ ? file_->keys : file_->values;
  const auto found = layers.find(layer);
  if (found == layers.end())
    throw InputError(
        fmt::format("{}: has no tensor layers.{}.*{}, expected the scale of layer {} ({} leaves it in 16 bit)",
                    file_->path, layer, name, layer, options_.exempt));
  const std::size_t count = found->second.size(), heads = static_cast<std::size_t>(num_kv_heads);
  if (count != 1 && (count != heads || !format_->scale_of_head))
    throw InputError(fmt::format("{}: layers.{}.*{} has {} numbers, expected one{}", file_->path, layer, name, count,
                                 format_->scale_of_head
                                     ? fmt::format(", or {}, one per KV head", heads)
                                     : fmt::format(": {} has one scale for all KV heads", format_->name)));
}

AmaxScale KvScale::from_amax() const {
  if (kind_ != Kind::modelopt) return {.divisor = format_->scale_divisor, .of_head = kind_ == Kind::amax_head};
  return {.divisor = kLargestE4m3, .min = format_->amax_by_default ? 0.0f : 1.0f};
}

float KvScale::of(int layer, int kv_head, std::span<const float> amax) const {
  if (!takes_scale_) return 1;
  if (kind_ == Kind::number) return number_;
  const auto head = static_cast<std::size_t>(kv_head);
  if (kind_ == Kind::file) {
    const std::vector<float>& scales = (keys_ ? file_->keys : file_->values).at(layer);
    return scales.size() == 1 ? scales[0] : scales[head];
  }
  const AmaxScale rule = from_amax();
  const float scale = (rule.of_head ? amax[head] : *std::ranges::max_element(amax)) / rule.divisor;
  return scale == 0 ? 1 : std::max(scale, rule.min);
}

}  // namespace attest
