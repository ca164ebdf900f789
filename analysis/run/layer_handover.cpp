// The two ends of the queue between reading and studying.
#include "analysis/run/layer_handover.h"

#include <chrono>
#include <utility>

namespace attest {
namespace {

/// How long the studying thread waits before it looks for an interruption.
constexpr auto kReceiveWait = std::chrono::milliseconds(100);
/// Between two looks at a unit that another process has. It is part of the time that several processes take together.
constexpr auto kPause = std::chrono::milliseconds(10);

}  // namespace

LayerHandover::LayerHandover(int num_layers, MakeLayer make_layer)
    : max_ready_(static_cast<std::size_t>(num_layers)), make_layer_(std::move(make_layer)), to_make_(num_layers) {}

std::unique_ptr<AttentionLayer> LayerHandover::take_free(const std::stop_token& stop) {
  if (to_make_ > 0) {
    --to_make_;
    return make_layer_();
  }
  std::unique_lock lock(mutex_);
  if (!changed_.wait(lock, stop, [this] { return !free_.empty(); })) return nullptr;
  std::unique_ptr<AttentionLayer> layer = std::move(free_.back());
  free_.pop_back();
  return layer;
}

void LayerHandover::give_back(std::unique_ptr<AttentionLayer> layer) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(layer));
  changed_.notify_all();
}

bool LayerHandover::deliver(Delivery delivery, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait(lock, stop, [this] { return ready_.size() < max_ready_; })) return false;
  ready_.push_back(std::move(delivery));
  changed_.notify_all();
  return true;
}

void LayerHandover::finish(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
  finished_ = true;
  changed_.notify_all();
}

void LayerHandover::pause(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  paused_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, stop, kPause, [] { return false; });
}

LayerHandover::State LayerHandover::receive(Delivery& delivery) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kReceiveWait, [this] { return !ready_.empty() || finished_ || paused_; });
  paused_ = false;
  if (!ready_.empty()) {
    delivery = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    return State::delivered;
  }
  if (error_) std::rethrow_exception(error_);
  return finished_ ? State::finished : State::waiting;
}

}  // namespace attest
