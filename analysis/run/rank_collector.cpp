// The threads of rank 0 that look for finished units and load them.
#include "analysis/run/rank_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "analysis/ranks/store_blob.h"
#include "dumps/base/error.h"

namespace attest {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPoll{5};
constexpr milliseconds kRetry{200};
/// A network file system may show a new file late, most of all if it was looked for before.
constexpr milliseconds kMostDelay{120000};
constexpr double kSlow = 0.5;  // of the median of ranks: worth a remark
constexpr std::size_t kEnoughToCompare = 4;

}  // namespace

RankCollector::RankCollector(Job job) : job_(std::move(job)) {
  for (const UnitKey& unit : job_.units) bytes_total_ += job_.bytes_of(unit);
  threads_.emplace_back([this](const std::stop_token& stop) { poll(stop); });
  for (int i = 0; i < std::max(1, job_.threads); ++i)
    threads_.emplace_back([this](const std::stop_token& stop) { load_all(stop); });
}

RankCollector::~RankCollector() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

void RankCollector::poll(const std::stop_token& stop) {
  try {
    bool all_finished = false;
    while (!stop.stop_requested() && !job_.session.stop()) {
      job_.folder.check();
      std::vector<WorkQueue::Finished> found;
      if (!all_finished) {
        found = job_.work.take_finished();
        all_finished = job_.work.publish_open();
      }
      std::erase_if(found, [](const WorkQueue::Finished& one) { return one.rank() == 0; });  // add_own() counts them
      std::unique_lock lock(mutex_);
      pending_.insert(pending_.end(), found.begin(), found.end());
      if (!found.empty()) changed_.notify_all();
      changed_.wait_for(lock, stop, kPoll, [] { return false; });
    }
  } catch (...) {
    fail();
  }
}

void RankCollector::load_all(const std::stop_token& stop) {
  for (;;) {
    WorkQueue::Finished next;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return !pending_.empty(); })) return;
      next = std::move(pending_.front());
      pending_.pop_front();
    }
    try {
      take_over(next, stop);
    } catch (...) {
      fail();
    }
  }
}

void RankCollector::take_over(const WorkQueue::Finished& finished, const std::stop_token& stop) {
  const LayerResults results = load(finished, stop);
  const UnitKey& unit = job_.units.at(finished.unit);
  job_.sink(unit, results, UnitOrigin::beside);
  count(finished.rank(), unit);
}

LayerResults RankCollector::load(const WorkQueue::Finished& finished, const std::stop_token& stop) const {
  const UnitKey& unit = job_.units.at(finished.unit);
  if (!job_.sent_below.empty()) {
    const std::string key = job_.sent_below + finished.token;
    const std::string bytes = get_blob(job_.store, key).value_or("");
    std::optional<LayerResults> results = job_.partial.decode(unit, bytes);
    if (!results) throw OutputError(fmt::format("what rank {} has sent is no layer of this study", finished.rank()));
    job_.partial.store(unit, *results);
    erase_blob(job_.store, key, bytes.size());
    return std::move(*results);
  }
  for (const Clock::time_point start = Clock::now();;) {
    if (std::optional<LayerResults> results = job_.partial.load(unit)) return std::move(*results);
    if (Clock::now() - start > kMostDelay)
      throw OutputError(
          fmt::format("a layer that rank {} has finished does not appear in '{}'; --send-results sends finished "
                      "layers to rank 0 instead",
                      finished.rank(), job_.partial.folder()));
    if (stop.stop_requested() || job_.session.stop()) throw Interrupted("interrupted");
    std::this_thread::sleep_for(kRetry);
  }
}

void RankCollector::count(int rank, const UnitKey& unit) {
  const std::lock_guard one_at_a_time(progress_mutex_);
  StudyProgress progress;
  {
    const std::lock_guard lock(mutex_);
    ++added_;
    ++by_rank_[rank];
    bytes_done_ += job_.bytes_of(unit);
    progress = {.finished = job_.resumed + added_, .resumed = job_.resumed, .total = job_.total, .remark = {}};
  }
  progress.remark = remark();
  job_.progress(progress);
  changed_.notify_all();
}

std::string RankCollector::remark() const {
  std::map<int, RankSession::Member> others;  // of each rank the process that was heard last
  for (const RankSession::Member& member : job_.session.members()) {
    const auto [known, first] = others.try_emplace(member.rank, member);
    if (!first && member.silent < known->second.silent) known->second = member;
  }
  std::string silences;
  const auto is_silent = [&](const auto& one) { return job_.session.is_silent(one.second); };
  for (const auto& [rank, member] : others | std::views::filter(is_silent))
    silences += fmt::format("; rank {} has been silent for {:.0f} s", rank,
                            std::chrono::duration<double>(member.silent).count());
  std::erase_if(others, is_silent);
  const std::lock_guard lock(mutex_);
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  std::string text = fmt::format("{:.3g} of {:.3g} GB, {:.2f} GB/s, {} rank{}", static_cast<double>(bytes_done_) / 1e9,
                                 static_cast<double>(bytes_total_) / 1e9,
                                 static_cast<double>(bytes_done_) / 1e9 / std::max(seconds, 1e-3), others.size() + 1,
                                 others.empty() ? "" : "s") +
                     silences;
  std::vector<std::pair<std::size_t, int>> counts{{by_rank_.contains(0) ? by_rank_.at(0) : 0, 0}};
  for (const auto& [rank, member] : others) counts.emplace_back(by_rank_.contains(rank) ? by_rank_.at(rank) : 0, rank);
  std::ranges::sort(counts);
  const std::size_t median = counts[counts.size() / 2].first;
  const auto [least, rank] = counts.front();
  if (median >= kEnoughToCompare && static_cast<double>(least) < kSlow * static_cast<double>(median))
    text += fmt::format("; rank {} is slow: {} layers, others {}", rank, least, median);
  return text;
}

void RankCollector::fail() {
  {
    const std::lock_guard lock(mutex_);
    if (error_) return;
    error_ = std::current_exception();
    changed_.notify_all();
  }
  job_.session.fail();
}

void RankCollector::rethrow() const {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

void RankCollector::wait() {
  std::unique_lock lock(mutex_);
  while (added_ < job_.units.size() && !error_ && !job_.session.stop())
    changed_.wait_for(lock, milliseconds(50), [] { return false; });
  if (error_) std::rethrow_exception(error_);
  if (added_ < job_.units.size()) throw Interrupted("interrupted");
}

}  // namespace attest
