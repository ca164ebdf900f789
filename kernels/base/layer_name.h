// The layer that the name of a model's tensor tells.
#pragma once

#include <optional>
#include <string_view>

#include "dumps/base/text_parts.h"

namespace attest {

/// N of a tensor's name like "model.layers.N.self_attn.k_scale"; nothing where there is none.
inline std::optional<int> layer_in_name(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = name.find(kLayers);
  if (at == std::string_view::npos || (at > 0 && name[at - 1] != '.')) return std::nullopt;
  std::string_view rest = name.substr(at + kLayers.size());
  const std::optional<int> layer = take_index(rest);
  return rest.starts_with('.') ? layer : std::nullopt;
}

}  // namespace attest
