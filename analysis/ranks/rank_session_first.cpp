// What rank 0 does for the others: it welcomes them, watches them, and leaves word for those that come late.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analysis/ranks/rank_session.h"
#include "analysis/ranks/work_queue.h"

namespace attest {
namespace {

constexpr std::chrono::milliseconds kWaitForAbsent{20000};

}  // namespace

void RankSession::read_hellos() {
  const std::lock_guard only(hellos_mutex_);
  if (outcome_left_) return;  // who comes now finds that
  std::vector<std::int64_t> wanted = std::exchange(hellos_missing_, {});
  for (const std::int64_t count = store_.add(prefix() + "hellos", 0); hellos_read_ < count; ++hellos_read_)
    wanted.push_back(hellos_read_);
  for (const std::int64_t number : wanted)
    if (const std::optional<std::string> hello = store_.get(fmt::format("{}hello/{}", prefix(), number)))
      welcome(*hello);
    else
      hellos_missing_.push_back(number);
}

void RankSession::welcome(const std::string& hello) {
  std::istringstream text(hello);
  Known known{.member = {}, .silence = no_silence()};
  std::string process;
  text >> known.member.rank >> process;
  known.member.host = rest_of(text);
  const std::string failure = store_.get(prefix() + "failed/" + process).value_or("");
  if (!failure.empty()) end(failure);
  store_.set(prefix() + "welcome/" + process, "yes");
  const std::lock_guard lock(mutex_);
  members_.emplace(process, std::move(known));
}

void RankSession::watch_members() {
  std::vector<std::string> processes;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [process, known] : members_) processes.push_back(process);
  }
  for (const std::string& process : processes) {
    std::string beat = store_.get(WorkQueue::beat_key(prefix(), process)).value_or("");
    const std::lock_guard lock(mutex_);
    members_.at(process).silence.look(std::move(beat));
  }
}

std::vector<RankSession::Member> RankSession::members() const {
  std::vector<Member> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [process, known] : members_) {
    all.push_back(known.member);
    all.back().silent = known.silence.time();
  }
  std::ranges::sort(all, {}, &Member::rank);
  return all;
}

bool RankSession::is_silent(const std::string& process) const {
  const std::lock_guard lock(mutex_);
  const auto found = members_.find(process);
  return found != members_.end() && found->second.silence.time() >= lease_;
}

void RankSession::leave_outcome() {
  read_control();
  const std::lock_guard only(hellos_mutex_);
  std::string seen = ",";
  for (const Member& member : members()) seen += fmt::format("{},", member.rank);
  std::string outcome;
  {
    const std::lock_guard lock(mutex_);
    outcome = control_;
  }
  if (outcome.empty() || std::exchange(outcome_left_, true)) return;
  store_.set(prefix() + "ended", fmt::format("{} {}", seen, outcome));
}

bool RankSession::all_have_left() {
  const std::vector<Member> known = members();
  const auto living = std::ranges::count_if(known, [&](const Member& one) { return !is_silent(one); });
  return store_.add(prefix() + "left", 0) >= living;
}

void RankSession::wait_until_heard() noexcept {
  try {
    leave_outcome();
    // Those that wait for a welcome read the outcome, and are counted.
    const std::int64_t waiting = opened_ ? 0 : store_.add(prefix() + "hellos", 0);
    for (const Clock::time_point start = Clock::now(); since(start) < kMostUntilHeard;) {
      if (store_.add(prefix() + "late", 0) >= waiting && all_have_left()) return;
      std::this_thread::sleep_for(kWelcomePoll);
    }
  } catch (...) {  // the store is gone
  }
}

void RankSession::wait_for_others(const std::function<void(const std::string&)>& notice) {
  const Clock::time_point start = Clock::now();
  bool said = false;
  for (;; std::this_thread::sleep_for(kWelcomePoll)) {
    const std::vector<Member> known = members();
    std::vector<int> absent;
    for (int rank = 1; rank < ranks_.world; ++rank)
      if (std::ranges::count(known, rank, &Member::rank) == 0) absent.push_back(rank);
    const bool wait_for_absent =
        std::cmp_less(store_.add(prefix() + "late", 0), absent.size()) && since(start) < kWaitForAbsent;
    if (!wait_for_absent && all_have_left()) return;
    if (user_stop_ || stop_) return;
    if (absent.empty() || said || since(start) < std::chrono::milliseconds(1000)) continue;
    notice(fmt::format("{} of {} ranks have not come; rank 0 waits for them for {} s, since it has their store",
                       absent.size(), ranks_.world, kWaitForAbsent.count() / 1000));
    said = true;
  }
}

}  // namespace attest
