// Claims, takeovers and the log of finished units.
#include "analysis/ranks/work_queue.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

namespace attest {
namespace {

constexpr const char* kFree = "free";  // given back; a unit that nobody has owned yet has no value
constexpr const char* kAllFinished = "none";
constexpr std::string_view kDone = "done ";
constexpr std::size_t kMostOpen = 4096;  // of many, the first are named

/// A token is "RANK.PROCESS.CLAIM".
std::string process_of(const std::string& token) {
  const std::size_t begin = token.find('.'), end = token.rfind('.');
  return begin == std::string::npos || begin == end ? "" : token.substr(begin + 1, end - begin - 1);
}

std::vector<std::size_t> units_in(const std::string& open) {
  std::vector<std::size_t> units;
  const char *at = open.data(), *const end = at + open.size();
  while (at != end) {
    std::size_t unit = 0;
    const auto [stop, error] = std::from_chars(at, end, unit);
    if (error != std::errc{}) break;
    units.push_back(unit);
    at = stop == end ? end : stop + 1;
  }
  return units;
}

}  // namespace

WorkQueue::WorkQueue(JobStore& store, Options options)
    : store_(store), options_(std::move(options)), all_finished_(options_.units == 0), finished_(options_.units) {}

std::string WorkQueue::new_token() {
  const std::lock_guard lock(mutex_);
  return fmt::format("{}.{}.{}", options_.rank, options_.process, claims_++);
}

bool WorkQueue::own(std::size_t unit, const std::string& before, Claim& claim) {
  std::string token = new_token();
  if (!store_.replace(key("owner/", std::to_string(unit)), before, token)) return false;
  claim = {.state = State::claimed, .unit = unit, .token = std::move(token)};
  return true;
}

WorkQueue::Claim WorkQueue::next() {
  Claim claim;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (all_finished_) return {};
      if (handed_out_) break;
    }
    const std::int64_t number = store_.add(key("next"), 1) - 1;
    if (std::cmp_greater_equal(number, options_.units)) {
      const std::lock_guard lock(mutex_);
      handed_out_ = true;
      break;
    }
    // Another may have taken the unit over if this process was stopped between the two steps.
    if (own(static_cast<std::size_t>(number), "", claim)) return claim;
  }
  return take_over();
}

WorkQueue::Claim WorkQueue::take_over() {
  {
    const std::lock_guard lock(mutex_);
    const Clock::time_point now = options_.now();
    if (last_look_ != Clock::time_point{} && now - last_look_ < options_.poll) return {.state = State::wait};
    last_look_ = now;
  }
  const std::string open = store_.get(key("open")).value_or("");
  if (open == kAllFinished) {
    const std::lock_guard lock(mutex_);
    all_finished_ = true;
    return {};
  }
  Claim claim{.state = State::wait};
  for (const std::size_t unit : units_in(open)) {
    if (unit >= options_.units) continue;
    const std::string owner = store_.get(key("owner/", std::to_string(unit))).value_or("");
    if (owner.starts_with(kDone)) continue;
    const std::string process = process_of(owner);
    const bool lost = owner == kFree ||
                      (process.empty() ? unchanged_for_a_lease(fmt::format("unit {}", unit), owner)
                                       : process != options_.process &&
                                             unchanged_for_a_lease(
                                                 process, store_.get(beat_key(options_.prefix, process)).value_or("")));
    if (lost && own(unit, owner, claim)) return claim;
  }
  return claim;
}

bool WorkQueue::unchanged_for_a_lease(const std::string& what, const std::string& value) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = options_.now();
  const auto [seen, first] = seen_.try_emplace(what, Seen{value, now});
  if (!first && seen->second.value != value) seen->second = {value, now};
  return now - seen->second.since >= options_.lease;
}

bool WorkQueue::holds(std::size_t unit, const std::string& token) {
  return store_.get(key("owner/", std::to_string(unit))) == token;
}

bool WorkQueue::finish(std::size_t unit, const std::string& token) {
  // With the token, because only one may set the value.
  if (!store_.replace(key("owner/", std::to_string(unit)), token, std::string(kDone) + token)) return false;
  const std::int64_t number = store_.add(key("done"), 1) - 1;
  store_.set(key("log/", std::to_string(number)), fmt::format("{} {}", unit, token));
  return true;
}

void WorkQueue::give_back(std::size_t unit, const std::string& token) {
  store_.replace(key("owner/", std::to_string(unit)), token, kFree);
}

int WorkQueue::Finished::rank() const { return std::atoi(token.c_str()); }

void WorkQueue::add_finished(std::vector<Finished>& found, std::size_t unit, const std::string& token) {
  if (unit >= finished_.size() || finished_[unit]) return;
  finished_[unit] = true;
  ++num_finished_;
  found.push_back({unit, token});
}

std::vector<WorkQueue::Finished> WorkQueue::take_finished() {
  std::vector<std::int64_t> wanted = std::exchange(log_missing_, {});
  for (const std::int64_t count = store_.add(key("done"), 0); log_read_ < count; ++log_read_)
    wanted.push_back(log_read_);
  std::vector<Finished> found;
  for (const std::int64_t number : wanted) {
    std::istringstream entry(store_.get(key("log/", std::to_string(number))).value_or(""));
    std::size_t unit = 0;
    std::string token;
    if (entry >> unit >> token)
      add_finished(found, unit, token);
    else
      log_missing_.push_back(number);
  }
  if (open_.empty() || options_.now() - last_owner_check_ < options_.lease / 4) return found;
  // A rank may have died before it wrote its entry, or before it finished the unit: the owners of what is open tell.
  last_owner_check_ = options_.now();
  for (const std::size_t unit : units_in(open_)) {
    const std::string owner = store_.get(key("owner/", std::to_string(unit))).value_or("");
    if (owner.starts_with(kDone))
      add_finished(found, unit, owner.substr(kDone.size()));
    else if (options_.is_silent && options_.is_silent(process_of(owner)))
      give_back(unit, owner);
  }
  return found;
}

bool WorkQueue::publish_open() {
  std::string open;
  const bool all_finished = num_finished_ == finished_.size();
  if (all_finished) {
    open = kAllFinished;
  } else {
    if (open_.empty() && std::cmp_less(store_.add(key("next"), 0), options_.units)) return false;
    std::size_t named = 0;
    for (std::size_t unit = 0; unit < finished_.size() && named < kMostOpen; ++unit)
      if (!finished_[unit]) {
        open += fmt::format("{}{}", named == 0 ? "" : " ", unit);
        ++named;
      }
  }
  if (open != open_) store_.set(key("open"), open);
  open_ = std::move(open);
  return all_finished;
}

}  // namespace attest
