// CudaPieceRing: the copy of a piece is enqueued by the thread that has read it. CudaLayerStore: two buffers on the
// device.
#include "analysis/cuda/cuda_layer_store.h"

#include <utility>

#include "dumps/base/error.h"
#include "kernels/device/page_locked_memory.h"

namespace attest {
namespace {

// Events with a time between copies keep the bus idle for 4 us each. Where every piece of 4 MiB had two, fifteen
// threads copied a file at 36 GB/s instead of 44.
constexpr std::size_t kCopiesForOneTimed = 8;

}  // namespace

CudaPieceRing::CudaPieceRing(int device) : device_(device), pieces_(kPieces) {
  for (Piece& piece : pieces_) free_.push_back(&piece);
}

CudaPieceRing::~CudaPieceRing() {
  ATTEST_CUDA_QUIET(cudaStreamSynchronize(stream_));
  if (memory_ != nullptr) page_locked_memory(device_)->deallocate(memory_, kBytes);
}

void CudaPieceRing::allocate() {
  memory_ = static_cast<std::byte*>(page_locked_memory(device_)->allocate(kBytes));
  for (std::size_t i = 0; i < kPieces; ++i) pieces_[i].data = memory_ + i * LayerStore::kPieceBytes;
}

CudaPieceRing::Hold::Hold(CudaPieceRing* ring) : ring_(ring) {
  if (ring_ == nullptr) return;
  const std::lock_guard lock(ring_->mutex_);
  ring_->held_ = true;
}

CudaPieceRing::Hold::~Hold() {
  if (ring_ == nullptr) return;
  const std::lock_guard lock(ring_->mutex_);
  ring_->held_ = false;
  ring_->released_.notify_all();
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
  if (piece.timed == 0) return;
  timed_.seconds += piece.end.seconds_since(piece.begin);
  timed_.bytes += static_cast<double>(std::exchange(piece.timed, 0));
}

void CudaPieceRing::copy(std::byte* to, std::size_t bytes, const LayerStore::Fill& fill, const CudaEvent* copied) {
  ATTEST_CUDA(cudaSetDevice(device_));
  std::call_once(allocated_, [this] { allocate(); });
  const Borrowed borrowed(*this);
  Piece& piece = *borrowed;
  piece.copied.synchronize();  // its last copy; returns at once if there was none
  fill({piece.data, bytes});
  std::unique_lock lock(mutex_);
  released_.wait(lock, [this] { return !held_; });
  add_time(piece);
  const bool timed = copies_++ % kCopiesForOneTimed == 0;
  bytes_ += static_cast<double>(bytes);
  if (timed) piece.begin.record(stream_);
  ATTEST_CUDA(cudaMemcpyAsync(to, piece.data, bytes, cudaMemcpyHostToDevice, stream_));
  if (timed) {
    piece.end.record(stream_);
    piece.timed = bytes;
  }
  piece.copied.record(stream_);
  if (copied != nullptr) copied->record(stream_);
}

void CudaPieceRing::copy_from(const std::byte* from, std::byte* to, std::size_t bytes, const CudaEvent& copied) {
  const std::lock_guard lock(mutex_);
  ATTEST_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_));
  copied.record(stream_);
}

void CudaPieceRing::make_wait(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  arrived_.record(stream_);
  arrived_.make_wait(stream);
}

StageTime CudaPieceRing::time() {
  const std::lock_guard lock(mutex_);
  for (Piece* const piece : free_) {
    piece->copied.synchronize();
    add_time(*piece);
  }
  const double of_bytes = timed_.bytes > 0 ? timed_.seconds / timed_.bytes : 0;
  return {.name = std::string(kHostCopyStage), .seconds = bytes_ * of_bytes, .bytes = bytes_};
}

CudaLayerStore::CudaLayerStore(int device, std::shared_ptr<CudaPieceRing> ring, std::shared_ptr<CudaStoreRoom> room)
    : device_(device), ring_(std::move(ring)), room_(std::move(room)) {}

CudaLayerStore::~CudaLayerStore() {
  ATTEST_CUDA_QUIET(cudaSetDevice(device_));
  room_->taken -= k_.size() + v_.size();
  try {
    ring_->synchronize();
    inspection_.wait();
  } catch (const DeviceError&) {  // was told where it was waited for
  }
}

bool CudaLayerStore::reserve(std::size_t key_bytes, std::size_t value_bytes) {
  if (key_bytes + value_bytes > room_->max_per_store) return false;
  ATTEST_CUDA(cudaSetDevice(device_));
  inspecting_ = false;
  const std::size_t before = k_.size() + v_.size();
  k_.reserve(key_bytes);
  v_.reserve(value_bytes);
  room_->taken += k_.size() + v_.size() - before;
  return true;
}

void CudaLayerStore::put(KvTensor tensor, std::size_t offset, std::size_t bytes, const Fill& fill) {
  ring_->copy((tensor == KvTensor::k ? k_ : v_).data() + offset, bytes, fill, &copied_);
}

void CudaLayerStore::begin_inspection(ElementType type, std::vector<TensorBlock> blocks) {
  ATTEST_CUDA(cudaSetDevice(device_));
  inspecting_ = true;
  blocks_ = std::move(blocks);
  inspection_.begin(type, blocks_.size());
}

void CudaLayerStore::make_ready(const Part& keys, const Part& values, StageClock& clock, cudaStream_t stream) {
  if (!inspecting_) return copied_.make_wait(stream);
  const CudaStream& inspecting = ring_->inspecting();
  copied_.make_wait(inspecting);
  {
    const StageClock::Stage stage(clock, "value check", inspecting, static_cast<double>(keys.bytes + values.bytes));
    inspection_.check(k_.data() + keys.begin, keys.bytes, inspecting);
    inspection_.check(v_.data() + values.begin, values.bytes, inspecting);
  }
  checked_.record(inspecting);
  checked_.make_wait(stream);
}

void CudaLayerStore::hash(StageClock& clock) {
  if (!inspecting_ || blocks_.empty()) return;
  std::vector<const std::byte*> places;
  for (const TensorBlock& block : blocks_)
    places.push_back((block.tensor == KvTensor::k ? k_ : v_).data() + block.begin);
  {
    const StageClock::Stage stage(clock, "content hashes", ring_->inspecting(),
                                  static_cast<double>(blocks_.size() * kFileBlock));
    inspection_.hash(places, ring_->inspecting());
  }
  hashed_.record(ring_->inspecting());
}

}  // namespace attest
