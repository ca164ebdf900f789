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

}  // namespace attest
