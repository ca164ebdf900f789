// Queue of units from the reading thread to the studying thread, and pool of free layer buffers.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/results/layer_results.h"
#include "analysis/run/unit_queue.h"
#include "analysis/study/study.h"
#include "dumps/attention_layer.h"
#include "dumps/layer_store.h"

namespace attest {

/// What is known once a layer has been read as a whole.
struct ReadLayer {
  std::vector<BlockHash> blocks;  ///< of the dump's file, hashed while the layer was read
  std::string defect;             ///< one sentence that says why the layer cannot be studied; empty if it can
};

/// A unit that the reader passes to the study.
struct Delivery {
  UnitKey unit;
  std::unique_ptr<AttentionLayer> layer;  ///< null if the unit is stored already
  UnitOrigin origin = UnitOrigin::this_process;
  /// There at once, unless keys and values still go to the layer's store. Throws what reading them threw.
  std::shared_future<ReadLayer> reading;
};

class LayerHandover {
 public:
  using MakeLayer = std::function<std::unique_ptr<AttentionLayer>()>;
  /// The reading thread makes so many buffers, when it takes the first ones.
  LayerHandover(int num_layers, MakeLayer make_layer);

  // -- reading thread

  /// Waits for a free layer buffer. Null if the study has ended.
  std::unique_ptr<AttentionLayer> take_free(const std::stop_token& stop);
  void give_back(std::unique_ptr<AttentionLayer> layer);
  /// Waits while several units are waiting to be received. False if the study has ended.
  bool deliver(Delivery delivery, const std::stop_token& stop);
  void finish(std::exception_ptr error);
  /// Tells the studying thread that nothing comes for now, and waits for a short time, less if the study ends.
  void pause(const std::stop_token& stop);

  // -- studying thread

  enum class State { delivered, waiting, finished };

  /// `waiting` if nothing came for a short time, or the reading thread says that nothing comes. Rethrows an exception
  /// of the reading thread after all units delivered before it.
  State receive(Delivery& delivery);

 private:
  const std::size_t max_ready_;
  const MakeLayer make_layer_;
  int to_make_;  ///< of the reading thread
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::unique_ptr<AttentionLayer>> free_;
  std::deque<Delivery> ready_;
  std::exception_ptr error_;
  bool paused_ = false;
  bool finished_ = false;
};

}  // namespace attest
