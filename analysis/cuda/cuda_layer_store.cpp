// CudaPieceRing: the copy of a piece is enqueued by the thread that has read it. CudaLayerStore: two buffers on the
// device.
#include "analysis/cuda/cuda_layer_store.h"

#include <utility>

#include "dumps/base/error.h"
#include "kernels/device/page_locked_memory.h"

namespace attest {

CudaPieceRing::CudaPieceRing(int device)
    : device_(device),
      memory_(static_cast<std::byte*>(page_locked_memory(device)->allocate(kPieces * LayerStore::kPieceBytes))),
      pieces_(kPieces) {
  for (std::size_t i = 0; i < kPieces; ++i) {
    pieces_[i].data = memory_ + i * LayerStore::kPieceBytes;
    free_.push_back(&pieces_[i]);
  }
}

CudaPieceRing::~CudaPieceRing() {
  ATTEST_CUDA_QUIET(cudaStreamSynchronize(stream_));
  page_locked_memory(device_)->deallocate(memory_, kPieces * LayerStore::kPieceBytes);
}

/// A piece that is nobody else's; goes back when reading fails, too.
class CudaPieceRing::Borrowed {
 public:
  explicit Borrowed(CudaPieceRing& ring) : ring_(ring), piece_(ring.take()) {}
  ~Borrowed() { ring_.give_back(piece_); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Piece& operator*() const { return *piece_; }

 private:
  CudaPieceRing& ring_;
  Piece* piece_;
};

CudaPieceRing::Piece* CudaPieceRing::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !free_.empty(); });
  Piece* const piece = free_.front();
  free_.pop_front();
  return piece;
}

void CudaPieceRing::give_back(Piece* piece) {
  const std::lock_guard lock(mutex_);
  free_.push_back(piece);
  changed_.notify_one();
}

void CudaPieceRing::add_time(Piece& piece) {
  if (piece.copied == 0) return;
  float milliseconds = 0;
  ATTEST_CUDA(cudaEventElapsedTime(&milliseconds, piece.begin, piece.end));
  time_.seconds += milliseconds / 1000.0;
  time_.bytes += static_cast<double>(std::exchange(piece.copied, 0));
}

void CudaPieceRing::copy(std::byte* to, std::size_t bytes, const LayerStore::Fill& fill) {
  ATTEST_CUDA(cudaSetDevice(device_));
  const Borrowed borrowed(*this);
  Piece& piece = *borrowed;
  piece.end.synchronize();  // of its last copy; returns at once if there was none
  fill({piece.data, bytes});
  const std::lock_guard lock(mutex_);
  add_time(piece);
  piece.begin.record(stream_);
  ATTEST_CUDA(cudaMemcpyAsync(to, piece.data, bytes, cudaMemcpyHostToDevice, stream_));
  piece.end.record(stream_);
  piece.copied = bytes;
}

void CudaPieceRing::make_wait(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  arrived_.record(stream_);
  arrived_.make_wait(stream);
}

StageTime CudaPieceRing::time() {
  const std::lock_guard lock(mutex_);
  for (Piece* const piece : free_) {
    piece->end.synchronize();
    add_time(*piece);
  }
  return time_;
}

CudaLayerStore::CudaLayerStore(int device, std::shared_ptr<CudaPieceRing> ring, std::shared_ptr<CudaStoreRoom> room)
    : device_(device), ring_(std::move(ring)), room_(std::move(room)) {}

CudaLayerStore::~CudaLayerStore() {
  ATTEST_CUDA_QUIET(cudaSetDevice(device_));
  room_->taken -= k_.size() + v_.size();
  try {
    ring_->synchronize();
  } catch (const DeviceError&) {  // was told where it was waited for
  }
}

bool CudaLayerStore::reserve(std::size_t key_bytes, std::size_t value_bytes) {
  if (key_bytes + value_bytes > room_->max_per_store) return false;
  ATTEST_CUDA(cudaSetDevice(device_));
  const std::size_t before = k_.size() + v_.size();
  k_.reserve(key_bytes);
  v_.reserve(value_bytes);
  room_->taken += k_.size() + v_.size() - before;
  return true;
}

void CudaLayerStore::put(KvTensor tensor, std::size_t offset, std::size_t bytes, const Fill& fill) {
  ring_->copy((tensor == KvTensor::k ? k_ : v_).data() + offset, bytes, fill);
}

}  // namespace attest
