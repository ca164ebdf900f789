// Quantises and dequantises tile by tile, so that K^ and V^ stay in the cache of the processor while they are read.
#include "kernels/selectors/kv_store.h"

#include <algorithm>
#include <vector>

#include "kernels/attention/scores.h"

namespace attest {
namespace {

/// Starts to load what the next call reads, while these rows are decoded and used.
void prefetch(const float* x, std::int64_t count) {
  constexpr std::int64_t kLine = 64 / sizeof(float);
  for (std::int64_t i = 0; i < count; i += kLine) __builtin_prefetch(x + i);
}

}  // namespace

std::string KvStore::fault(const KvShape& kv, bool keys) const {
  const Side& own = side(keys);
  if (own.format == nullptr || (!keys && kv.values_in_keys)) return {};
  return own.format->fault(rows_of(kv, keys));
}

void KvStore::check_layer(int layer, int num_kv_heads) const {
  keys_.scale.check_layer(layer, num_kv_heads);
  values_.scale.check_layer(layer, num_kv_heads);
}

bool KvStore::has_cuda_code() const {
  const auto has = [](const Side& own) { return own.format == nullptr || own.format->cuda != nullptr; };
  return has(keys_) && has(values_);
}

StoredBytes KvStore::bytes(const KvShape& kv) const {
  StoredBytes stored;
  if (stores_keys()) stored.key = keys_.format->bytes(rows_of(kv, true));
  if (!stores_values(kv)) return stored;
  KvRows values = rows_of(kv, kv.values_in_keys);
  values.channels = kv.value_dim;  // of a latent key, the part that is the value
  stored.value = (kv.values_in_keys ? keys_ : values_).format->bytes(values);
  return stored;
}

ValueRows KvStore::stored_rows(const KvHead& head, bool keys) const {
  const Side& own = side(keys);
  const float scale = own.scale.of(head.layer, head.kv_head, keys ? head.key_amax : head.value_amax);
  return [rows = rows_of(head.shape(), keys, head.element_type), scale, format = own.format,
          x = keys ? head.keys : head.values,
          length = head.length](std::int64_t first, std::int64_t count, double* out, std::int64_t stride) {
    prefetch(x + (first + count) * rows.channels, std::min(count, length - first - count) * rows.channels);
    format->apply(rows, scale, x + first * rows.channels, count, out, stride);
  };
}

ValueRows KvStore::values(const KvHead& head) const {
  if (!head.values_in_keys) return stored_rows(head, false);
  return
      [keys = stored_rows(head, true), dim = head.head_dim, value_dim = head.value_dim, rows = std::vector<double>()](
          std::int64_t first, std::int64_t count, double* out, std::int64_t stride) mutable {
        rows.resize(static_cast<std::size_t>(count * dim));
        keys(first, count, rows.data(), dim);
        for (std::int64_t t = 0; t < count; ++t) std::copy_n(rows.data() + t * dim, value_dim, out + t * stride);
      };
}

void KvStore::score(const KvHead& head, RowMatrix<double>& scores) const {
  constexpr std::int64_t kAtOnce = 64;  // tokens: their keys in double stay in the cache
  scores.resize(head.rows(), head.length);
  const ValueRows stored = stored_rows(head, true);
  RowMatrix<double> keys;  // as one row, since its memory is aligned and keys are next to each other
  keys.resize(1, std::min(kAtOnce, head.length) * head.head_dim);
  head.each_tile(head.length, kAtOnce, [&](std::int64_t begin, std::int64_t count) {
    stored(begin, count, keys.row(0), head.head_dim);
    scores_into(head.queries, head.rows(), head.head_dim, keys.row(0), count, head.transform, scores.row(0) + begin,
                scores.stride());
  });
}

}  // namespace attest
