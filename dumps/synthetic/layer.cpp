// Draws the keys, values and queries of a synthetic layer.
#include "dumps/synthetic/layer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dumps/base/error.h"
#include "dumps/synthetic/counter_random.h"

namespace attest {
namespace {

// Random streams of a model's KV head, and of a KV head in one sample.
enum ModelHeadStream : std::uint64_t { kChannels = 1, kRows = 2 };
enum SampleHeadStream : std::uint64_t { kPlanting = 1, kKeys = 2, kValues = 3 };

constexpr double kFixedPointOne = 0x1p20;  // 1.0 in NoiseRow's units
constexpr double kPositionNorm = 4;
constexpr double kPositionNoise = 0.15;
constexpr std::int64_t kPeakTokens = 8;
constexpr std::int64_t kTieTokens = 16;
constexpr std::int64_t kBlockRows = 64;  // rows converted at once, so that they stay in the cache

std::uint64_t word(std::int64_t x) { return static_cast<std::uint64_t>(x); }
std::int32_t fixed(double x) { return static_cast<std::int32_t>(std::lround(x * kFixedPointOne)); }

void draw_row(std::uint64_t key, const NoiseRow& shape, float* out) {
  RandomStream random(key);
  const std::size_t n = shape.step.size();
  const auto value = [&](std::int32_t noise, std::size_t c) {
    return static_cast<float>(noise * shape.step[c] + shape.offset[c]) * static_cast<float>(1 / kFixedPointOne);
  };
  std::size_t c = 0;
  for (; c + 1 < n; c += 2) {
    const NoisePair noise = noise_pair(random.bits());
    out[c] = value(noise.first, c);
    out[c + 1] = value(noise.second, c + 1);
  }
  if (c < n) out[c] = value(noise_pair(random.bits()).first, c);
}

/// Calls row(i, out) for rows first .. first+count-1 of `width` and rounds them to the element type.
template <class Row>
void fill_rows(std::int64_t first, std::int64_t count, std::size_t width, ElementType type, std::byte* out, Row&& row) {
  std::vector<float> block(static_cast<std::size_t>(std::min(count, kBlockRows)) * width);
  for (std::int64_t begin = 0; begin < count; begin += kBlockRows) {
    const std::int64_t rows = std::min(kBlockRows, count - begin);
    for (std::int64_t i = 0; i < rows; ++i) row(first + begin + i, block.data() + static_cast<std::size_t>(i) * width);
    const std::size_t elements = static_cast<std::size_t>(rows) * width;
    convert_from_float(type, block.data(), elements, out);
    out += elements * size_of(type);
  }
}

/// `x` with the next larger magnitude of the element type.
float next_value(float x, ElementType type) {
  switch (type) {
    case ElementType::float16:
      return float16_to_float(static_cast<std::uint16_t>(float_to_float16(x) + 1));
    case ElementType::bfloat16:
      return bfloat16_to_float(static_cast<std::uint16_t>(float_to_bfloat16(x) + 1));
    case ElementType::float32:
      return std::nextafter(x, std::copysign(std::numeric_limits<float>::infinity(), x));
  }
  return x;
}

double largest_value(ElementType type) {
  return type == ElementType::float16 ? 65504.0 : static_cast<double>(std::numeric_limits<float>::max()) / 2;
}

std::int64_t first_visible(const SyntheticOptions& options, int layer) {
  const std::int64_t window = sliding_window_of(options, layer);
  return window > 0 ? std::max<std::int64_t>(0, options.num_tokens - window) : 0;
}

}  // namespace

SyntheticKvHead::SyntheticKvHead(const SyntheticOptions& options, const PositionFeatures& positions, int sample,
                                 int layer, int kv_head)
    : options_(options),
      positions_(positions),
      layer_(layer),
      head_key_(random_key({options.seed, kModelHeadStream, word(layer), word(kv_head)})),
      noise_key_(random_key({options.seed, kSampleHeadStream, word(sample), word(layer), word(kv_head)})) {
  choose_channels();
  draw_rows();
  plant(sample);
}

void SyntheticKvHead::choose_channels() {
  const int dim = options_.shape.head_dim, half = dim / 2;
  RandomStream random(random_key({head_key_, kChannels}));
  std::vector<int> free;
  for (int c = 0; c < dim; ++c) free.push_back(c);
  for (int pair = 0; pair < positions_.pairs(); ++pair)
    std::erase_if(free, [&](int c) { return c == positions_.channel(pair) || c == positions_.channel(pair) + half; });
  // Outliers are among the channels with the lowest RoPE frequencies, as in real keys.
  for (int i = 0; dim >= 16 && i < std::max(1, dim / 32); ++i) {
    std::vector<int> slow;
    std::ranges::copy_if(free, std::back_inserter(slow), [&](int c) { return c % half >= 3 * half / 4; });
    if (slow.empty()) break;
    outliers_.push_back(slow[random.below(slow.size())]);
    std::erase(free, outliers_.back());
  }
  for (std::size_t i = 0; i < free.size(); ++i) channels_[i % kPlantedFeatures].push_back(free[i]);
  for (int c = 0; c < dim; ++c) signs_.push_back(random.bits() >> 63 ? 1 : -1);
}

void SyntheticKvHead::draw_rows() {
  const int dim = options_.shape.head_dim, half = dim / 2;
  RandomStream random(random_key({head_key_, kRows}));
  for (int c = 0; c < dim; ++c) {
    key_row_.step.push_back(fixed(random.uniform(0.7, 1.3) / kNoiseDeviation));
    key_row_.offset.push_back(fixed(random.uniform(-0.3, 0.3)));
  }
  for (const int c : outliers_) key_row_.offset[c] = fixed(signs_[c] * random.uniform(6, 12));
  for (int pair = 0; pair < positions_.pairs(); ++pair)
    for (const int c : {positions_.channel(pair), positions_.channel(pair) + half}) {
      key_row_.step[c] = fixed(kPositionNoise / kNoiseDeviation);
      key_row_.offset[c] = 0;
    }
  for (int f = 0; f < kPlantedFeatures; ++f) {
    NoiseRow& row = planted_key_rows_[f] = key_row_;
    for (std::int32_t& step : row.step) step = static_cast<std::int32_t>(step * kPlantedNoise[f]);
    for (const int c : channels_[f])
      row.offset[c] += fixed(signs_[c] * kPlantedNorm / std::sqrt(static_cast<double>(channels_[f].size())));
  }

  for (int c = 0; c < options_.shape.value_dim; ++c) {
    value_row_.step.push_back(fixed(random.uniform(0.5, 1) / kNoiseDeviation));
    value_row_.offset.push_back(fixed(random.uniform(-0.5, 0.5)));
  }
  // Sink tokens have small values, as in real models; evidence spans have values of their own.
  sink_value_row_ = span_value_row_ = value_row_;
  for (std::size_t c = 0; c < value_row_.step.size(); ++c) {
    sink_value_row_.step[c] /= 16;
    sink_value_row_.offset[c] /= 16;
    span_value_row_.offset[c] += fixed(random.bits() >> 63 ? 1 : -1);
  }
}

void SyntheticKvHead::plant(int sample) {
  const auto add = [&](std::int64_t token, PlantedFeature feature, std::int64_t index) {
    planted_.push_back({token, feature, static_cast<int>(index)});
  };
  const std::int64_t tokens = options_.num_tokens;
  const std::int64_t sinks = std::min<std::int64_t>(options_.sink_tokens, tokens);
  for (std::int64_t t = 0; t < sinks; ++t) add(t, PlantedFeature::sink, t);
  for (const TokenSpan& span : synthetic_spans(options_, sample))
    for (std::int64_t t = span.begin; t < span.end; ++t) add(t, PlantedFeature::span, t - span.begin);

  // The others stand at positions that every query sees.
  const std::int64_t begin = std::max(sinks, first_visible(options_, layer_)), end = tokens - options_.num_queries;
  std::vector<std::int64_t> taken;
  for (const PlantedToken& planted : planted_)
    if (planted.token >= begin) taken.push_back(planted.token);
  RandomStream random(random_key({noise_key_, kPlanting}));
  const auto scatter = [&](PlantedFeature feature, std::int64_t wanted) {
    for (std::int64_t i = 0; i < wanted && 2 * (static_cast<std::int64_t>(taken.size()) + 1) < end - begin; ++i) {
      std::int64_t token;
      do token = begin + static_cast<std::int64_t>(random.below(word(end - begin)));
      while (std::ranges::find(taken, token) != taken.end());
      taken.push_back(token);
      add(token, feature, i);
    }
  };
  scatter(PlantedFeature::peak, kPeakTokens);
  scatter(PlantedFeature::tie, kTieTokens);
  std::ranges::sort(planted_, {}, &PlantedToken::token);
}

void SyntheticKvHead::fill_k(std::int64_t first, std::int64_t count, std::byte* out) const {
  const int half = options_.shape.head_dim / 2;
  const ElementType type = options_.element_type;
  const std::uint64_t key = random_key({noise_key_, kKeys});
  auto planted = std::ranges::lower_bound(planted_, first, {}, &PlantedToken::token);

  const auto plain_row = [&](std::int64_t token, float* row) {
    draw_row(random_key({key, word(token)}), key_row_, row);
    for (int pair = 0; pair < positions_.pairs(); ++pair) {
      // Rounded to multiples of 2^-12, so that the last bit of a product does not depend on the processor.
      const std::complex<double> turned = positions_.turn(pair, token) * (kPositionNorm * 0x1p12);
      row[positions_.channel(pair)] += static_cast<float>(std::nearbyint(turned.real()) * 0x1p-12);
      row[positions_.channel(pair) + half] += static_cast<float>(std::nearbyint(turned.imag()) * 0x1p-12);
    }
  };
  const auto planted_row = [&](const PlantedToken& p, float* row) {
    const bool tie = p.feature == PlantedFeature::tie;
    draw_row(tie ? random_key({key, ~std::uint64_t{0}}) : random_key({key, word(p.token)}),
             planted_key_rows_[static_cast<std::size_t>(p.feature)], row);
    const std::vector<int>& own = channels(p.feature);
    if (tie && p.index % 2 == 1 && !own.empty()) {
      float& nudged = row[own[static_cast<std::size_t>(p.index / 2) % own.size()]];
      nudged = next_value(nudged, type);
    }
  };
  fill_rows(first, count, static_cast<std::size_t>(options_.shape.head_dim), type, out,
            [&](std::int64_t token, float* row) {
              if (planted != planted_.end() && planted->token == token) return planted_row(*planted++, row);
              plain_row(token, row);
            });
}

void SyntheticKvHead::fill_v(std::int64_t first, std::int64_t count, std::byte* out) const {
  const std::uint64_t key = random_key({noise_key_, kValues});
  auto planted = std::ranges::lower_bound(planted_, first, {}, &PlantedToken::token);
  fill_rows(first, count, static_cast<std::size_t>(options_.shape.value_dim), options_.element_type, out,
            [&](std::int64_t token, float* row) {
              const NoiseRow* shape = &value_row_;
              if (planted != planted_.end() && planted->token == token) {
                if (planted->feature == PlantedFeature::sink) shape = &sink_value_row_;
                if (planted->feature == PlantedFeature::span) shape = &span_value_row_;
                ++planted;
              }
              draw_row(random_key({key, word(token)}), *shape, row);
            });
}

SyntheticQueries::SyntheticQueries(const SyntheticOptions& options, const PositionFeatures& positions, int sample,
                                   int layer, double local_log_sum)
    : options_(options),
      positions_(positions),
      sample_(sample),
      layer_(layer),
      local_log_sum_(local_log_sum),
      scale_(options.softmax_scale > 0 ? options.softmax_scale
                                       : 1 / std::sqrt(static_cast<double>(options.shape.head_dim))) {
  for (int g = 0; g < options.shape.num_kv_heads; ++g) kv_heads_.emplace_back(options, positions, sample, layer, g);
  for (int h = 0; h < options.shape.num_query_heads; ++h)
    recipes_.push_back(recipe(h, kv_heads_[static_cast<std::size_t>(h / options.shape.group())]));
}

QueryRecipe SyntheticQueries::recipe(int head, const SyntheticKvHead& kv_head) const {
  const std::int64_t begin = first_visible(options_, layer_);
  VisibleStructure visible;
  visible.others = options_.num_tokens - begin;
  for (const PlantedToken& planted : kv_head.planted())
    if (planted.token >= begin) {
      --visible.others;
      if (!kv_head.channels(planted.feature).empty()) ++visible.planted[static_cast<std::size_t>(planted.feature)];
    }
  visible.has_positions = positions_.pairs() > 0;
  visible.local_log_sum = local_log_sum_;
  visible.position_variance = positions_.pairs() * std::pow(kPositionHeight / kPositionNorm * kPositionNoise, 2);
  const HeadKind kind = head_kind(profile_kinds(options_.profile), layer_, head);
  return query_recipe(kind, visible,
                      RandomStream(random_key({options_.seed, kVariationStream, word(layer_), word(head)})).uniform());
}

void SyntheticQueries::fill_row(std::int64_t query, int head, float* out) const {
  const int dim = options_.shape.head_dim;
  const SyntheticKvHead& kv_head = kv_heads_[static_cast<std::size_t>(head / options_.shape.group())];
  const QueryRecipe& recipe = recipes_[static_cast<std::size_t>(head)];

  RandomStream random(random_key({options_.seed, kQueryStream, word(sample_), word(layer_), word(head), word(query)}));
  const double noise = recipe.spread / (scale_ * std::sqrt(static_cast<double>(dim)) * kNoiseDeviation);
  std::vector<double> row(static_cast<std::size_t>(dim));
  for (double& x : row) x = noise * noise_pair(random.bits()).first;
  // Outlier channels have less, because the keys' large constants would shift all scores of a head together, far into a
  // soft-cap.
  for (const int c : kv_head.outliers()) row[c] *= 0.1;

  // Along feature channels a query has exactly what its recipe says and no noise, so that scores are accurate.
  for (int f = 0; f < kPlantedFeatures; ++f) {
    const std::vector<int>& channels = kv_head.channels(static_cast<PlantedFeature>(f));
    if (channels.empty()) continue;
    double along = 0;
    for (const int c : channels) along += row[c] * kv_head.sign(c);
    const double n = static_cast<double>(channels.size());
    const double wanted = recipe.height[f] / (scale_ * kPlantedNorm * std::sqrt(n));
    for (const int c : channels) row[c] += (wanted - along / n) * kv_head.sign(c);
  }
  for (int pair = 0; pair < positions_.pairs(); ++pair) {
    const std::int64_t position = options_.num_tokens - options_.num_queries + query;
    const double gain = recipe.positions ? kPositionHeight / (scale_ * kPositionNorm) : 0;
    const std::complex<double> turned = positions_.turn(pair, position) * gain;
    row[positions_.channel(pair)] = turned.real();
    row[positions_.channel(pair) + dim / 2] = turned.imag();
  }

  // A soft-cap lowers the peak. Stretch the query so that the capped score has the wanted height, where that is
  // possible.
  double stretch = 1;
  if (const double cap = options_.logit_softcap; cap > 0 && recipe.peak > 0)
    stretch = cap * std::atanh(std::min(recipe.peak / cap, 0.95)) / recipe.peak;
  for (int c = 0; c < dim; ++c) {
    const double x = stretch * row[c];
    if (!(std::abs(x) <= largest_value(options_.element_type)))
      throw UsageError(fmt::format("scale {} needs queries of {:.3g}, more than {} holds", scale_, std::abs(x),
                                   name_of(options_.element_type)));
    out[c] = static_cast<float>(x);
  }
}

void SyntheticQueries::fill_q(std::int64_t first, std::int64_t count, std::byte* out) const {
  const std::int64_t heads = options_.shape.num_query_heads;
  fill_rows(first * heads, count * heads, static_cast<std::size_t>(options_.shape.head_dim), options_.element_type, out,
            [&](std::int64_t row, float* values) { fill_row(row / heads, static_cast<int>(row % heads), values); });
}

}  // namespace attest
