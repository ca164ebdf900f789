// The note of the ranks that work in a folder.
#include "analysis/run/folder_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "dumps/base/error.h"
#include "dumps/base/json_text.h"
#include "dumps/base/printable.h"
#include "dumps/base/process_identity.h"
#include "dumps/base/random_digits.h"

namespace attest {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr const char* kNote = "ranks.json";
constexpr milliseconds kPoll{100};
constexpr milliseconds kMostLease{600000};
constexpr int kBeatsInLease = 4;
constexpr milliseconds kLeastBetweenBeats{10};

struct Noted {
  std::string token;
  ProcessIdentity process;
  milliseconds lease;
  std::int64_t beats = 0;
};

/// Empty if there is no note, or a damaged one: it was not written by rename, so not by attest.
std::optional<Noted> read_note(const PartialResults& partial) {
  const std::optional<std::string> text = partial.load_note(kNote);
  const std::optional<json> note = text ? parse_json(*text) : std::nullopt;
  if (!note) return std::nullopt;
  try {
    return Noted{.token = note->at("token"),
                 .process = {note->at("host"), note->at("machine"), note->at("process"), note->at("started")},
                 .lease = std::min(milliseconds(note->at("lease_ms").get<std::int64_t>()), kMostLease),
                 .beats = note->at("beats")};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

[[noreturn]] void refuse(const PartialResults& partial, const Noted& noted) {
  throw OutputError(fmt::format("'{}' is in use: ranks of another job work on the study, rank 0 is process {} on '{}'",
                                partial.folder(), noted.process.process, printable(noted.process.host)));
}

void wait_until_dead(const PartialResults& partial, const std::atomic<bool>& stop,
                     const FolderSession::Notice& notice) {
  const std::optional<Noted> first = read_note(partial);
  if (!first) return;
  if (first->process.on_this_machine()) {
    if (first->process.alive()) refuse(partial, *first);
    return;
  }
  const milliseconds wait = first->lease + first->lease / 2;
  notice(fmt::format("ranks on '{}' had begun this study; waiting {:.3g} s to see that they have ended",
                     printable(first->process.host), std::chrono::duration<double>(wait).count()));
  for (const Clock::time_point start = Clock::now(); Clock::now() - start < wait; std::this_thread::sleep_for(kPoll)) {
    const std::optional<Noted> now = read_note(partial);
    if (!now) return;
    if (now->token != first->token || now->beats != first->beats) refuse(partial, *now);
    if (stop) throw Interrupted("interrupted");
  }
}

}  // namespace

FolderSession::FolderSession(PartialResults& partial, milliseconds lease, const std::atomic<bool>& stop,
                             const Notice& notice)
    : partial_(partial), lease_(lease), token_(random_digits()) {
  wait_until_dead(partial_, stop, notice);
  write();
  thread_ = std::jthread([this](const std::stop_token& ended) { beat(ended); });
}

void FolderSession::end() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

FolderSession::~FolderSession() {
  end();
  if (sees(partial_.folder(), token_)) partial_.remove_note(kNote);
}

void FolderSession::write() {
  const ProcessIdentity self = ProcessIdentity::of_this_process();
  partial_.store_note(kNote, json{{"token", token_},
                                  {"host", self.host},
                                  {"machine", self.machine},
                                  {"process", self.process},
                                  {"started", self.started},
                                  {"lease_ms", lease_.count()},
                                  {"beats", beats_}}
                                 .dump());
  ++beats_;
}

void FolderSession::require_own() const {
  const std::optional<Noted> noted = read_note(partial_);
  if (!noted)
    throw OutputError(fmt::format("another command has removed the files of this study in '{}'", partial_.folder()));
  if (noted->token != token_) refuse(partial_, *noted);
}

void FolderSession::beat(const std::stop_token& stop) {
  try {
    for (std::unique_lock lock(mutex_);;) {
      changed_.wait_for(lock, stop, std::max(kLeastBetweenBeats, lease_ / kBeatsInLease), [] { return false; });
      if (stop.stop_requested()) return;
      lock.unlock();
      require_own();
      write();
      lock.lock();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
  }
}

void FolderSession::check() const {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

void FolderSession::require_none(const std::string& folder, const std::atomic<bool>& stop, const Notice& notice) {
  wait_until_dead(PartialResults(folder, PartialResults::Start::join, "{}"), stop, notice);
}

bool FolderSession::sees(const std::string& folder, const std::string& token) {
  const PartialResults partial(folder, PartialResults::Start::join, "{}");
  const std::optional<Noted> noted = read_note(partial);
  return noted && noted->token == token;
}

}  // namespace attest
