// Gives a selector the scores of K^ for exact scores, and its outputs K^ and V^ where it reads exact ones.
#include "kernels/selectors/cached_selector.h"

#include <fmt/core.h>

#include "dumps/base/error.h"
#include "kernels/device/on_cuda.h"
#include "kernels/kv_formats/scales_file.h"

namespace attest {
namespace {

class CachedSelector final : public Selector {
 public:
  CachedSelector(std::unique_ptr<Selector> inner, CacheOptions cache)
      : Selector(*inner), inner_(std::move(inner)), cache_(std::move(cache)) {}

  SettingKind setting_kind() const override { return inner_->setting_kind(); }
  bool monotone() const override { return inner_->monotone(); }
  bool has_estimate() const override { return inner_->has_estimate(); }
  bool estimates_scores() const override { return inner_->estimates_scores(); }
  bool counts_scan() const override { return inner_->counts_scan(); }
  std::span<const MetricInfo> own_metrics() const override { return inner_->own_metrics(); }
  double resolve(const Setting& setting, std::int64_t visible) const override {
    return inner_->resolve(setting, visible);
  }
  double natural_delta(double setting, const ScoreTransform& transform) const override {
    return inner_->natural_delta(setting, transform);
  }
  std::string_view short_context(double setting, std::int64_t visible) const override {
    return inner_->short_context(setting, visible);
  }
  std::vector<EstimateSource> estimate_sources() const override { return inner_->estimate_sources(); }
  std::vector<std::string> calibration_samples() const override { return inner_->calibration_samples(); }
  void calibrate(const AttentionLayer& layer) override { inner_->calibrate(layer); }
  bool needs_amax() const override { return inner_->needs_amax() || cache_.store.needs_amax(); }

  void check(const KvShape& kv) const override {
    inner_->check(kv);
    for (const bool keys : {true, false})
      if (const std::string fault = cache_.store.fault(kv, keys); !fault.empty())
        throw UsageError(fmt::format("selector '{}': option 'cache' has '{}', and {} have {}", name(),
                                     cache_.store.side(keys).format->name, keys ? "keys" : "values", fault));
  }
  void check_layer(int layer, int num_kv_heads) const override {
    inner_->check_layer(layer, num_kv_heads);
    if (!is_dense_layer(layer, num_kv_heads)) cache_.store.check_layer(layer, num_kv_heads);
  }
  std::vector<std::string> input_files() const override {
    std::vector<std::string> files = inner_->input_files();
    if (!cache_.scales_file.empty()) files.push_back(cache_.scales_file);
    return files;
  }

  void select(const KvHead& head, const RankedScores& exact, std::span<const AscendingGrid> grids,
              Selection& out) const override {
    const KvStore& store = cache_.store;
    const KvShape kv = head.shape();
    KvHead cached = head;
    cached.stored = store.bytes(kv);
    if (store.stores_keys()) {
      store.score(head, out.stored.scores);
      if (inner_->needs_exact_order()) out.stored.rank(head.visible, head.group);
    }
    inner_->select(cached, store.stores_keys() ? out.stored : exact, grids, out);
    if (store.stores_keys() && out.read_scores == nullptr) out.read_scores = &out.stored.scores;
    if (store.stores_values(kv)) out.stored_values = store.values(head);
  }

  /// With keys in 16 bits the inner selector reads the exact order.
  bool needs_exact_order() const override { return !cache_.store.stores_keys() && inner_->needs_exact_order(); }

  std::shared_ptr<const CudaSelector> cuda_code() const override {
    if (!cache_.store.has_cuda_code()) return nullptr;
    return call_on_cuda<make_cuda_cached>(inner_->cuda_code(), cache_.store);
  }

 private:
  std::unique_ptr<Selector> inner_;
  CacheOptions cache_;
};

const KvFormat* format_of(const std::string& name, const std::string& where, bool keys) {
  const KvFormat* format = find_kv_format(name);
  if (format == nullptr && name != kNative) {
    std::string known(kNative);
    for (const KvFormat* one : kv_formats()) known.append(", ").append(one->name);
    throw UsageError(fmt::format("{} has '{}', expected FORMAT or K_FORMAT+V_FORMAT of {}", where, name, known));
  }
  if (!keys && format != nullptr && !format->of_values)
    throw UsageError(fmt::format("{} has '{}' for values, expected a format that stores values", where, name));
  return format;
}

}  // namespace

std::optional<CacheOptions> read_cache_options(OptionReader& reader) {
  const std::string selector = fmt::format("selector '{}': option ", reader.selector());
  if (!reader.given("cache")) {
    for (const char* other : {"cache_scale", "cache_scales_file"})
      if (reader.given(other)) throw UsageError(fmt::format("{}'{}' needs the option 'cache'", selector, other));
    return std::nullopt;
  }
  const std::string formats =
      reader.text("cache", "", {"format of keys and values that are read in place of 16-bit ones"});
  const std::size_t plus = formats.find('+');
  const std::string where = selector + "'cache'";
  const KvFormat* keys = format_of(formats.substr(0, plus), where, true);
  // A format of latent keys stores their values, too.
  const bool shared = plus == std::string::npos && keys != nullptr && !keys->of_values;
  const KvFormat* values =
      shared ? nullptr : format_of(plus == std::string::npos ? formats : formats.substr(plus + 1), where, false);
  const std::string path = reader.text("cache_scales_file", "", {"scales of the formats, as scales_file of kv_cache"});
  std::shared_ptr<const ScalesFile> file;
  if (!path.empty()) file = std::make_shared<const ScalesFile>(path);
  const std::string scale = reader.text("cache_scale", "", {"of fp8 and nvfp4, as k_scale of kv_cache"});
  const auto side = [&](const KvFormat* format, bool of_keys) {
    const std::string text = scale.empty() ? std::string(KvScale::default_text(format, file != nullptr)) : scale;
    return KvStore::Side{
        format, KvScale(selector + "'cache_scale'", text, format, of_keys, file, {"cache_scales_file", "dense_heads"})};
  };
  return CacheOptions{KvStore(side(keys, true), side(values, false), true), path};
}

std::unique_ptr<Selector> with_cache(std::unique_ptr<Selector> selector, CacheOptions cache) {
  return std::make_unique<CachedSelector>(std::move(selector), std::move(cache));
}

}  // namespace attest
