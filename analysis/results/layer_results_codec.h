// One layer's results as bytes, for the files of finished units: little endian, a checksum at the end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "analysis/results/layer_results.h"

namespace attest {

/// `study` tells studies apart: bytes of one are not decoded for another.
std::string encode(const LayerResults& results, std::uint64_t study);

/// Empty when the bytes are cut short, damaged, or of another study.
std::optional<LayerResults> decode_layer_results(std::string_view bytes, std::uint64_t study);

}  // namespace attest
