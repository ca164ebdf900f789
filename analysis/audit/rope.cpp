// Reads rotary parameters, and turns vectors.
#include "analysis/audit/rope.h"

#include <cmath>

#include "dumps/base/json.h"

namespace attest {
namespace {

bool is_plain(const Json& parameters) {
  const std::string kind = parameters["rope_type"].text_or("default");
  return kind == "default";
}

std::vector<double> frequencies_of(const Json& parameters, int turning) {
  std::vector<double> frequencies;
  const Json& listed = parameters["inv_freq"];
  if (listed.is_array()) {
    for (const Json& frequency : listed) {
      if (!frequency.is_number()) return {};
      frequencies.push_back(frequency.number());
    }
    return frequencies;
  }
  const Json& theta = parameters["rope_theta"].is_number() ? parameters["rope_theta"] : parameters["theta"];
  if (!theta.is_number() || !(theta.number() > 1) || !is_plain(parameters)) return {};
  const Json& share = parameters["partial_rotary_factor"];
  if (share.is_number() && !(share.number() > 0 && share.number() <= 1)) return {};
  const int channels = share.is_number() ? static_cast<int>(turning * share.number()) : turning;
  for (int i = 0; i < channels / 2; ++i) frequencies.push_back(std::pow(theta.number(), -2.0 * i / channels));
  return frequencies;
}

}  // namespace

std::optional<Rope> rope_of_layer(const std::string& text, int layer, int head_dim) {
  const std::optional<Json> document = parsed_json(text);
  if (!document || !document->is_object()) return std::nullopt;
  const Json& kinds = (*document)["layer_types"];
  const Json* parameters = &*document;
  if (kinds.is_array()) {
    const Json& kind = kinds[static_cast<std::size_t>(layer)];
    if (!kind.is_text() || !(*document)[kind.text()].is_object()) return std::nullopt;
    parameters = &(*document)[kind.text()];
  }
  Rope rope;
  const Json& first = (*document)["first_channel"];
  if (first.is_whole(0, head_dim)) rope.first_channel = static_cast<int>(first.whole());
  rope.frequencies = frequencies_of(*parameters, head_dim - rope.first_channel);
  if (rope.frequencies.empty() || rope.frequencies.size() > static_cast<std::size_t>(head_dim - rope.first_channel) / 2)
    return std::nullopt;
  for (const double frequency : rope.frequencies)
    if (!std::isfinite(frequency)) return std::nullopt;
  return rope;
}

void Rope::turn(double positions, std::span<float> vector) const {
  const std::size_t pairs = frequencies.size();
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::size_t start = static_cast<std::size_t>(first_channel);
    float& a = vector[start + (neighbours ? 2 * i : i)];
    float& b = vector[start + (neighbours ? 2 * i + 1 : i + pairs)];
    const double cosine = std::cos(positions * frequencies[i]), sine = std::sin(positions * frequencies[i]);
    const double turned = a * cosine - b * sine;
    b = static_cast<float>(b * cosine + a * sine);
    a = static_cast<float>(turned);
  }
}

}  // namespace attest
