// Leases of units by tokens in the store.
#include "analysis/run/rank_unit_queue.h"

#include <thread>
#include <utility>

#include "analysis/ranks/store_blob.h"
#include "dumps/base/error.h"

namespace attest {
namespace {

/// Results of one rank that may wait in the store, which keeps them in memory.
constexpr std::size_t kMostSent = 4;
constexpr auto kSentPoll = std::chrono::milliseconds(10);

struct TokenLease final : UnitLease {
  TokenLease(WorkQueue& queue, WorkQueue::Claim held) : work(queue), claim(std::move(held)) {}
  ~TokenLease() override {
    if (finished) return;
    try {
      work.give_back(claim.unit, claim.token);
    } catch (const Error&) {  // the lease ends by itself
    }
  }

  WorkQueue& work;
  const WorkQueue::Claim claim;
  bool finished = false;
};

}  // namespace

RankUnitQueue::RankUnitQueue(WorkQueue& work, JobStore& store, PartialResults& partial, std::vector<UnitKey> units,
                             std::string sent_below, const std::atomic<bool>& stop)
    : work_(work),
      store_(store),
      partial_(partial),
      units_(std::move(units)),
      sent_below_(std::move(sent_below)),
      stop_(stop) {}

UnitQueue::Next RankUnitQueue::next() {
  WorkQueue::Claim claim = work_.next();
  if (claim.state == WorkQueue::State::end) return {.state = State::end};
  if (claim.state == WorkQueue::State::wait) return {.state = State::wait};
  const UnitKey unit = units_.at(claim.unit);
  return {.state = State::compute, .unit = unit, .lease = std::make_unique<TokenLease>(work_, std::move(claim))};
}

bool RankUnitQueue::finish(const UnitKey& unit, std::unique_ptr<UnitLease> lease, const LayerResults& results) {
  auto& held = static_cast<TokenLease&>(*lease);
  const WorkQueue::Claim& claim = held.claim;
  try {
    if (sent_below_.empty())
      partial_.store(unit, results);
    else
      send(claim.token, partial_.encode(results));
  } catch (const OutputError&) {
    // Who was overtaken may find that the study is finished and its folder gone.
    if (work_.holds(claim.unit, claim.token)) throw;
    held.finished = true;
    return false;
  }
  held.finished = true;
  const bool in_time = work_.finish(claim.unit, claim.token);
  if (!in_time && !sent_below_.empty()) erase_blob(store_, sent_below_ + claim.token, partial_.encode(results).size());
  return in_time;
}

void RankUnitQueue::send(const std::string& token, const std::string& bytes) {
  const std::lock_guard lock(sending_);
  while (sent_.size() >= kMostSent && !stop_) {
    if (store_.get(sent_.front()))
      std::this_thread::sleep_for(kSentPoll);
    else
      sent_.pop_front();
  }
  put_blob(store_, sent_below_ + token, bytes);
  sent_.push_back(sent_below_ + token);
}

}  // namespace attest
