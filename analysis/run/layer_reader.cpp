// The reading thread of a study.
#include "analysis/run/layer_reader.h"

#include <fmt/format.h>

#include <deque>
#include <string>
#include <utility>

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
  std::deque<UnitKey> others;  // claimed by other processes
  const auto retry_oldest = [&] {
    const UnitKey unit = others.front();
    const Outcome outcome = deliver(unit, stop);
    if (outcome == Outcome::delivered) others.pop_front();
    return outcome;
  };
  for (const UnitKey& unit : plan_.units) {
    const Outcome outcome = deliver(unit, stop);
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

LayerReader::Outcome LayerReader::deliver(const UnitKey& unit, const std::stop_token& stop) {
  std::unique_ptr<AttentionLayer> layer = handover_.take_free(stop);
  if (!layer) return Outcome::end;
  std::optional<UnitClaim> claim = partial_.claim(unit);
  std::optional<LayerResults> results = claim ? partial_.load(unit) : std::nullopt;
  // A layer that an earlier run has left out is not finished for a run that leaves none out.
  if (results && !results->done && !study_.skip_bad_layers) results.reset();
  if (!claim || results) {
    handover_.give_back(std::move(layer));
    if (!claim) return Outcome::claimed_elsewhere;
    const bool going_on = handover_.deliver({unit, {}, nullptr, std::move(results), {}}, stop);
    return going_on ? Outcome::delivered : Outcome::end;
  }
  if (!partial_.in_place()) return Outcome::end;
  const bool going_on = handover_.deliver(read(unit, std::move(*claim), std::move(layer)), stop);
  return going_on ? Outcome::delivered : Outcome::end;
}

Delivery LayerReader::read(const UnitKey& unit, UnitClaim claim, std::unique_ptr<AttentionLayer> layer) const {
  const PlannedSample& place = plan_.places[unit.dump][unit.sample];
  const DumpReader& dump = dumps_[unit.dump];
  const std::string& sample = dump.info().samples[place.index].name;
  const bool finite = dump.read_layer(place.index, unit.layer, *layer, threads_);
  while (layer->estimates.size() < estimates_.size()) layer->estimates.emplace_back(layer->q.memory());
  for (std::size_t i = 0; i < estimates_.size(); ++i) estimates_[i].read(sample, unit.layer, layer->estimates[i]);
  select_queries(*layer, place.query_indices);
  // Checked again because the bad value may be in a query that was left out.
  std::string defect = finite ? std::string() : first_bad_value(check_values(*layer));
  if (!defect.empty()) defect = fmt::format("{}: sample '{}', {}", dump.info().path, sample, defect);
  if (defect.empty()) defect = first_bad_estimate(*layer, sample);
  return {unit, std::move(claim), std::move(layer), std::nullopt, std::move(defect)};
}

}  // namespace attest
