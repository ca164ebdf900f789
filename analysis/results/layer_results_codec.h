// Byte format of one layer's results in the files of finished units: little endian, with a checksum at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "analysis/results/layer_results.h"

namespace attest {

/// Gets the bytes piece by piece.
using PutBytes = std::function<void(std::string_view)>;

/// `study` identifies the study. Bytes of one study are not decoded for another.
void encode(const LayerResults& results, std::uint64_t study, const PutBytes& put);
/// The same bytes in one piece.
std::string encode(const LayerResults& results, std::uint64_t study);

/// Fills the span with the next bytes. It may throw.
using TakeBytes = std::function<void(std::span<std::byte>)>;

/// Empty if the `size` bytes are truncated, damaged, or of another study. At most `size` are taken.
std::optional<LayerResults> decode_layer_results(const TakeBytes& take, std::uint64_t size, std::uint64_t study);
/// The same of bytes in one piece.
std::optional<LayerResults> decode_layer_results(std::string_view bytes, std::uint64_t study);

}  // namespace attest
