// How an engine stores keys or values: a format of a KV cache with its scale, or 16 bits as dumped. Beside what the
// selector kv_cache stores (kernels/selectors/kv_store.h) there are the mistakes of engines: codes that are cut, a
// scale that is used on one side alone. Of the formats themselves there is one form, that of kernels/kv_formats/.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/layer/layer_amax.h"
#include "dumps/attention_layer.h"
#include "dumps/base/error.h"
#include "kernels/kv_formats/kv_format.h"
#include "kernels/kv_formats/scales_file.h"
#include "kernels/selectors/selector.h"

namespace attest {

/// Where the scale of a format is used. A cache that is stored and read with another scale is a defect.
enum class ScaleUse : std::uint8_t { stored_and_read, stored_alone, read_alone };

struct KvStorage {
  const KvFormat* format = nullptr;  ///< null: as dumped
  std::string scale;                 ///< value of the option k_scale or v_scale; empty for a format without
  bool rotate = true;                ///< option rotate = auto
  ScaleUse use = ScaleUse::stored_and_read;
  bool cut = false;                       ///< codes are cut towards zero: KvFormat::apply_cut
  bool integer_products = false;          ///< of keys of llama.cpp: queries are read in q8_0
  std::vector<float> scales;              ///< [KV heads] of a format with a scale
  std::vector<std::string> same_numbers;  ///< other values of the option that are these numbers in this layer

  bool same_as(const KvStorage& other) const {
    return format == other.format && scales == other.scales && rotate == other.rotate && use == other.use &&
           cut == other.cut && integer_products == other.integer_products;
  }
};

/// The keys and values of a cache.
struct KvStorages {
  KvStorage keys, values;
};

/// As options of the selector kv_cache, and what these cannot say in words: "k=q4_0,v=q4_0 (queries in q8_0)".
std::string storages_text(const KvStorages& storages);

/// What a `kv_cache` selector stores in this layer; 16 bits for any other selector.
KvStorages declared_storages(const Selector& selector, const AttentionLayer& layer, const LayerAmax& amax);

/// The formats' own reading of queries, if they have one: keys of llama.cpp are multiplied as integers on many devices.
inline bool has_integer_products(const KvStorage& keys) { return keys.format != nullptr && keys.format->of_llama_cpp; }

/// All ways to store the layer's keys, or values, in a format that fits them, with every kind of scale that it takes;
/// 16 bits first. Those of equal numbers appear once. For `declared`, also those that use its scale on one side alone.
std::vector<KvStorage> possible_storages(const AttentionLayer& layer, const LayerAmax& amax, bool keys,
                                         const KvStorage& declared, const Selector& selector);

/// The rows of a layer's keys or values, as formats take them.
inline KvRows kv_rows(const AttentionLayer& layer, bool keys, bool rotate) {
  return kv_rows(layer.shape.kv(), keys, rotate, layer.element_type);
}

/// Tokens whose keys or values are read at once.
inline constexpr std::int64_t kTile = 256;

/// Calls visit(first token, count) for each tile of the tokens from `begin` to before `end`. Throws Interrupted once
/// `stop` is set; it may be null.
template <class Visit>
void for_tiles(std::int64_t begin, std::int64_t end, const std::atomic<bool>* stop, Visit visit) {
  for (std::int64_t first = begin; first < end; first += kTile) {
    if (stop != nullptr && *stop) throw Interrupted("interrupted");
    visit(first, std::min(kTile, end - first));
  }
}

/// Keys and values of a KV head as attention reads them from a cache. Refers to its arguments.
class StoredHead {
 public:
  StoredHead(const AttentionLayer& layer, int kv_head, const KvStorages& storages)
      : layer_(layer), kv_head_(kv_head), storages_(storages) {}

  const AttentionLayer& layer() const { return layer_; }
  int kv_head() const { return kv_head_; }
  /// [count, D] of tokens from `first` on.
  void keys(std::int64_t first, std::int64_t count, double* out) const;
  /// [count, Dv]
  void values(std::int64_t first, std::int64_t count, double* out) const;
  /// [count, D] as dumped.
  void dumped_keys(std::int64_t first, std::int64_t count, float* out) const;

 private:
  const AttentionLayer& layer_;
  int kv_head_;
  const KvStorages& storages_;
};

/// A query [D] as products with such keys read it.
std::vector<float> read_query(const KvStorage& keys, const AttentionLayer& layer, std::span<const float> query);

/// x [count, C] of a KV head through a storage, to out [count, C].
void through_storage(const KvStorage& storage, const KvRows& rows, int kv_head, const float* x, std::int64_t count,
                     double* out);

}  // namespace attest
