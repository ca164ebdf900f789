// Keys and values of layers that are on the device as a whole. They come from a dump through a ring of page-locked
// pieces, so that host memory does not grow with the layer.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "dumps/layer_store.h"
#include "kernels/device/buffers.h"
#include "kernels/device/stage_time.h"
#include "kernels/device/stream.h"

namespace attest {

/// Page-locked pieces for copies to one device. Thread-safe.
class CudaPieceRing {
 public:
  /// More than 16 reading threads hold, so that some are copied meanwhile: 96 MiB.
  static constexpr std::size_t kPieces = 24;

  explicit CudaPieceRing(int device);
  ~CudaPieceRing();
  CudaPieceRing(const CudaPieceRing&) = delete;
  CudaPieceRing& operator=(const CudaPieceRing&) = delete;

  /// `fill` writes a piece, whose copy to `to` is then enqueued.
  void copy(std::byte* to, std::size_t bytes, const LayerStore::Fill& fill);
  /// Makes the copies that follow wait for the work before an event.
  void wait_for(const CudaEvent& event) { event.make_wait(stream_); }
  /// Makes `stream` wait for the copies so far.
  void make_wait(cudaStream_t stream);
  void synchronize() const { stream_.synchronize(); }
  /// Of the copies that were finished.
  StageTime time();

 private:
  struct Piece {
    std::byte* data = nullptr;
    std::size_t copied = 0;  ///< bytes of its last copy, whose time has not been added; 0: none
    CudaEvent begin{CudaEvent::Timing::on}, end{CudaEvent::Timing::on};
  };
  class Borrowed;
  Piece* take();
  void give_back(Piece* piece);
  void add_time(Piece& piece);

  const int device_;
  CudaStream stream_;
  CudaEvent arrived_;
  std::byte* memory_;
  std::vector<Piece> pieces_;
  std::mutex mutex_;  ///< of the members below, and of the order of events and copies in the stream
  std::condition_variable changed_;
  std::deque<Piece*> free_;  ///< the one that was enqueued first comes first
  StageTime time_{.name = std::string(kHostCopyStage)};
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

  const std::byte* keys() const { return k_.data(); }
  const std::byte* values() const { return v_.data(); }
  /// Makes `stream` wait for what has arrived.
  void make_wait(cudaStream_t stream) const { ring_->make_wait(stream); }

 private:
  const int device_;
  const std::shared_ptr<CudaPieceRing> ring_;
  const std::shared_ptr<CudaStoreRoom> room_;
  DeviceBuffer k_, v_;
};

}  // namespace attest
