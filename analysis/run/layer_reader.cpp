// The reading thread of a study.
#include "analysis/run/layer_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "dumps/base/content_hash.h"
#include "dumps/base/error.h"
#include "dumps/format/value_check.h"

namespace attest {

void LayerReader::run(const std::stop_token& stop) noexcept {
  try {
    deliver_all(stop);
    handover_.finish(nullptr);
  } catch (...) {
    handover_.finish(std::current_exception());
  }
}

bool LayerReader::deliver_all(const std::stop_token& stop) {
  const std::set<UnitKey> before = PartialResults::unit_files(partial_.folder());
  std::deque<UnitKey> others;  // claimed by other processes
  const auto retry_oldest = [&] {
    const UnitKey unit = others.front();
    const Outcome outcome = deliver(unit, UnitOrigin::beside, stop);
    if (outcome == Outcome::delivered) others.pop_front();
    return outcome;
  };
  for (const UnitKey& unit : plan_.units) {
    const Outcome outcome = deliver(unit, before.contains(unit) ? UnitOrigin::before : UnitOrigin::beside, stop);
    if (outcome == Outcome::end) return false;
    if (outcome == Outcome::claimed_elsewhere) others.push_back(unit);
    // Results of others are taken over as they appear, so that little is left to do at the end.
    else if (!others.empty() && retry_oldest() == Outcome::end)
      return false;
  }
  while (!others.empty()) {
    const Outcome outcome = retry_oldest();
    if (outcome == Outcome::end) return false;
    if (outcome == Outcome::delivered) continue;
    // The oldest may be in the hands of a slow process that dies later: look at the others too.
    others.push_back(others.front());
    others.pop_front();
    handover_.pause(stop);
    if (stop.stop_requested()) return false;
  }
  return true;
}

LayerReader::Outcome LayerReader::deliver(const UnitKey& unit, UnitOrigin origin, const std::stop_token& stop) {
  std::unique_ptr<AttentionLayer> layer = handover_.take_free(stop);
  if (!layer) return Outcome::end;
  std::optional<UnitClaim> claim = partial_.claim(unit);
  // A layer that an earlier run has left out is not finished for a run that leaves none out.
  const UnitState state = claim ? partial_.state(unit) : UnitState::missing;
  const bool is_stored = state == UnitState::computed || (state == UnitState::left_out && study_.skip_bad_layers);
  if (!claim || is_stored) handover_.give_back(std::move(layer));
  if (!claim) return Outcome::claimed_elsewhere;
  if (!is_stored && !partial_.in_place()) return Outcome::end;
  Delivery delivery{.unit = unit, .claim = {}, .layer = nullptr, .origin = origin, .blocks = {}, .defect = {}};
  if (!is_stored) delivery = read(unit, std::move(*claim), std::move(layer));
  return handover_.deliver(std::move(delivery), stop) ? Outcome::delivered : Outcome::end;
}

Delivery LayerReader::read(const UnitKey& unit, UnitClaim claim, std::unique_ptr<AttentionLayer> layer) const {
  const PlannedSample& place = plan_.places[unit.dump][unit.sample];
  const DumpReader& dump = dumps_[unit.dump];
  const std::string& sample = dump.info().samples[place.index].name;
  std::mutex mutex;
  std::vector<BlockHash> blocks;
  const BlockObserver hash_block = [&](std::uint64_t block, std::span<const std::byte> bytes) {
    if (options_.stop != nullptr && *options_.stop) throw Interrupted("interrupted");
    const BlockHash hashed{.block = block, .hash = hash_of(bytes)};
    options_.hashes->set(unit.dump, hashed);
    const std::lock_guard lock(mutex);
    blocks.push_back(hashed);
  };
  const bool finite = dump.read_layer(place.index, unit.layer, *layer, options_.reading_threads,
                                      options_.hashes != nullptr ? hash_block : BlockObserver());
  while (layer->estimates.size() < options_.estimates.size()) layer->estimates.emplace_back(layer->q.memory());
  for (std::size_t i = 0; i < options_.estimates.size(); ++i)
    options_.estimates[i].read(sample, unit.layer, layer->estimates[i]);
  select_queries(*layer, place.query_indices);
  // Checked again because the bad value may be in a query that was left out.
  std::string defect = finite ? std::string() : first_bad_value(check_values(*layer));
  if (!defect.empty()) defect = fmt::format("{}: sample '{}', {}", dump.info().path, sample, defect);
  if (defect.empty()) defect = first_bad_estimate(*layer, sample);
  std::ranges::sort(blocks, {}, &BlockHash::block);
  return {unit, std::move(claim), std::move(layer), UnitOrigin::this_process, std::move(blocks), std::move(defect)};
}

}  // namespace attest
