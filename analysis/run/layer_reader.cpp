// The reading thread of a study.
#include "analysis/run/layer_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "analysis/metrics/predicted_loss.h"
#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "dumps/format/value_check.h"

namespace attest {
namespace {

/// Averaged over the scales of the outputs; empty if the dump has none.
std::vector<float> output_gradient(const DumpReader& dump, std::size_t sample, int layer) {
  const std::vector<float> mean =
      path_mean(dump.layer_info(sample, layer).gradient_scales, dump.read_array<float>(sample, layer, kOutputGradient));
  if (!std::ranges::all_of(mean, [](float g) { return std::isfinite(g); }))
    throw InputError(fmt::format("{}: /samples/{}/layers/{}/{}: holds NaN or infinity, expected finite gradients",
                                 dump.info().path, dump.info().samples[sample].name, layer, kOutputGradient));
  return mean;
}

}  // namespace

void LayerReader::run(const std::stop_token& stop) noexcept {
  try {
    deliver_all(stop);
    handover_.finish(nullptr);
  } catch (...) {
    handover_.finish(std::current_exception());
  }
}

void LayerReader::deliver_all(const std::stop_token& stop) {
  for (;;) {
    // First the buffer: a unit that is taken has nothing to wait for.
    std::unique_ptr<AttentionLayer> layer = handover_.take_free(stop);
    if (!layer) return;
    const UnitQueue::Next next = queue_.next();
    if (next.state == UnitQueue::State::compute) {
      if (!handover_.deliver(read(next.unit, std::move(layer)), stop)) return;
      continue;
    }
    handover_.give_back(std::move(layer));
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

Delivery LayerReader::read(const UnitKey& unit, std::unique_ptr<AttentionLayer> layer) const {
  const PlannedSample& place = plan_.places[unit.dump][unit.sample];
  const DumpReader& dump = dumps_[unit.dump];
  const std::string& sample = dump.info().samples[place.index].name;
  std::mutex mutex;
  std::vector<BlockHash> blocks;
  const BlockObserver hash_block = [&](std::uint64_t block, std::span<const std::byte> bytes) {
    if (options_.stop != nullptr && *options_.stop) throw Interrupted("interrupted");
    const BlockHash hashed{.block = block, .hash = hash_of(bytes)};
    if (options_.hashes != nullptr) options_.hashes->set(unit.dump, hashed);
    const std::lock_guard lock(mutex);
    blocks.push_back(hashed);
  };
  const bool finite = dump.read_layer(place.index, unit.layer, *layer, options_.reading_threads,
                                      options_.hash_blocks ? hash_block : BlockObserver());
  if (layer->head_gradient.empty() && options_.weights != nullptr)  // as if of one row, whose root mean square they are
    layer->head_gradient = options_.weights->layers.at(unit.layer);
  layer->output_gradient = output_gradient(dump, place.index, unit.layer);
  while (layer->estimates.size() < options_.estimates.size()) layer->estimates.emplace_back(layer->q.memory());
  for (std::size_t i = 0; i < options_.estimates.size(); ++i)
    options_.estimates[i].read(sample, unit.layer, layer->estimates[i]);
  select_queries(*layer, place.query_indices);
  // Checked again because the bad value may be in a query that was left out.
  std::string defect = finite ? std::string() : first_bad_value(check_values(*layer));
  if (!defect.empty()) defect = fmt::format("{}: sample '{}', {}", dump.info().path, sample, defect);
  if (defect.empty()) defect = first_bad_estimate(*layer, sample);
  std::ranges::sort(blocks, {}, &BlockHash::block);
  return {unit, std::move(layer), UnitOrigin::this_process, std::move(blocks), std::move(defect)};
}

}  // namespace attest
