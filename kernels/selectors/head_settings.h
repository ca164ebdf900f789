// Settings of single KV heads of a model.
#pragma once

#include <map>
#include <optional>

namespace attest {

/// The setting of a KV head, or exact attention.
struct HeadSetting {
  double value = 0;    ///< of a KV head that is not dense; may be infinite
  bool dense = false;  ///< nothing is dropped, and exact keys and values are read, whatever the setting
  bool operator==(const HeadSetting&) const = default;
};

/// The settings of a layer. What it lacks is that of the model.
struct LayerSettings {
  std::optional<HeadSetting> fallback;    ///< of KV heads without a setting of their own
  std::map<int, HeadSetting> kv_heads{};  ///< by index in the layer
  bool operator==(const LayerSettings&) const = default;
};

/// The settings of a model.
struct HeadSettings {
  HeadSetting fallback;                   ///< of KV heads without a setting of their own, or of their layer
  std::map<int, LayerSettings> layers{};  ///< by index in the model

  HeadSetting at(int layer, int kv_head) const {
    const auto own = layers.find(layer);
    if (own == layers.end()) return fallback;
    const auto of_head = own->second.kv_heads.find(kv_head);
    return of_head != own->second.kv_heads.end() ? of_head->second : own->second.fallback.value_or(fallback);
  }
  bool operator==(const HeadSettings&) const = default;
};

}  // namespace attest
