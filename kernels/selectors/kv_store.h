// A quantised KV cache: the keys and values that a selector reads in place of those of the dump, and what they cost.
#pragma once

#include <string_view>

#include "kernels/attention/setting_outputs.h"
#include "kernels/base/kv_head.h"
#include "kernels/base/row_matrix.h"
#include "kernels/kv_formats/kv_format.h"
#include "kernels/kv_formats/kv_scale.h"

namespace attest {

/// The name of no format: 16 bits as dumped.
inline constexpr std::string_view kNative = "native";

class KvStore {
 public:
  /// Keys, or values.
  struct Side {
    const KvFormat* format;  ///< null: native
    KvScale scale;
  };
  /// `rotate`: KvRows::rotate.
  KvStore(Side keys, Side values, bool rotate) : keys_(std::move(keys)), values_(std::move(values)), rotate_(rotate) {}

  const Side& side(bool keys) const { return keys ? keys_ : values_; }
  bool stores_keys() const { return keys_.format != nullptr; }
  /// Whether values are read from a format: their own or, with values_in_keys, that of the keys.
  bool stores_values(const KvShape& kv) const { return kv.values_in_keys ? stores_keys() : values_.format != nullptr; }
  bool needs_amax() const { return keys_.scale.needs_amax() || values_.scale.needs_amax(); }
  /// What the keys (values) have and must have, "" if they fit.
  std::string fault(const KvShape& kv, bool keys) const;
  /// Throws InputError if a file of scales lacks the layer.
  void check_layer(int layer, int num_kv_heads) const;
  /// Whether the device has code for both formats.
  bool has_cuda_code() const;

  KvRows rows_of(const KvShape& kv, bool keys, ElementType type = ElementType::float32) const {
    return kv_rows(kv, keys, rotate_, type);
  }
  /// Per token and KV head.
  StoredBytes bytes(const KvShape& kv) const;
  /// kv with these bytes.
  KvShape stored_shape(KvShape kv) const {
    kv.stored = bytes(kv);
    return kv;
  }

  /// scores [rows, length] of K^; where stores_keys().
  void score(const KvHead& head, RowMatrix<double>& scores) const;
  /// V^, where stores_values(). `head` and this must outlive it.
  ValueRows values(const KvHead& head) const;

 private:
  ValueRows stored_rows(const KvHead& head, bool keys) const;

  Side keys_, values_;
  bool rotate_;
};

}  // namespace attest
