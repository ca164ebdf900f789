// How layers come to a device: copied from host memory while the layer before is computed, read from their source, or
// in the order in which their KV heads arrive in a store of the device.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "analysis/cuda/cuda_layer_chunk.h"
#include "analysis/cuda/cuda_layer_memory.h"
#include "kernels/device/stage_clock.h"

namespace attest {

/// Gives the parts of a layer, ranges of KV heads, to the one that computes them. All work is enqueued.
class CudaLayerInput {
 public:
  /// Enqueues the computation of a part in the stream `computing`, which waits for its inputs.
  using Compute = std::function<void(const DeviceInputs& part)>;

  /// `as_a_whole`: no part of a layer that fits is computed before the rest is there. `computed`: a stream that waits
  /// for all that Compute has enqueued. `throw_if_stopped` is called between pieces and while heads are waited for. The
  /// references must outlive this object.
  CudaLayerInput(int device, int multiprocessors, bool as_a_whole, CudaLayerMemory& memory, const CudaStream& computing,
                 const CudaStream& computed, std::function<void()> throw_if_stopped);

  std::shared_ptr<LayerStore> make_layer_store();
  /// Copies in pieces wait while the result lives.
  CudaPieceRing::Hold hold_copies() { return CudaPieceRing::Hold(ring_.get()); }
  /// Adds the copies in pieces to those in `times`.
  void add_copies_to(std::vector<StageTime>& times) const;
  /// To be waited for before layers are dropped.
  const CudaStream& copying() const { return copying_; }

  /// The parts of a layer without a store: ranges of KV heads whose keys and values fit in an input slot. All heads
  /// form one range if they fit. Sizes the memory. `idle`: no layer is submitted, here and below.
  std::vector<KvHeadRange> ranges(const AttentionLayer& layer, bool idle);
  /// Copies one of these ranges, reading it if the layer has a source.
  void copy(const AttentionLayer& layer, const KvHeadRange& heads, StageClock& clock, const Compute& compute);
  /// Sizes the memory for layers that arrive in their stores.
  void make_room_for_stored(const AttentionLayer& layer, bool idle);
  /// The parts of such a layer, each as soon as enough heads are there. Sizes the memory. Ends early if no more heads
  /// come. `uploads` carries the queries.
  void take_stored(const AttentionLayer& layer, bool idle, Uploads& uploads, StageClock& clock, const Compute& compute);

 private:
  int heads_at_once(const AttentionLayer& layer, bool idle) const;
  int wait_for_heads(const CudaLayerStore& store, int heads) const;
  InputSlot& copy_to_slot(const AttentionLayer& layer, const KvHeadRange& heads, StageClock& clock);
  void copy_queries(const AttentionLayer& layer, InputSlot& slot, Uploads& uploads);

  const int device_, multiprocessors_;
  const bool as_a_whole_;
  CudaLayerMemory& memory_;
  const CudaStream &computing_, &computed_;
  const std::function<void()> throw_if_stopped_;
  std::shared_ptr<CudaPieceRing> ring_;  ///< made with the first store
  CudaStream copying_;
};

}  // namespace attest
