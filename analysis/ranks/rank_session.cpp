// Hello and welcome, heartbeats, and the key that ends a job.
#include "analysis/ranks/rank_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "analysis/ranks/error_text.h"
#include "analysis/ranks/store_blob.h"
#include "analysis/ranks/work_queue.h"
#include "dumps/base/error.h"
#include "dumps/base/process_identity.h"
#include "dumps/base/random_digits.h"

namespace attest {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{50};         // how late a rank hears that another ends
constexpr milliseconds kWelcomePoll{10};  // how late it begins
constexpr milliseconds kMostBetweenBeats{1000};
constexpr int kBeatsInLease = 4;
constexpr int kLeasesOfFirst = 3;  // rank 0 may be silent for so many
constexpr milliseconds kWaitForAbsent{20000};
constexpr milliseconds kMostUntilHeard{3000};
constexpr const char* kComplete = "complete";

milliseconds since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start);
}

/// The rest of a line after what was read.
std::string rest_of(std::istringstream& text) {
  std::string rest;
  std::getline(text >> std::ws, rest, '\0');
  return rest;
}

}  // namespace

RankSession::RankSession(JobStore& store, const RankEnvironment& ranks, milliseconds lease,
                         const std::atomic<bool>& user_stop)
    : store_(store),
      ranks_(ranks),
      lease_(lease),
      user_stop_(user_stop),
      root_(fmt::format("attest/{}/", ranks.job)),
      process_(random_digits()),
      host_(host_name()) {}

RankSession::~RankSession() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  try {
    if (is_first())
      leave_outcome();
    else if (!session_.empty())
      store_.add(prefix() + "left", 1);
  } catch (...) {  // the store is gone; the error that matters has been thrown
  }
}

std::string RankSession::prefix() const { return fmt::format("{}{}/", root_, session_); }

void RankSession::pause(milliseconds time) const {
  std::this_thread::sleep_for(time);
  if (user_stop_) throw Interrupted("interrupted");
}

void RankSession::open(const std::string& description) {
  session_ = process_;
  put_blob(store_, prefix() + "description", description);
  hellos_read_ = store_.add(root_ + "hellos_of_earlier_sessions", 0);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

std::optional<std::string> RankSession::join(milliseconds wait) {
  const Clock::time_point start = Clock::now();
  say_hello();
  for (;; pause(kWelcomePoll)) {
    if (const std::optional<std::string> session = store_.get(root_ + "welcome/" + process_)) {
      session_ = *session;
      break;
    }
    // Rank 0 may have ended before this rank came: it says so to all that it has not seen.
    std::istringstream ended(store_.get(root_ + "ended").value_or(""));
    std::string seen_ranks;
    if (ended >> seen_ranks && seen_ranks.find(fmt::format(",{},", ranks_.rank)) == std::string::npos) {
      control_ = rest_of(ended);
      store_.add(root_ + "late", 1);
      if (control_ == kComplete) return std::nullopt;
      stop_ = true;
      throw_reason();
    }
    if (since(start) > wait)
      throw OutputError(
          fmt::format("rank 0 has not answered within {} s through the store at {}:{}: is it running, with the "
                      "same command?",
                      wait.count() / 1000, ranks_.store_host, ranks_.store_port));
  }
  std::optional<std::string> description = get_blob(store_, prefix() + "description");
  if (!description) throw StoreLost("the store of the ranks lacks the description of their work");
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  return description;
}

void RankSession::run(const std::stop_token& stop) {
  try {
    for (std::unique_lock lock(mutex_); !stop.stop_requested();) {
      lock.unlock();
      tick();
      lock.lock();
      changed_.wait_for(lock, stop, kTick, [] { return false; });
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    stop_ = true;
  }
}

void RankSession::tick() {
  if (const Clock::time_point now = Clock::now();
      now - last_beat_ >= std::min(kMostBetweenBeats, lease_ / kBeatsInLease)) {
    store_.add(WorkQueue::beat_key(prefix(), process_), 1);
    last_beat_ = now;
    if (is_first())
      watch_members();
    else
      watch_first();
  }
  if (user_stop_) {
    end(fmt::format("stop {}", ranks_.rank));
    stop_ = true;
  }
  read_control();
  if (is_first()) read_hellos();
}

void RankSession::end(const std::string& control) { store_.replace(prefix() + "control", "", control); }

void RankSession::read_control() {
  const std::lock_guard lock(mutex_);
  if (!control_.empty()) return;
  control_ = store_.get(prefix() + "control").value_or("");
  if (!control_.empty() && control_ != kComplete) stop_ = true;
}

void RankSession::read_hellos() {
  const std::lock_guard only(hellos_mutex_);
  if (outcome_left_) return;  // who comes now finds that
  std::vector<std::int64_t> wanted = std::exchange(hellos_missing_, {});
  for (const std::int64_t count = store_.add(root_ + "hellos", 0); hellos_read_ < count; ++hellos_read_)
    wanted.push_back(hellos_read_);
  for (const std::int64_t number : wanted)
    if (const std::optional<std::string> hello = store_.get(fmt::format("{}hello/{}", root_, number)))
      welcome(*hello);
    else
      hellos_missing_.push_back(number);
}

void RankSession::welcome(const std::string& hello) {
  std::istringstream text(hello);
  Known known;
  std::string process;
  text >> known.member.rank >> process;
  known.member.host = rest_of(text);
  known.since = Clock::now();
  const std::string failure = store_.get(fmt::format("{}failed/{}", root_, process)).value_or("");
  if (!failure.empty()) end(failure);
  store_.set(root_ + "welcome/" + process, session_);
  const std::lock_guard lock(mutex_);
  members_[process] = known;
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
    Known& known = members_.at(process);
    if (std::exchange(known.beat, std::move(beat)) != known.beat) known.since = Clock::now();
  }
}

void RankSession::watch_first() {
  std::string beat = store_.get(WorkQueue::beat_key(prefix(), session_)).value_or("");
  if (first_since_ == Clock::time_point{} || beat != first_beat_) {
    first_beat_ = std::move(beat);
    first_since_ = Clock::now();
  } else if (since(first_since_) > kLeasesOfFirst * lease_) {
    const std::lock_guard lock(mutex_);
    if (control_.empty())
      throw StoreLost(
          fmt::format("rank 0 has not been heard of for {} s; finished layers are kept, the same command with "
                      "--resume goes on",
                      since(first_since_).count() / 1000));
  }
}

void RankSession::throw_reason() const {
  const std::lock_guard lock(mutex_);
  if (!stop_) return;
  if (error_) std::rethrow_exception(error_);
  std::istringstream text(control_);
  std::string word, kind;
  int rank = 0;
  text >> word >> rank;
  if (word != "failed") throw Interrupted("interrupted");
  text >> kind;
  const std::string sentence = rest_of(text);
  ErrorText{kind, is_first() ? fmt::format("rank {}: {}", rank, sentence)
                             : fmt::format("this rank ends because rank {} has failed", rank)}
      .rethrow();
}

void RankSession::throw_reason_unless_interrupted() const {
  try {
    throw_reason();
  } catch (const Interrupted&) {  // the caller says more
  }
}

void RankSession::complete() {
  end(kComplete);
  leave_outcome();
}

bool RankSession::is_complete() const {
  const std::lock_guard lock(mutex_);
  return control_ == kComplete;
}

void RankSession::fail() {
  const ErrorText error = ErrorText::of_current();
  try {
    fail(error.kind == "interrupted" ? fmt::format("stop {}", ranks_.rank)
                                     : fmt::format("failed {} {} {}", ranks_.rank, error.kind, error.sentence));
  } catch (const StoreLost&) {  // the others lose it, too
  }
}

void RankSession::fail(const std::string& control) {
  if (!session_.empty()) return end(control);
  if (is_first()) {  // nobody has been welcomed: leave_outcome() tells them
    session_ = process_;
    control_ = control;
    return;
  }
  // Before join(): rank 0 reads it with the hello.
  store_.set(fmt::format("{}failed/{}", root_, process_), control);
  say_hello();
}

void RankSession::say_hello() {
  const std::int64_t number = store_.add(root_ + "hellos", 1) - 1;
  store_.set(fmt::format("{}hello/{}", root_, number), fmt::format("{} {} {}", ranks_.rank, process_, host_));
}

void RankSession::leave_outcome() {
  if (session_.empty()) return;
  read_control();
  const std::lock_guard only(hellos_mutex_);
  if (std::exchange(outcome_left_, true)) return;
  std::string seen = ",";
  for (const Member& member : members()) seen += fmt::format("{},", member.rank);
  std::string outcome;
  {
    const std::lock_guard lock(mutex_);
    outcome = control_;
  }
  store_.set(root_ + "ended", fmt::format("{} {}", seen, outcome));
  const std::string read = root_ + "hellos_of_earlier_sessions";
  store_.add(read, hellos_read_ - store_.add(read, 0));
}

std::vector<RankSession::Member> RankSession::members() const {
  std::vector<Member> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [process, known] : members_) {
    all.push_back(known.member);
    all.back().silent = since(known.since);
  }
  std::ranges::sort(all, {}, &Member::rank);
  return all;
}

bool RankSession::all_have_left() {
  const std::vector<Member> known = members();
  const auto living = std::ranges::count_if(known, [&](const Member& one) { return one.silent < lease_; });
  return store_.add(prefix() + "left", 0) >= living;
}

void RankSession::wait_until_heard() noexcept {
  try {
    leave_outcome();
    // Those that wait for a welcome read the outcome, and are counted.
    const std::int64_t waiting = thread_.joinable() ? 0 : store_.add(root_ + "hellos", 0);
    for (const Clock::time_point start = Clock::now(); since(start) < kMostUntilHeard;) {
      if (store_.add(root_ + "late", 0) >= waiting && all_have_left()) return;
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
        std::cmp_less(store_.add(root_ + "late", 0), absent.size()) && since(start) < kWaitForAbsent;
    if (!wait_for_absent && all_have_left()) return;
    if (user_stop_ || stop_) return;
    if (absent.empty() || said || since(start) < milliseconds(1000)) continue;
    notice(fmt::format("{} of {} ranks have not come; rank 0 waits for them for {} s, since it has their store",
                       absent.size(), ranks_.world, kWaitForAbsent.count() / 1000));
    said = true;
  }
}

}  // namespace attest
