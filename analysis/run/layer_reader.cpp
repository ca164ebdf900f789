// The reading thread of a study.
#include "analysis/run/layer_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/metrics/predicted_loss.h"
#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "dumps/format/value_check.h"
#include "dumps/layer_store.h"

namespace attest {
namespace {

/// How long the reading thread waits for others before it looks for the end of the study.
constexpr std::chrono::milliseconds kArrivalWait{50};

/// Averaged over the scales of the outputs; empty if the dump has none.
std::vector<float> output_gradient(const DumpReader& dump, std::size_t sample, int layer) {
  const std::vector<float> mean =
      path_mean(dump.layer_info(sample, layer).gradient_scales, dump.read_array<float>(sample, layer, kOutputGradient));
  if (!std::ranges::all_of(mean, [](float g) { return std::isfinite(g); }))
    throw InputError(fmt::format("{}: /samples/{}/layers/{}/{}: holds NaN or infinity, expected finite gradients",
                                 dump.info().path, dump.info().samples[sample].name, layer, kOutputGradient));
  return mean;
}

/// For a layer that is read twice: the first time for what is told of it.
class DroppingStore final : public LayerStore {
 public:
  bool reserve(std::size_t, std::size_t) override { return true; }
  void put(KvTensor, std::size_t, std::size_t bytes, const Fill& fill) override {
    std::vector<std::byte> piece(bytes);
    fill(piece);
  }
};

class DumpSource final : public KvSource {
 public:
  DumpSource(const DumpReader& dump, std::size_t sample, int layer, int threads)
      : dump_(dump), sample_(sample), layer_(layer), threads_(threads) {}
  void read(int first, int count, const Put& put) const override {
    dump_.read_heads(sample_, layer_, first, count, put, threads_);
  }

 private:
  const DumpReader& dump_;
  const std::size_t sample_;
  const int layer_, threads_;
};

}  // namespace

void LayerReader::run(const std::stop_token& stop) noexcept {
  try {
    deliver_all(stop);
    finish_reading();
    handover_.finish(nullptr);
  } catch (...) {
    handover_.finish(std::current_exception());
  }
}

void LayerReader::deliver_all(const std::stop_token& stop) {
  for (;;) {
    const bool may_compute = device_.may_compute();
    // First the buffer: a unit that is taken has nothing to wait for.
    std::unique_ptr<AttentionLayer> layer;
    if (may_compute && !(layer = handover_.take_free(stop))) return;
    const UnitQueue::Next next = queue_.next(may_compute);
    if (next.state == UnitQueue::State::compute) {
      if (!read(next.unit, std::move(layer), stop)) return;
      continue;
    }
    if (layer) handover_.give_back(std::move(layer));
    if (next.state == UnitQueue::State::end) return;
    if (next.state == UnitQueue::State::stored) {
      Delivery stored{};
      stored.unit = next.unit;
      stored.origin = next.origin;
      if (!handover_.deliver(std::move(stored), stop)) return;
      continue;
    }
    handover_.pause(stop);
    if (stop.stop_requested()) return;
  }
}

/// Hashes the blocks that are read, by several threads.
class LayerReader::Blocks {
 public:
  Blocks(const StreamOptions& options, std::size_t dump) : options_(options), dump_(dump) {}

  /// `hash`: no one else does.
  BlockObserver observer(bool hash = true) {
    if (!options_.hash_blocks) return {};
    return [this, hash](std::uint64_t block, std::span<const std::byte> bytes) {
      if (options_.stop != nullptr && *options_.stop) throw Interrupted("interrupted");
      if (hash) add({.block = block, .hash = hash_of(bytes)});
    };
  }
  void add(const BlockHash& hashed) {
    if (options_.hashes != nullptr) options_.hashes->set(dump_, hashed);
    const std::lock_guard lock(mutex_);
    blocks_.push_back(hashed);
  }
  /// Those of the layer, in the order of the file.
  std::vector<BlockHash> take() {
    std::ranges::sort(blocks_, {}, &BlockHash::block);
    return std::move(blocks_);
  }

 private:
  const StreamOptions& options_;
  const std::size_t dump_;
  std::mutex mutex_;
  std::vector<BlockHash> blocks_;
};

LayerReader::Place LayerReader::place_for(const UnitKey& unit, AttentionLayer& layer) const {
  if (!layer.store) return Place::host_memory;
  const DumpReader& dump = dumps_[unit.dump];
  const std::size_t sample = plan_.places[unit.dump][unit.sample].index;
  dump.check_memory(sample, unit.layer);
  const LayerInfo& stored = dump.layer_info(sample, unit.layer);
  if (!layer.store->reserve(stored.k.bytes, stored.v.bytes)) {
    // The largest magnitudes of a layer are known once it is in memory.
    const bool needs_amax =
        std::ranges::any_of(study_.selectors, [](const StudySelector& s) { return s.selector->needs_amax(); });
    return dump.reads_heads(sample, unit.layer) && !needs_amax ? Place::source : Place::host_memory;
  }
  begin_arrival(unit, *layer.store);
  return Place::store;
}

void LayerReader::begin_arrival(const UnitKey& unit, LayerStore& store) const {
  const DumpReader& dump = dumps_[unit.dump];
  const LayerInfo& stored = dump.layer_info(plan_.places[unit.dump][unit.sample].index, unit.layer);
  const int heads = dump.info().shape.num_kv_heads;
  store.arrival.begin(heads, stored.k.bytes / static_cast<std::size_t>(heads),
                      stored.v.bytes / static_cast<std::size_t>(heads));
}

void LayerReader::complete(const UnitKey& unit, AttentionLayer& layer) const {
  const PlannedSample& place = plan_.places[unit.dump][unit.sample];
  const DumpReader& dump = dumps_[unit.dump];
  if (layer.head_gradient.empty() && options_.weights != nullptr)  // as if of one row, whose root mean square they are
    layer.head_gradient = options_.weights->layers.at(unit.layer);
  layer.output_gradient = output_gradient(dump, place.index, unit.layer);
  while (layer.estimates.size() < options_.estimates.size()) layer.estimates.emplace_back(layer.q.memory());
  for (std::size_t i = 0; i < options_.estimates.size(); ++i)
    options_.estimates[i].read(dump.info().samples[place.index].name, unit.layer, layer.estimates[i]);
  select_queries(layer, place.query_indices);
}

std::string LayerReader::bad_value(const UnitKey& unit, const AttentionLayer& layer) const {
  const DumpInfo& info = dumps_[unit.dump].info();
  const std::string defect = first_bad_value(check_values(layer));
  if (defect.empty()) return defect;
  return fmt::format("{}: sample '{}', {}", info.path, info.samples[plan_.places[unit.dump][unit.sample].index].name,
                     defect);
}

LayerReader::Inspection LayerReader::begin_inspection(const UnitKey& unit, LayerStore& store) const {
  Inspection there;
  if (!store.inspects()) return there;
  const std::size_t sample = plan_.places[unit.dump][unit.sample].index;
  const DumpReader& dump = dumps_[unit.dump];
  there.checks = true;
  if (options_.hash_blocks) {
    there.blocks = dump.layer_blocks(sample, unit.layer);
    there.hashes = std::ranges::all_of(
        there.blocks.whole, [](const TensorBlock& block) { return block.begin % LayerStore::kHashAlignment == 0; });
    if (!there.hashes) there.blocks = {};
  }
  store.begin_inspection(dump.layer_info(sample, unit.layer).element_type, there.blocks.whole);
  return there;
}

void LayerReader::hash_cut_blocks(const UnitKey& unit, const Inspection& there) const {
  if (!there.hashes || options_.hashes == nullptr) return;
  // A thread that hashes beside the study would only take what reading needs; of a compressed layer nobody else hashes.
  if (!there.blocks.whole.empty()) options_.hashes->rest();
  options_.hashes->hash(unit.dump, there.blocks.cut);
}

std::string LayerReader::find_bad_value(const UnitKey& unit, const BlockObserver& observe) const {
  const PlannedSample& place = plan_.places[unit.dump][unit.sample];
  const DumpReader& dump = dumps_[unit.dump];
  AttentionLayer again;
  // On threads of its own, since others of this object may be reading the next layer.
  std::ignore = dump.read_layer(place.index, unit.layer, again, options_.reading_threads, observe);
  select_queries(again, place.query_indices);
  const std::string defect = bad_value(unit, again);
  if (!defect.empty()) return defect;
  return fmt::format("{}: sample '{}', layer {}: held NaN or infinity before, the file has changed", dump.info().path,
                     dump.info().samples[place.index].name, unit.layer);
}

ReadLayer LayerReader::read_into_store(const UnitKey& unit, LayerStore& store, bool finite_queries,
                                       const Inspection& there, Blocks& blocks) const {
  struct End {
    KvArrival& arrival;
    ~End() { arrival.end(); }
  } const end{store.arrival};
  const bool finite = dumps_[unit.dump].read_keys_and_values(plan_.places[unit.dump][unit.sample].index, unit.layer,
                                                             store, threads_, blocks.observer(!there.hashes),
                                                             there.checks ? ValueCheck::no : ValueCheck::yes);
  ReadLayer read{.blocks = blocks.take(), .defect = {}};
  if (!finite || !finite_queries) read.defect = find_bad_value(unit);
  return read;
}

std::shared_future<ReadLayer> LayerReader::with_findings(const UnitKey& unit, std::shared_ptr<LayerStore> store,
                                                         const Inspection& there,
                                                         std::shared_future<ReadLayer> reading) const {
  if (!there.checks) return reading;
  return std::async(std::launch::deferred,
                    [this, unit, store = std::move(store), there, reading = std::move(reading)] {
                      ReadLayer read = reading.get();
                      const StoreFindings found = store->findings();
                      Blocks blocks(options_, unit.dump);
                      if (found.finite) {
                        for (const BlockHash& block : read.blocks) blocks.add(block);
                        for (std::size_t i = 0; i < there.blocks.whole.size(); ++i)
                          blocks.add({.block = there.blocks.whole[i].number, .hash = found.hashes.at(i)});
                      } else {
                        read.defect = find_bad_value(unit, blocks.observer(there.hashes));
                      }
                      if (there.hashes) read.blocks = blocks.take();
                      return read;
                    })
      .share();
}

bool LayerReader::read_delivered(Delivery delivery, std::shared_ptr<Blocks> blocks, const std::stop_token& stop) {
  const UnitKey unit = delivery.unit;
  const std::shared_ptr<LayerStore> store = delivery.layer->store;
  const Inspection there = begin_inspection(unit, *store);
  const auto promise = std::make_shared<std::promise<ReadLayer>>();
  delivery.reading = with_findings(unit, store, there, promise->get_future().share());
  std::future<void> reading;
  const auto begin = [&] {
    reading = std::async(std::launch::async, [this, unit, store, there, blocks, promise] {
      try {
        promise->set_value(read_into_store(unit, *store, true, there, *blocks));
      } catch (...) {
        promise->set_exception(std::current_exception());
        throw;
      }
    });
  };
  if (delivered_any_)
    begin();
  else
    layer_study_.rehearse(*delivery.layer, begin);
  delivered_any_ = true;
  std::swap(reading, reading_);
  if (!handover_.deliver(std::move(delivery), stop)) return false;  // from here on the layer is the study's
  if (reading.valid()) reading.get();
  hash_cut_blocks(unit, there);
  while (!stop.stop_requested()) {
    const KvArrival::State state = store->arrival.wait_for_last_begun(kArrivalWait);
    if (state.all_begun || state.ended) break;
  }
  return true;
}

void LayerReader::finish_reading() {
  if (reading_.valid()) reading_.get();
}

bool LayerReader::read(const UnitKey& unit, std::unique_ptr<AttentionLayer> layer, const std::stop_token& stop) {
  const std::size_t index = plan_.places[unit.dump][unit.sample].index;
  const DumpReader& dump = dumps_[unit.dump];
  AttentionLayer& own = *layer;
  const auto blocks = std::make_shared<Blocks>(options_, unit.dump);
  const Place to = place_for(unit, own);
  bool finite = to == Place::host_memory ? dump.read_layer(index, unit.layer, own, threads_, blocks->observer())
                                         : dump.read_queries(index, unit.layer, own, threads_, blocks->observer());
  complete(unit, own);
  const std::string bad_estimate = first_bad_estimate(own, dump.info().samples[index].name);
  std::promise<ReadLayer> reading;
  Delivery delivery{.unit = unit, .layer = std::move(layer), .reading = reading.get_future().share()};
  if (to != Place::host_memory) {
    // Checked again because the bad value may be in a query that was left out.
    finite = finite || all_finite(own.element_type, {own.q.data(), own.q.size()});
    std::shared_ptr<LayerStore> store = own.store;
    if (to == Place::source) {
      own.in_store = false;
      own.source = std::make_shared<DumpSource>(dump, index, unit.layer, options_.reading_threads);
      store = std::make_shared<DroppingStore>();
      begin_arrival(unit, *store);
    } else if (finite && bad_estimate.empty()) {
      return read_delivered(std::move(delivery), blocks, stop);
    }
    ReadLayer read = read_into_store(unit, *store, finite, {}, *blocks);
    if (read.defect.empty()) read.defect = bad_estimate;
    reading.set_value(std::move(read));
  } else {
    std::string defect = finite ? std::string() : bad_value(unit, own);
    reading.set_value({.blocks = blocks->take(), .defect = defect.empty() ? bad_estimate : std::move(defect)});
  }
  delivered_any_ = true;
  return handover_.deliver(std::move(delivery), stop);
}

}  // namespace attest
