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

constexpr milliseconds kTick{50};  // how late a rank hears that another ends
constexpr milliseconds kMostBetweenBeats{1000};
constexpr int kBeatsInLease = 4;
constexpr int kLeasesOfFirst = 3;  // rank 0 may be silent for so many
constexpr int kPausesInWait = 10;
constexpr int kTurnsBetweenLooks = 10;  // at rank 0, by ranks that wait: there may be many, and for long
/// How long a rank waits for the next rank 0 before it takes the outcome of an earlier one for that of its own job.
constexpr milliseconds kNextAfterComplete{2000}, kNextAfterFailure{10000};
constexpr const char* kFirst = "first";  // key of rank 0's process

}  // namespace

std::string RankSession::rest_of(std::istringstream& text) {
  std::string rest;
  std::getline(text >> std::ws, rest, '\0');
  return rest;
}

RankSession::RankSession(JobStore& store, const RankEnvironment& ranks, milliseconds lease,
                         const std::atomic<bool>& user_stop)
    : store_(store),
      ranks_(ranks),
      lease_(lease),
      user_stop_(user_stop),
      root_(fmt::format("attest/{}/", ranks.job)),
      process_(random_digits()),
      host_(host_name()),
      session_(is_first() ? process_ : "") {
  if (!is_first()) return;
  store_.set(root_ + kFirst, process_);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

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

milliseconds RankSession::between_beats() const { return std::min(kMostBetweenBeats, lease_ / kBeatsInLease); }

std::string RankSession::key(const std::string& first, const std::string& name) const {
  return fmt::format("{}{}/{}", root_, first, name);
}

std::string RankSession::prefix() const { return key(session_, ""); }

void RankSession::pause(milliseconds time) const {
  std::this_thread::sleep_for(time);
  if (user_stop_) throw Interrupted("interrupted");
}

void RankSession::open(const std::string& description) {
  put_blob(store_, prefix() + "description", description);
  opened_ = true;
}

std::optional<std::string> RankSession::outcome_for_late(const std::string& first, Clock::time_point said) {
  std::istringstream ended(store_.get(key(first, "ended")).value_or(""));
  std::string seen_ranks;
  if (!(ended >> seen_ranks) || seen_ranks.find(fmt::format(",{},", ranks_.rank)) != std::string::npos)
    return std::nullopt;
  std::string outcome = rest_of(ended);
  // In a store that is there before rank 0 it may be that of an earlier attempt, and the next is still to come.
  const milliseconds next = outcome == kComplete ? kNextAfterComplete : kNextAfterFailure;
  if (ranks_.store_is_there && since(said) < next) return std::nullopt;
  return outcome;
}

std::optional<std::string> RankSession::join(milliseconds wait) {
  Clock::time_point said{};  // hello, to `first`
  std::string first;
  Silence silence(wait / kPausesInWait);
  for (int turn = 0;; ++turn, pause(kWelcomePoll)) {
    if (!first.empty()) {
      if (store_.get(key(first, "welcome/" + process_))) break;
      if (turn % kTurnsBetweenLooks != 0) continue;
    }
    if (std::string now = store_.get(root_ + kFirst).value_or(""); !now.empty() && now != first) {
      first = std::move(now);
      say_hello(first);
      said = Clock::now();
    }
    // Rank 0 beats before it describes the work, which may take it long.
    silence.look(first.empty() ? "" : store_.get(WorkQueue::beat_key(key(first, ""), first)).value_or(""));
    if (silence.time() > wait)
      throw OutputError(
          fmt::format("rank 0 has not answered within {} s through the store at {}:{}: is it running, with the "
                      "same command?",
                      wait.count() / 1000, ranks_.store_host, ranks_.store_port));
    if (first.empty()) continue;
    std::optional<std::string> outcome = outcome_for_late(first, said);
    if (!outcome) continue;
    store_.add(key(first, "late"), 1);
    if (*outcome == kComplete) return std::nullopt;
    {
      const std::lock_guard lock(mutex_);
      control_ = *std::move(outcome);
    }
    stop_ = true;
    throw_reason();
  }
  session_ = first;
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
  if (const Clock::time_point now = Clock::now(); now - last_beat_ >= between_beats()) {
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
  if (opened_) read_hellos();
}

void RankSession::end(const std::string& control) { store_.replace(prefix() + "control", "", control); }

void RankSession::read_control() {
  const std::lock_guard lock(mutex_);
  if (!control_.empty()) return;
  control_ = store_.get(prefix() + "control").value_or("");
  if (!control_.empty() && control_ != kComplete) stop_ = true;
}

void RankSession::watch_first() {
  first_.look(store_.get(WorkQueue::beat_key(prefix(), session_)).value_or(""));
  if (first_.time() <= kLeasesOfFirst * lease_) return;
  const std::lock_guard lock(mutex_);
  if (control_.empty())
    throw StoreLost(
        fmt::format("rank 0 has not been heard of for {} s; finished layers are kept, the same command with --resume "
                    "goes on",
                    first_.time().count() / 1000));
}

void RankSession::throw_own_error() const {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
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
  if (is_first() && !opened_) {  // nobody has been welcomed: leave_outcome() tells them
    const std::lock_guard lock(mutex_);
    control_ = control;
  } else if (session_.empty()) {
    fail_before_join(control);
  } else {
    end(control);
  }
}

/// Rank 0 reads it with the hello. One that is still to announce itself is waited for, for a short time.
void RankSession::fail_before_join(const std::string& control) {
  std::string told;
  for (const Clock::time_point start = Clock::now(); since(start) < kMostUntilHeard;
       std::this_thread::sleep_for(kWelcomePoll)) {
    const std::string first = store_.get(root_ + kFirst).value_or("");
    if (!first.empty() && first != told) {
      store_.set(key(first, "failed/" + process_), control);
      say_hello(first);
      told = first;
    }
    if (told.empty()) continue;
    if (store_.get(key(told, "welcome/" + process_))) return;
    if (!ranks_.store_is_there && store_.get(key(told, "ended"))) return;
  }
}

void RankSession::say_hello(const std::string& first) {
  const std::int64_t number = store_.add(key(first, "hellos"), 1) - 1;
  store_.set(key(first, fmt::format("hello/{}", number)), fmt::format("{} {} {}", ranks_.rank, process_, host_));
}

}  // namespace attest
