// The scale of a layer's keys or values, as the options k_scale and v_scale choose it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kernels/kv_formats/kv_format.h"
#include "kernels/kv_formats/scales_file.h"

namespace attest {

/// How a scale follows from largest magnitudes: max(amax / divisor, min), of the layer or of the KV head; 0 becomes 1.
struct AmaxScale {
  float divisor = 1;
  float min = 0;
  bool of_head = false;
};

/// What a selector calls its options: of the file, and the one that exempts a layer from the cache.
struct ScaleOptionNames {
  std::string_view file = "scales_file", exempt = "skip_layers";
};

/// With `amax` the largest magnitude of the keys (values) of the whole layer in the sample:
///   NUMBER     itself; `unit` is 1, what engines fall back to
///   amax       amax / 448 (fp8_e4m3), / 57344 (fp8_e5m2), / 2688 (nvfp4)
///   amax_head  the same of each KV head (fp8)
///   modelopt   max(amax / 448, 1) for fp8, amax / 448 for nvfp4
///   file       of the layer in a checkpoint (ScalesFile)
/// A scale that is computed and 0 becomes 1. Formats without a scale have 1.
class KvScale {
 public:
  /// The default: "file" where there is a file, else the format's.
  static std::string_view default_text(const KvFormat* format, bool has_file);

  /// `format` may be null: 16 bit. `keys`: else values. Throws UsageError, beginning with `where`, for another text,
  /// and for one that the format does not take.
  KvScale(const std::string& where, const std::string& text, const KvFormat* format, bool keys,
          std::shared_ptr<const ScalesFile> file, ScaleOptionNames options = {});

  bool needs_amax() const { return takes_scale_ && kind_ != Kind::number && kind_ != Kind::file; }
  /// To be called only if needs_amax().
  AmaxScale from_amax() const;
  /// Throws InputError if the file lacks the layer, or has another number of KV heads.
  void check_layer(int layer, int num_kv_heads) const;
  /// amax [KV heads] of the layer, where needs_amax(); else it may be empty.
  float of(int layer, int kv_head, std::span<const float> amax) const;

 private:
  enum class Kind : std::uint8_t { number, amax, amax_head, modelopt, file };

  const KvFormat* format_;
  bool takes_scale_, keys_;
  Kind kind_ = Kind::number;
  float number_ = 1;
  std::shared_ptr<const ScalesFile> file_;
  ScaleOptionNames options_;
};

}  // namespace attest
