// kv_cache: drops no token; keys and values are stored in a format of an engine's KV cache (kv_formats/), and what
// attention reads is K^ and V^.
//   s^ = s' = scale * q.k^, soft-capped like s
//   o = sum_j softmax(s')_j v^_j
// Where the dump's values are the first channels of its keys (values_in_keys), V^ is those of K^.
// Source: ../kv_formats/README.md names the engine of each format. An engine's prompt attends before its keys are
// stored; here every query of a dump is a decode query.
//
// Bytes per KV head: L times those of the formats of k and v. Scales of a layer or KV head are not counted.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "dumps/base/error.h"
#include "kernels/attention/scores.h"
#include "kernels/kv_formats/kv_format.h"
#include "kernels/kv_formats/kv_scale.h"
#include "kernels/selectors/exact.h"
#include "kernels/selectors/registry.h"

namespace attest {
namespace {

constexpr std::string_view kNative = "native";

class KvCache final : public Selector {
 public:
  explicit KvCache(OptionReader& reader) {
    const KvFormat* keys = read_format(reader, "k", true);
    const KvFormat* values = read_format(reader, "v", false);
    const std::string path = reader.text(
        "scales_file", "", {"safetensors with *layers.N.*k_scale and *v_scale, one number each or one per KV head"});
    if (!path.empty()) scales_file_ = std::make_shared<const ScalesFile>(path);
    keys_ = read_side(reader, "k_scale", keys, true);
    values_ = read_side(reader, "v_scale", values, false);
    rotate_ = reader.choice("rotate", {"auto", "none"},
                            {"the q formats rotate rows of 64 i channels as llama.cpp does, or not"}) == "auto";
    skip_layers(reader.text("skip_layers", "", {"layers that stay in 16 bit: 0+1+30", "layers"}));
    finish(reader, 0);
  }

  SettingKind setting_kind() const override { return SettingKind::none; }
  bool has_estimate() const override { return true; }
  bool needs_amax() const override { return keys_->scale.needs_amax() || values_->scale.needs_amax(); }
  std::vector<std::string> input_files() const override {
    return scales_file_ ? std::vector{scales_file_->path} : std::vector<std::string>();
  }

  void check(const KvShape& kv) const override {
    if (kv.values_in_keys && values_->format != nullptr)
      throw UsageError(
          fmt::format("selector 'kv_cache': option 'v' is '{}', expected 'native': the values are in the "
                      "keys (values_in_keys), which k stores",
                      values_->format->name));
    check(*keys_, rows_of(kv, true), "keys");
    check(*values_, rows_of(kv, false), "values");
  }
  void check_layer(int layer, int num_kv_heads) const override {
    Selector::check_layer(layer, num_kv_heads);
    bool stored = false;
    for (int head = 0; head < num_kv_heads; ++head) stored = stored || !is_dense(layer, head);
    if (!stored) return;
    keys_->scale.check_layer(layer, num_kv_heads);
    values_->scale.check_layer(layer, num_kv_heads);
  }

  void select(const KvHead& head, const RankedScores& exact, std::span<const AscendingGrid>,
              Selection& out) const override {
    keep_all(head, out);
    out.estimate = &exact;
    out.exact = keys_->format == nullptr && values_->format == nullptr;
    if (keys_->format != nullptr) score_stored_keys(head, out);
    const bool of_keys = head.values_in_keys && keys_->format != nullptr;
    if (of_keys || values_->format != nullptr) {
      std::ranges::copy(head.visible, out.num_approximate.begin());
      out.value_rows = of_keys ? values_of_keys(head) : stored_rows(head, *values_, false);
    }
    for (std::size_t n = 0; n < out.io.size(); ++n)
      out.io[n] = {.fixed = token_bytes(head.shape()) * static_cast<double>(head.visible[n]),
                   .per_kept_token = 0,
                   .free_tokens = 0};
  }

 private:
  /// Keys or values.
  struct Side {
    const KvFormat* format;  ///< null: native
    KvScale scale;
  };

  static const KvFormat* read_format(OptionReader& reader, const std::string& option, bool keys) {
    std::vector<std::string_view> names{kNative};
    for (const KvFormat* format : kv_formats())
      if (keys || format->of_values) names.push_back(format->name);
    return find_kv_format(
        reader.choice(option, names, {keys ? "format of keys; native: 16 bit as dumped" : "format of values"}));
  }

  Side read_side(OptionReader& reader, const std::string& option, const KvFormat* format, bool keys) const {
    const std::string text = reader.text(option, std::string(KvScale::default_text(format, scales_file_ != nullptr)),
                                         {keys ? "of fp8 and nvfp4 keys: a number, unit, amax, amax_head, modelopt or "
                                                 "file; by default unit for fp8, amax "
                                                 "for nvfp4, file with scales_file"
                                               : "of fp8 and nvfp4 values, like k_scale"});
    return {format, KvScale(fmt::format("selector 'kv_cache': option '{}'", option), text, format, keys, scales_file_)};
  }

  void skip_layers(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('+'), text.size());
      int layer = -1;
      const auto [parsed, error] = std::from_chars(text.data(), text.data() + end, layer);
      if (error != std::errc{} || parsed != text.data() + end || layer < 0 || end + 1 == text.size())
        throw UsageError(
            fmt::format("selector 'kv_cache': option 'skip_layers' has '{}', expected numbers of layers with "
                        "a + between them: 0+1+30",
                        text));
      add_dense_layer(layer);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  KvRows rows_of(const KvShape& kv, bool keys, ElementType type = ElementType::float32) const {
    return {.keys = keys,
            .channels = keys ? kv.head_dim : kv.value_dim,
            .shared_values = kv.values_in_keys ? kv.value_dim : 0,
            .rotate = rotate_,
            .element_type = type};
  }

  static void check(const Side& side, const KvRows& rows, std::string_view what) {
    if (side.format == nullptr) return;
    if (const std::string fault = side.format->fault(rows); !fault.empty())
      throw UsageError(fmt::format("selector 'kv_cache': option '{}' is '{}', and {} have {}", what.substr(0, 1),
                                   side.format->name, what, fault));
  }

  double token_bytes(const KvShape& kv) const {
    const auto bytes = [&](const Side& side, const KvRows& rows) {
      return side.format == nullptr ? 2.0 * rows.channels : side.format->bytes(rows);
    };
    return bytes(*keys_, rows_of(kv, true)) + (kv.values_in_keys ? 0 : bytes(*values_, rows_of(kv, false)));
  }

  /// K^ or V^ of any tokens of the head.
  ValueRows stored_rows(const KvHead& head, const Side& side, bool keys) const {
    const float scale = side.scale.of(head.layer, head.kv_head, keys ? head.key_amax : head.value_amax);
    return
        [rows = rows_of(head.shape(), keys, head.element_type), scale, format = side.format,
         x = keys ? head.keys : head.values](std::int64_t first, std::int64_t count, double* out, std::int64_t stride) {
          format->apply(rows, scale, x + first * rows.channels, count, out, stride);
        };
  }

  ValueRows values_of_keys(const KvHead& head) const {
    return [keys = stored_rows(head, *keys_, true), dim = head.head_dim, value_dim = head.value_dim,
            row = std::vector<double>()](std::int64_t first, std::int64_t count, double* out,
                                         std::int64_t stride) mutable {
      row.resize(static_cast<std::size_t>(dim));
      for (std::int64_t t = 0; t < count; ++t) {
        keys(first + t, 1, row.data(), dim);
        std::copy_n(row.data(), value_dim, out + t * stride);
      }
    };
  }

  void score_stored_keys(const KvHead& head, Selection& out) const {
    constexpr std::int64_t kAtOnce = 256;
    RowMatrix<double>& scores = out.own_estimate.scores;
    scores.resize(head.rows(), head.length);
    out.estimate = &out.own_estimate;
    out.read_scores = &scores;
    const ValueRows stored = stored_rows(head, *keys_, true);
    std::vector<double> keys(static_cast<std::size_t>(std::min(kAtOnce, head.length) * head.head_dim));
    for (std::int64_t begin = 0; begin < head.length; begin += kAtOnce) {
      head.throw_if_stopped();
      const std::int64_t count = std::min(kAtOnce, head.length - begin);
      stored(begin, count, keys.data(), head.head_dim);
      scores_into(head.queries, head.rows(), head.head_dim, keys.data(), count, head.transform, scores.row(0) + begin,
                  scores.stride());
    }
  }

  std::shared_ptr<const ScalesFile> scales_file_;
  std::optional<Side> keys_, values_;
  bool rotate_ = true;
};

}  // namespace

extern const SelectorInfo kv_cache_info;
const SelectorInfo kv_cache_info{.name = "kv_cache",
                                 .summary = "every token from a quantised KV cache: fp8, NVFP4, q4_0, TurboQuant, ...",
                                 .io_bytes = "(bytes of k's format + bytes of v's) L; native is 2D and 2Dv",
                                 .source = "KV caches of vLLM, SGLang, TensorRT-LLM, llama.cpp, FlashMLA",
                                 .formats = kv_formats(),
                                 .make = make_from_options<KvCache>};

}  // namespace attest
