// What exact attention, and a selector, give for the rows of a layer: the outputs that an engine's own are compared
// with.
#pragma once

#include <atomic>
#include <vector>

#include "analysis/audit/row_attention.h"
#include "analysis/layer/kv_head_batches.h"
#include "analysis/layer/kv_head_buffers.h"
#include "analysis/layer/layer_amax.h"
#include "kernels/base/setting.h"
#include "kernels/selectors/selector.h"

namespace attest {

/// A selector at one setting; Setting{} for one without settings.
struct AuditedSelector {
  const Selector& selector;
  Setting setting;
};

/// Buffers that one thread reuses between batches of a layer.
class ExpectedRows {
 public:
  /// Forgets the layer before.
  void begin_layer();

  /// Fills exact and selected, [rows of the batch] each. keys: as declared_storages(), whose queries `selected` reads.
  /// Throws InputError if a score, an output or a log-sum-exp is not finite.
  void run(const AttentionLayer& layer, const KvHeadBatch& batch, const LayerAmax& amax, const AuditedSelector& audited,
           const KvStorage& keys, const std::atomic<bool>* stop);

  std::vector<RowPrediction> exact, selected;

 private:
  void select(KvHead head, const AuditedSelector& audited, const AttentionLayer& layer, const KvStorage& keys);
  std::vector<RowPrediction> predictions(const KvHead& head, const RowMatrix<double>& scores,
                                         const RowMatrix<Level>& levels,
                                         const std::vector<SettingOutputs>& outputs) const;

  KvHeadBuffers buffers_;
  int kv_head_ = -1;
  std::vector<double> value_squares_;  ///< [T] norm2(v_j)^2 of kv_head_
  RankedScores scores_;
  std::vector<SettingOutputs> outputs_;
  Selection selection_;
};

}  // namespace attest
