// Keys and values of layers that are on the device as a whole. They come from a dump through a ring of page-locked
// pieces, so that host memory does not grow with the layer.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "analysis/cuda/cuda_inspection.h"
#include "dumps/layer_store.h"
#include "kernels/device/buffers.h"
#include "kernels/device/stage_clock.h"
#include "kernels/device/stream.h"

namespace attest {

/// Page-locked pieces for copies to one device. Thread-safe.
class CudaPieceRing {
 public:
  /// More than twelve reading threads hold, so that some are copied meanwhile: 64 MiB.
  static constexpr std::size_t kPieces = 16;
  static constexpr std::size_t kBytes = kPieces * LayerStore::kPieceBytes;

  /// Its memory is allocated by the thread that comes first with a piece.
  explicit CudaPieceRing(int device);
  ~CudaPieceRing();
  CudaPieceRing(const CudaPieceRing&) = delete;
  CudaPieceRing& operator=(const CudaPieceRing&) = delete;

  /// `fill` writes a piece, whose copy to `to` is then enqueued. `copied`, if any, marks its end.
  void copy(std::byte* to, std::size_t bytes, const LayerStore::Fill& fill, const CudaEvent* copied = nullptr);
  /// Enqueues a copy from page-locked memory that stays as it is until then. `copied` marks its end.
  void copy_from(const std::byte* from, std::byte* to, std::size_t bytes, const CudaEvent& copied);
  /// Makes the copies that follow wait for the work before an event.
  void wait_for(const CudaEvent& event) { event.make_wait(stream_); }
  /// Makes `stream` wait for the copies so far.
  void make_wait(cudaStream_t stream);
  void synchronize() const { stream_.synchronize(); }
  /// In which what has arrived is checked and hashed, beside copies and the study.
  const CudaStream& inspecting() const { return inspecting_; }
  /// While it lives, pieces are filled, but none is copied.
  class Hold {
   public:
    explicit Hold(CudaPieceRing* ring);  ///< null: of nothing
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    CudaPieceRing* const ring_;
  };
  /// Of all copies, from the time that some of them took. Waits for these.
  StageTime time();

 private:
  struct Piece {
    std::byte* data = nullptr;
    std::size_t timed = 0;  ///< bytes of its last copy, if that was timed and has not been added; else 0
    CudaEvent copied, begin{CudaEvent::Timing::on}, end{CudaEvent::Timing::on};
  };
  class Borrowed;
  void allocate();
  Piece* take();
  void give_back(Piece* piece);
  void add_time(Piece& piece);

  const int device_;
  CudaStream stream_, inspecting_;
  CudaEvent arrived_;
  std::once_flag allocated_;
  std::byte* memory_ = nullptr;
  std::vector<Piece> pieces_;
  std::mutex mutex_;  ///< of the members below, and of the order of events and copies in the stream
  std::condition_variable changed_, released_;
  bool held_ = false;
  std::deque<Piece*> free_;  ///< the one that was enqueued first comes first
  std::size_t copies_ = 0;
  double bytes_ = 0;
  StageTime timed_;  ///< of the copies that were timed
};

/// What the stores of a device may take and have taken, together.
struct CudaStoreRoom {
  std::size_t max_per_store = 0;
  std::atomic<std::size_t> taken = 0;
};

class CudaLayerStore final : public LayerStore {
 public:
  CudaLayerStore(int device, std::shared_ptr<CudaPieceRing> ring, std::shared_ptr<CudaStoreRoom> room);
  ~CudaLayerStore() override;

  bool reserve(std::size_t key_bytes, std::size_t value_bytes) override;
  void put(KvTensor tensor, std::size_t offset, std::size_t bytes, const Fill& fill) override;
  bool inspects() const override { return true; }
  void begin_inspection(ElementType type, std::vector<TensorBlock> blocks) override;
  StoreFindings findings() override { return inspection_.findings(); }

  const std::byte* keys() const { return k_.data(); }
  const std::byte* values() const { return v_.data(); }
  /// Bytes [begin, begin + bytes) of a tensor.
  struct Part {
    std::size_t begin = 0, bytes = 0;
  };
  /// Makes `stream` wait for these parts, which have arrived, and for their check.
  void make_ready(const Part& keys, const Part& values, StageClock& clock, cudaStream_t stream);
  /// Enqueues the hashes of all blocks, once both tensors have arrived and are ready.
  void hash(StageClock& clock);
  /// Makes `stream` wait for them.
  void wait_for_hashes(cudaStream_t stream) const { hashed_.make_wait(stream); }

 private:
  const int device_;
  const std::shared_ptr<CudaPieceRing> ring_;
  const std::shared_ptr<CudaStoreRoom> room_;
  DeviceBuffer k_, v_;
  bool inspecting_ = false;
  std::vector<TensorBlock> blocks_;  ///< to be hashed
  CudaInspection inspection_;
  CudaEvent copied_;  ///< the last piece so far: those of the next layer, which follow it, are not waited for
  CudaEvent checked_, hashed_;
};

}  // namespace attest
