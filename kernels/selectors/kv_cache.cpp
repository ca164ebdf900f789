// kv_cache: drops no token; keys and values are stored in a format of an engine's KV cache (kv_formats/), and what
// attention reads is K^ and V^.
//   s^ = s' = scale * q.k^, soft-capped like s
//   o = sum_j softmax(s')_j v^_j
// Where the dump's values are the first channels of its keys (values_in_keys), V^ is those of K^.
// Source: ../kv_formats/README.md names the engine of each format. An engine's prompt attends before its keys are
// stored; here every query of a dump is a decode query.
//
// Bytes per KV head: L times those of the formats of k and v. Scales of a layer or KV head are not counted.
#include "kernels/selectors/kv_cache.h"

#include <fmt/core.h>

#include <algorithm>

#include "dumps/base/error.h"
#include "dumps/base/text_parts.h"
#include "kernels/device/on_cuda.h"
#include "kernels/kv_formats/scales_file.h"
#include "kernels/selectors/exact.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

class KvCache final : public Selector {
 public:
  explicit KvCache(OptionReader& reader) {
    const KvFormat* keys = read_format(reader, "k", true);
    const KvFormat* values = read_format(reader, "v", false);
    const std::string path = reader.text(
        "scales_file", "", {"safetensors with *layers.N.*k_scale and *v_scale, one number each or one per KV head"});
    if (!path.empty()) scales_file_ = std::make_shared<const ScalesFile>(path);
    KvStore::Side k = read_side(reader, "k_scale", keys, true), v = read_side(reader, "v_scale", values, false);
    const bool rotate =
        reader.choice("rotate", {"auto", "none"},
                      {"the q formats rotate rows of 64 i channels as llama.cpp does, or not"}) == "auto";
    store_.emplace(std::move(k), std::move(v), rotate);
    skip_layers(reader.text("skip_layers", "", {"layers that stay in 16 bit: 0+1+30", "layers"}));
    finish(reader, 0);
  }

  SettingKind setting_kind() const override { return SettingKind::none; }
  bool has_estimate() const override { return true; }
  bool needs_amax() const override { return store_->needs_amax(); }
  std::shared_ptr<const CudaSelector> cuda_code() const override {
    return store_->has_cuda_code() ? call_on_cuda<make_cuda_kv_cache>(*store_) : nullptr;
  }
  std::vector<std::string> input_files() const override {
    return scales_file_ ? std::vector{scales_file_->path} : std::vector<std::string>();
  }

  void check(const KvShape& kv) const override {
    const KvFormat* values = store_->side(false).format;
    if (kv.values_in_keys && values != nullptr)
      throw UsageError(
          fmt::format("selector 'kv_cache': option 'v' is '{}', expected 'native': the values are in the "
                      "keys (values_in_keys), which k stores",
                      values->name));
    for (const bool keys : {true, false})
      if (const std::string fault = store_->fault(kv, keys); !fault.empty())
        throw UsageError(fmt::format("selector 'kv_cache': option '{}' is '{}', and {} have {}", keys ? "k" : "v",
                                     store_->side(keys).format->name, keys ? "keys" : "values", fault));
  }
  void check_layer(int layer, int num_kv_heads) const override {
    Selector::check_layer(layer, num_kv_heads);
    if (!is_dense_layer(layer, num_kv_heads)) store_->check_layer(layer, num_kv_heads);
  }

  void select(const KvHead& head, const RankedScores& exact, std::span<const AscendingGrid>,
              Selection& out) const override {
    const KvShape kv = head.shape();
    keep_all(head, out);
    out.estimate = &exact;
    out.exact = !store_->stores_keys() && !store_->stores_values(kv);
    if (store_->stores_keys()) {
      store_->score(head, out.own_estimate.scores);
      out.estimate = &out.own_estimate;
      out.read_scores = &out.own_estimate.scores;
    }
    if (store_->stores_values(kv)) out.stored_values = store_->values(head);
    const double bytes = store_->stored_shape(kv).token_bytes();
    for (std::size_t n = 0; n < out.io.size(); ++n)
      out.io[n] = {.fixed = bytes * static_cast<double>(head.visible[n]), .per_kept_token = 0, .free_tokens = 0};
  }

 private:
  static const KvFormat* read_format(OptionReader& reader, const std::string& option, bool keys) {
    std::vector<std::string_view> names{kNative};
    for (const KvFormat* format : kv_formats())
      if (keys || format->of_values) names.push_back(format->name);
    return find_kv_format(
        reader.choice(option, names, {keys ? "format of keys; native: 16 bit as dumped" : "format of values"}));
  }

  KvStore::Side read_side(OptionReader& reader, const std::string& option, const KvFormat* format, bool keys) const {
    const std::string text = reader.text(option, std::string(KvScale::default_text(format, scales_file_ != nullptr)),
                                         {keys ? "of fp8 and nvfp4 keys: a number, unit, amax, amax_head, modelopt or "
                                                 "file; by default unit for fp8, amax for nvfp4, file with scales_file"
                                               : "of fp8 and nvfp4 values, like k_scale"});
    return {format, KvScale(fmt::format("selector 'kv_cache': option '{}'", option), text, format, keys, scales_file_)};
  }

  void skip_layers(std::string_view text) {
    if (text.empty()) return;
    for (const std::string_view number : split(text, '+')) {
      const std::optional<int> layer = parse_whole<int>(number);
      if (!layer)
        throw UsageError(
            fmt::format("selector 'kv_cache': option 'skip_layers' has '{}', expected numbers of layers with "
                        "a + between them: 0+1+30",
                        text));
      add_dense_layer(*layer);
    }
  }

  std::shared_ptr<const ScalesFile> scales_file_;
  std::optional<KvStore> store_;
};

}  // namespace

extern const SelectorInfo kv_cache_info;
const SelectorInfo kv_cache_info{.name = "kv_cache",
                                 .summary = "every token from a quantised KV cache: fp8, NVFP4, q4_0, TurboQuant, ...",
                                 .io_bytes = "(bytes of k's format + bytes of v's) L; native is 2D and 2Dv",
                                 .source = "KV caches of vLLM, SGLang, TensorRT-LLM, llama.cpp, FlashMLA",
                                 .takes_cache = false,
                                 .formats = kv_formats(),
                                 .make = make_from_options<KvCache>};

}  // namespace attest
