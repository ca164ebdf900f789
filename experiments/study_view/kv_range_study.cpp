// Reads dumps layer by layer, and counts.
#include "experiments/study_view/kv_range_study.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "analysis/audit/kv_storage.h"
#include "analysis/layer/layer_amax.h"
#include "analysis/statistics/quantile.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/parallel_for.h"
#include "experiments/study_view/study_dumps.h"
#include "kernels/kv_formats/kv_scale.h"

namespace attest {
namespace {

constexpr double kLevel = 0.9999;

/// The formats with a scale in which a selector stores keys and values.
std::vector<ScaledFormat> formats_of(const PooledSelector& selector) {
  std::vector<ScaledFormat> formats;
  if (selector.group.name != "kv_cache") return formats;
  for (const bool keys : {true, false}) {
    const KvFormat* format = find_kv_format(selector.option(keys ? "k" : "v"));
    if (format == nullptr || format->scale_divisor == 0) continue;
    formats.push_back({keys, format, selector.group.label, selector.option(keys ? "k_scale" : "v_scale"),
                       selector.option("scales_file")});
  }
  return formats;
}

/// Where the format stands among others, whatever their labels.
std::size_t index_of(const std::vector<ScaledFormat>& formats, const ScaledFormat& own) {
  const auto same = [&](const ScaledFormat& other) {
    return std::tie(other.keys, other.format, other.scale, other.scales_file) ==
           std::tie(own.keys, own.format, own.scale, own.scales_file);
  };
  return static_cast<std::size_t>(std::ranges::find_if(formats, same) - formats.begin());
}

/// One layer of a sample.
struct StudiedLayer {
  PlacedSample place;
  std::set<std::size_t> formats = {};  ///< in which it was studied: indices into KvRangeStudy::formats
};

/// The scales of a format, in the order of kScales.
std::vector<KvScale> scales_of(const ScaledFormat& of) {
  const auto file = of.scales_file.empty() ? nullptr : std::make_shared<const ScalesFile>(of.scales_file);
  std::vector<KvScale> scales;
  for (const std::string& text : {std::string("unit"), std::string("amax"), of.scale})
    scales.emplace_back(of.label, text, of.format, of.keys, text == "file" ? file : nullptr);
  return scales;
}

/// The keys or values of a layer, sample after sample.
class Side {
 public:
  /// `count` values will be added.
  Side(int layer, bool keys, std::int64_t count, const std::vector<ScaledFormat>& formats) : formats_(formats) {
    range_.layer = layer;
    range_.keys = keys;
    range_.at.resize(formats.size());
    place_ = quantile_place(static_cast<std::size_t>(count), kLevel);
    max_ = static_cast<std::size_t>(count) - place_.below;
    for (const ScaledFormat& format : formats)
      scales_.push_back(format.keys == keys ? scales_of(format) : std::vector<KvScale>());
  }

  /// `studied`: the formats in which the study had this sample's layer.
  void add(const AttentionLayer& layer, const LayerAmax& amax, const std::set<std::size_t>& studied, int threads) {
    const KvRows rows = kv_rows(layer, range_.keys, true);
    const auto channels = static_cast<std::size_t>(rows.channels);
    const auto heads = static_cast<std::size_t>(layer.shape.num_kv_heads);
    const std::size_t count = static_cast<std::size_t>(layer.num_tokens) * channels;
    channel_max_.resize(heads * channels);
    std::vector<std::vector<FormatLoss>> own(heads, std::vector<FormatLoss>(formats_.size()));
    std::vector<std::vector<float>> largest(heads);
    parallel_for(threads, heads, [&](int, std::size_t h) {
      std::vector<float> x(count);
      const std::byte* first = (range_.keys ? layer.k : layer.v).data() + h * count * size_of(layer.element_type);
      convert_to_float(layer.element_type, first, count, x.data());
      const std::int64_t nonzero = std::ranges::count_if(x, [](float value) { return value != 0; });
      for (const std::size_t f : studied) {
        if (formats_[f].keys != range_.keys) continue;
        own[h][f] = {.values = static_cast<std::int64_t>(count), .nonzero = nonzero};
        for (std::size_t s = 0; s < scales_[f].size(); ++s) {
          const float scale = scales_[f][s].of(layer.layer, static_cast<int>(h), range_.keys ? amax.keys : amax.values);
          own[h][f].scales[s] = loss_of(*formats_[f].format, rows, scale, x);
        }
      }
      for (std::size_t i = 0; i < count; ++i) {
        x[i] = std::abs(x[i]);
        float& maximum = channel_max_[h * channels + i % channels];
        maximum = std::max(maximum, x[i]);
      }
      keep_largest(x);
      largest[h] = std::move(x);
    });
    for (std::size_t h = 0; h < heads; ++h) {
      range_.values += static_cast<std::int64_t>(count);
      for (std::size_t f = 0; f < formats_.size(); ++f) {
        range_.at[f].values += own[h][f].values;
        range_.at[f].nonzero += own[h][f].nonzero;
        for (std::size_t s = 0; s < kScales.size(); ++s) {
          range_.at[f].scales[s].saturated += own[h][f].scales[s].saturated;
          range_.at[f].scales[s].zeroed += own[h][f].scales[s].zeroed;
        }
      }
      largest_.insert(largest_.end(), largest[h].begin(), largest[h].end());
    }
    keep_largest(largest_);
    channels_ = channels;
  }

  SideRange range() {
    std::ranges::sort(largest_, std::greater());
    range_.max_abs = static_cast<double>(largest_.front());
    const auto at = [&](std::size_t from_below) {
      return static_cast<double>(largest_[max_ - 1 - (from_below - place_.below)]);
    };
    range_.p9999 = max_ < 2 ? at(place_.below) : interpolated(at(place_.below), at(place_.below + 1), place_.fraction);
    const auto top = static_cast<std::size_t>(std::ranges::max_element(channel_max_) - channel_max_.begin());
    range_.outlier_kv_head = static_cast<int>(top / channels_);
    range_.outlier_channel = static_cast<int>(top % channels_);
    const double median = quantile({channel_max_.begin(), channel_max_.end()}, 0.5);
    range_.outlier = static_cast<double>(channel_max_[top]) / median;
    range_.outliers = std::ranges::count_if(
        channel_max_, [&](float maximum) { return static_cast<double>(maximum) >= kOutlier * median && maximum > 0; });
    return range_;
  }

 private:
  static ScaleLoss loss_of(const KvFormat& format, const KvRows& rows, float scale, const std::vector<float>& x) {
    constexpr std::size_t kRowsAtOnce = 256;
    const auto channels = static_cast<std::size_t>(rows.channels);
    std::vector<double> read(kRowsAtOnce * channels);
    ScaleLoss loss;
    for (std::size_t begin = 0; begin < x.size(); begin += kRowsAtOnce * channels) {
      const std::size_t count = std::min(kRowsAtOnce * channels, x.size() - begin);
      format.apply(rows, scale, x.data() + begin, static_cast<std::int64_t>(count / channels), read.data(),
                   rows.channels);
      for (std::size_t i = 0; i < count; ++i) {
        const float value = x[begin + i];
        loss.saturated += std::abs(value / scale) > format.scale_divisor ? 1 : 0;
        loss.zeroed += value != 0 && read[i] == 0 ? 1 : 0;
      }
    }
    return loss;
  }

  void keep_largest(std::vector<float>& x) const {
    if (x.size() <= max_) return;
    std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(max_), x.end(), std::greater());
    x.resize(max_);
  }

  const std::vector<ScaledFormat>& formats_;
  SideRange range_;
  std::vector<std::vector<KvScale>> scales_;  ///< [format][kScales]
  QuantilePlace place_;
  std::size_t max_ = 0, channels_ = 1;
  std::vector<float> largest_;      ///< magnitudes, as many as the quantile takes
  std::vector<float> channel_max_;  ///< [KV heads * channels]
};

/// Adds the layers of a sample that were studied in a scaled format; says whether there are any. The same layer of the
/// same prompt may stand in several files.
bool add_studied(const PlacedSample& place, const std::vector<ScaledFormat>& formats,
                 std::map<int, std::vector<StudiedLayer>>& layers) {
  const std::vector<StudySelector>& selectors = place.file->study().selectors;
  bool any = false;
  for (std::size_t i = 0; i < selectors.size(); ++i) {
    const std::vector<ScaledFormat> own = formats_of({selectors[i]});
    const std::vector<std::uint8_t>& done = place.file->done(place.dump, place.sample, i);
    for (std::size_t y = 0; y < done.size() && !own.empty(); ++y) {
      if (done[y] == 0) continue;
      std::vector<StudiedLayer>& here = layers[place.study_sample().layers[y]];
      auto found = std::ranges::find_if(here, [&](const StudiedLayer& other) { return other.place.key == place.key; });
      if (found == here.end()) found = here.insert(here.end(), {place});
      for (const ScaledFormat& format : own) found->formats.insert(index_of(formats, format));
      any = true;
    }
  }
  return any;
}

/// Adds the layer of all samples that have it.
void add_layer(int layer, const std::vector<StudiedLayer>& layers, StudyDumps& dumps, int threads,
               KvRangeStudy& result) {
  std::int64_t tokens = 0;
  for (const StudiedLayer& studied : layers) tokens += studied.place.study_sample().num_tokens;
  const AttentionShape& shape = layers.front().place.study_dump().shape;
  std::vector<Side> sides;
  for (const bool keys : {true, false})
    if (keys || shape.values_in_keys == 0)
      sides.emplace_back(layer, keys, tokens * shape.num_kv_heads * (keys ? shape.head_dim : shape.value_dim),
                         result.formats);
  AttentionLayer read;
  for (const auto& [place, formats] : layers) {
    const DumpReader* dump = dumps.of(place);
    result.problem = dumps.problem();
    if (dump == nullptr) return;
    const StudySample& sample = place.study_sample();
    if (dump->info().shape != shape) {
      result.problem = fmt::format("{} has other heads than the results", dump->info().path);
      return;
    }
    if (!read_again(*dump, sample, layer, threads, read, result.problem)) return;
    const LayerAmax amax = layer_amax(read, threads);
    for (Side& side : sides) side.add(read, amax, formats, threads);
  }
  for (Side& side : sides) result.ranges.push_back(side.range());
}

}  // namespace

std::vector<ScaledFormat> scaled_formats(const ModelStudy& study) {
  std::vector<ScaledFormat> formats;
  for (const PooledSelector& selector : study.selectors())
    for (const ScaledFormat& own : formats_of(selector))
      if (index_of(formats, own) == formats.size()) formats.push_back(own);
  return formats;
}

KvRangeStudy kv_range_study(const ModelStudy& study, int threads) {
  KvRangeStudy result{.formats = scaled_formats(study)};
  std::map<int, std::vector<StudiedLayer>> layers;
  std::set<SampleKey> with_format;
  for (const PlacedSample& place : study.samples())
    if (add_studied(place, result.formats, layers)) with_format.insert(place.key);
  if (const std::int64_t without = study.num_samples() - std::ssize(with_format); without > 0)
    result.exceptions = fmt::format("; without {}, which had no such format", counted(without, "sample"));
  const auto has_all = [&](const auto& layer) {
    return std::ranges::all_of(layer.second,
                               [&](const StudiedLayer& s) { return s.formats.size() == result.formats.size(); });
  };
  if (!std::ranges::all_of(layers, has_all))
    result.exceptions += "; losses of each format over the samples that were run with it";
  try {
    StudyDumps dumps(threads);
    for (const auto& [layer, studied] : layers) {
      add_layer(layer, studied, dumps, threads, result);
      if (!result.problem.empty()) break;
    }
    result.hashed = dumps.hashed();
  } catch (const Error& error) {  // of a dump or a scales_file
    result.problem = error.what();
  }
  return result;
}

}  // namespace attest
