// Page scores as a dot product over 2D channels: the query is split by sign, the page holds the maximum and minimum.
#include "kernels/attention/page_scores.h"

#include <algorithm>
#include <vector>

#include "kernels/attention/scores.h"

namespace attest {
namespace {

constexpr std::int64_t kPagesAtOnce = 64;  // few enough that their bounds stay in the cache until they are scored

/// [rows, D, 2]: max(q_d, 0) is multiplied by max_d, min(q_d, 0) by min_d. One of the two is always zero.
std::vector<float> split_by_sign(const KvHead& head) {
  const std::size_t count = static_cast<std::size_t>(head.rows()) * static_cast<std::size_t>(head.head_dim);
  std::vector<float> split(2 * count);
  for (std::size_t i = 0; i < count; ++i) {
    split[2 * i] = std::max(head.queries[i], 0.0f);
    split[2 * i + 1] = std::min(head.queries[i], 0.0f);
  }
  return split;
}

}  // namespace

void page_bounds(const float* keys, std::int64_t tokens, int head_dim, int page, float* bounds) {
  std::vector<float> largest(static_cast<std::size_t>(head_dim)), smallest(largest.size());
  for (std::int64_t begin = 0; begin < tokens; begin += page, bounds += 2 * head_dim) {
    const std::int64_t end = std::min(tokens, begin + page);
    const float* first = keys + begin * head_dim;
    std::copy_n(first, head_dim, largest.data());
    std::copy_n(first, head_dim, smallest.data());
    for (std::int64_t t = begin + 1; t < end; ++t) {
      const float* key = keys + t * head_dim;
      for (int d = 0; d < head_dim; ++d) {
        largest[static_cast<std::size_t>(d)] = std::max(largest[static_cast<std::size_t>(d)], key[d]);
        smallest[static_cast<std::size_t>(d)] = std::min(smallest[static_cast<std::size_t>(d)], key[d]);
      }
    }
    for (int d = 0; d < head_dim; ++d) {
      bounds[2 * d] = largest[static_cast<std::size_t>(d)];
      bounds[2 * d + 1] = smallest[static_cast<std::size_t>(d)];
    }
  }
}

void page_scores(const KvHead& head, int page, RowMatrix<double>& out) {
  out.resize(head.rows(), pages_of(head.length, page));
  const std::vector<float> queries = split_by_sign(head);
  const int width = 2 * head.head_dim;
  std::vector<float> bounds(static_cast<std::size_t>(kPagesAtOnce * width));
  const std::int64_t full = head.length / page;
  for (std::int64_t i = 0; i < full; i += kPagesAtOnce) {
    const std::int64_t count = std::min(kPagesAtOnce, full - i);
    page_bounds(head.keys + i * page * head.head_dim, count * page, head.head_dim, page, bounds.data());
    scores_into(queries.data(), head.rows(), width, bounds.data(), count, head.transform, out.row(0) + i, out.stride());
  }
  // If a query sees only part of its last page, the bounds cover only the visible tokens.
  for (int n = 0; n < head.num_queries; ++n) {
    const std::int64_t visible = head.visible[static_cast<std::size_t>(n)], last = visible / page;
    if (visible % page == 0) continue;
    page_bounds(head.keys + last * page * head.head_dim, visible % page, head.head_dim, page, bounds.data());
    const float* own = queries.data() + static_cast<std::int64_t>(n) * head.group * width;
    scores_into(own, head.group, width, bounds.data(), 1, head.transform, out.row(n * head.group) + last, out.stride());
  }
}

}  // namespace attest
