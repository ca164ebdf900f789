// Reads channel rankings from files and learns them from calibration samples.
#include "kernels/selectors/channel_ranking.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "kernels/base/layer_name.h"
#include "kernels/rank/sort_descending.h"

namespace attest {
namespace {

std::string_view suffix_of(ChannelStatistic statistic) {
  switch (statistic) {
    case ChannelStatistic::q:
      return ".q_proj";
    case ChannelStatistic::k:
      return ".k_proj";
    case ChannelStatistic::qk:
      break;
  }
  return ".qk_proj";
}

bool is_permutation_of_channels(std::vector<std::uint32_t> channels) {
  std::sort(channels.begin(), channels.end());
  for (std::size_t d = 0; d < channels.size(); ++d)
    if (channels[d] != d) return false;
  return !channels.empty();
}

/// Mean |x| per channel over `count` rows of `dim` elements of `type`. Rows start at `bytes`, row_bytes apart.
std::vector<double> mean_magnitude(ElementType type, const std::byte* bytes, std::int64_t count, std::int64_t row_bytes,
                                   int dim) {
  std::vector<double> sum(static_cast<std::size_t>(dim), 0.0);
  std::vector<float> row(sum.size());
  for (std::int64_t i = 0; i < count; ++i) {
    convert_to_float(type, bytes + i * row_bytes, row.size(), row.data());
    for (std::size_t d = 0; d < row.size(); ++d) sum[d] += std::fabs(static_cast<double>(row[d]));
  }
  for (double& x : sum) x /= static_cast<double>(count);
  return sum;
}

}  // namespace

void ChannelRanking::read_file(const std::string& path) {
  source_ = "'" + path + "'";
  constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;  // 256 layers of 64 heads of 512 channels take 40 MB
  Json document = read_json_object(path, "a channel ranking", kMaxBytes);
  std::map<int, std::string> names;
  const std::string_view suffix = suffix_of(statistic_);
  for (const auto& [name, heads] : document.sort().members()) {
    const std::optional<int> layer = layer_in_name(name);
    if (!layer || !name.ends_with(suffix)) continue;
    if (const auto [first, is_new] = names.emplace(*layer, name); !is_new)
      throw InputError(fmt::format("'{}': '{}' is a second list of layer {} beside '{}', expected one", path,
                                   excerpt(name), *layer, excerpt(first->second)));
    std::vector<std::vector<std::uint32_t>>& order = order_[*layer];
    try {
      order = heads.as<std::vector<std::vector<std::uint32_t>>>();
    } catch (const JsonError&) {
      throw InputError(fmt::format("'{}': '{}' is not a list of channel numbers per head", path, excerpt(name)));
    }
    for (std::size_t h = 0; h < order.size(); ++h)
      if (!is_permutation_of_channels(order[h]))
        throw InputError(fmt::format("'{}': '{}', head {} does not list every channel once", path, excerpt(name), h));
  }
  if (order_.empty())
    throw InputError(fmt::format("'{}' holds no list named layers.<number>....{}", path, suffix.substr(1)));
}

void ChannelRanking::add(const AttentionLayer& layer) {
  source_ = "the calibration samples";
  const AttentionShape& shape = layer.shape;
  const auto row = static_cast<std::int64_t>(static_cast<std::size_t>(shape.head_dim) * size_of(layer.element_type));
  const int heads = statistic_ == ChannelStatistic::k ? shape.num_kv_heads : shape.num_query_heads;
  std::vector<std::vector<double>>& sums = magnitude_[layer.layer];
  sums.resize(static_cast<std::size_t>(heads), std::vector<double>(static_cast<std::size_t>(shape.head_dim), 0.0));
  std::vector<double> of_keys;  // of the KV head; its query heads share them
  int of_kv_head = -1;
  for (int h = 0; h < heads; ++h) {
    const int kv_head = statistic_ == ChannelStatistic::k ? h : h / shape.group();
    if (statistic_ != ChannelStatistic::q && std::exchange(of_kv_head, kv_head) != kv_head)
      of_keys = mean_magnitude(layer.element_type, layer.k.data() + kv_head * layer.num_tokens * row, layer.num_tokens,
                               row, shape.head_dim);
    std::vector<double> magnitude(static_cast<std::size_t>(shape.head_dim), 1.0);
    const auto multiply = [&](const std::vector<double>& factor) {
      for (std::size_t d = 0; d < magnitude.size(); ++d) magnitude[d] *= factor[d];
    };
    if (statistic_ != ChannelStatistic::k)
      multiply(mean_magnitude(layer.element_type, layer.q.data() + h * row, layer.num_queries(),
                              shape.num_query_heads * row, shape.head_dim));
    if (statistic_ != ChannelStatistic::q) multiply(of_keys);
    for (std::size_t d = 0; d < magnitude.size(); ++d) sums[static_cast<std::size_t>(h)][d] += magnitude[d];
  }
}

std::vector<std::uint32_t> ChannelRanking::channels(int layer, int query_head, int kv_head, int head_dim,
                                                    int count) const {
  const auto head = static_cast<std::size_t>(statistic_ == ChannelStatistic::k ? kv_head : query_head);
  const auto missing = [&](const std::string& what) {
    return InputError(fmt::format("channel ranking from {}: {} of layer {}", source_, what, layer));
  };
  std::vector<std::uint32_t> ranked;
  if (const auto found = order_.find(layer); found != order_.end() && head < found->second.size()) {
    ranked = found->second[head];
  } else if (const auto learnt = magnitude_.find(layer); learnt != magnitude_.end() && head < learnt->second.size()) {
    ranked.resize(learnt->second[head].size());
    sort_descending(learnt->second[head], ranked);
  } else {
    throw missing(fmt::format("there is no head {}", head));
  }
  if (ranked.size() != static_cast<std::size_t>(head_dim))
    throw missing(fmt::format("it ranks {} channels, expected {}, in head {}", ranked.size(), head_dim, head));
  ranked.resize(static_cast<std::size_t>(count));
  std::sort(ranked.begin(), ranked.end());
  return ranked;
}

}  // namespace attest
