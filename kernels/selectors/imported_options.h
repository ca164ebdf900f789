// Options of imported and values derived from them, shared by the CPU and CUDA code. Method: imported.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/selectors/cuda_selector.h"
#include "kernels/selectors/options.h"

namespace attest {

class ImportedOptions {
 protected:
  enum class Rule : std::uint8_t { topk, topp, topdelta, all };

  explicit ImportedOptions(OptionReader& reader) {
    source_.file = reader.text("file", "", {"HDF5 file with the estimates (dumps/README.md)"});
    source_.dataset = reader.text("dataset", "", {"name of the estimates in each layer's group"});
    keys_ = {source_.file, reader.text("keys", "", {"name of the keys that are read in place of the dump's"}), 1,
             EstimateKind::keys};
    values_ = {source_.file, reader.text("values", "", {"name of the values that are read in place of the dump's"}), 1,
               EstimateKind::values};
    rule_ = reader.enumeration<Rule>("rule", {"topk", "topp", "topdelta", "all"},
                                     {"what is kept: top-k (budget), top-p (p), top-delta (delta), or every token"});
    const bool by_block = reader.choice("granularity", {"token", "block"},
                                        {"an entry is the estimate of a token, or of a block"}) == "block";
    const int block = reader.integer("block", 64, 1, 1 << 20, {"size of a block; needs granularity=block", "tokens"});
    source_.width = by_block ? block : 1;
    sink_ = reader.integer("sink", 0, 0, 1 << 30, {"always kept at the start", "tokens"});
    local_ = reader.integer("local", 0, 0, 1 << 30, {"always kept at the end", "tokens"});
    union_ = reader.choice("gqa", {"per_head", "union"},
                           {"a KV head's query heads keep sets of their own, or what any of them keeps"}) == "union";
    in_nats_ = reader.choice("units", {"scores", "ranks"},
                             {"the estimates are scores in natural-log units, or only ranks"}) == "scores";
    scan_bytes_ =
        reader.real("scan_bytes", 0, 0, 1e9, {"what the scan reads per visible key; 0: not counted", "bytes"});
    token_bytes_ =
        reader.real("token_bytes", 0, 0, 1e9, {"what a kept token's key and value take; 0: 16-bit ones", "bytes"});
  }

  /// The entries of the estimates that cover a query's visible keys.
  struct Entries {
    std::int64_t first, count;
  };
  Entries entries(std::int64_t first_key, std::int64_t visible) const {
    const std::int64_t first = first_key / source_.width, last = (first_key + visible - 1) / source_.width;
    return {first, last + 1 - first};
  }
  /// n of rule = topk (imported.cpp).
  std::int64_t kept_entries(double budget, std::int64_t all) const {
    return static_cast<std::int64_t>(
        std::min(static_cast<double>(all), std::max(1.0, std::floor(budget / source_.width))));
  }
  IoCost bytes(const KvShape& kv, std::int64_t visible) const {
    return {.fixed = scan_bytes_ * static_cast<double>(visible),
            .per_kept_token = token_bytes_ > 0 ? token_bytes_ : kv.token_bytes(),
            .free_tokens = 0};
  }
  /// What the layer has from a source. EstimateReader has checked that it exists.
  static const LayerEstimates& find(std::span<const LayerEstimates> all, const EstimateSource& source) {
    return *std::ranges::find(all, source, &LayerEstimates::source);
  }

  EstimateSource source_;         ///< of the estimates
  EstimateSource keys_, values_;  ///< without a data set: the dump's
  Rule rule_;
  int sink_, local_;  ///< tokens that are always kept
  bool union_;
  bool in_nats_;
  double scan_bytes_;   ///< bytes per visible key
  double token_bytes_;  ///< bytes per kept token; 0: of a dense 16-bit read
};

/// Defined in imported_cuda.cu.
std::shared_ptr<const CudaSelector> make_cuda_imported(const ImportedOptions& options);

}  // namespace attest
