// Files of processes, and hard links to them as locks.
#include "analysis/results/folder_member.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "dumps/base/atomic_file.h"
#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "dumps/base/printable.h"
#include "dumps/base/random_digits.h"

namespace attest {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr std::string_view kProcessPrefix = "process-";
constexpr std::string_view kLockPrefix = "lock-";
constexpr milliseconds kBeat{1000};
/// Between two looks at the file of the same process.
constexpr milliseconds kLook{200};
constexpr milliseconds kPoll{100};
/// How long others are looked for at the start.
constexpr std::chrono::seconds kSeeking{60};
constexpr std::size_t kHeartbeatDigits = 20;
constexpr std::size_t kMaxBytes = 4096;  // of a file of a process
constexpr std::size_t kMaxText = 256;    // of a text in it
constexpr int kMaxTries = 3;

std::string path_of(const std::string& folder, const std::string& token) {
  return fmt::format("{}/{}{}", folder, kProcessPrefix, token);
}

std::string heartbeat_text(std::uint64_t count) { return fmt::format("{:0{}}", count, kHeartbeatDigits); }

std::string content_of(const FolderProcess& process, std::uint64_t heartbeats) {
  const Json content{{"token", process.token},
                     {"host", process.identity.host},
                     {"machine", process.identity.machine},
                     {"process", process.identity.process},
                     {"started", process.identity.started}};
  return heartbeat_text(heartbeats) + "\n" + content.dump() + "\n";
}

bool is_token(std::string_view text) {
  return text.size() == kRandomDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Empty if there is no such file, or if it is not that of a process.
std::optional<FolderProcess> read_process(const std::string& path, const FolderMember::Reader& read) {
  const std::optional<std::string> text = read(path);
  if (!text || text->size() <= kHeartbeatDigits) return std::nullopt;
  const std::optional<Json> content = parsed_json(std::string_view(*text).substr(kHeartbeatDigits));
  if (!content) return std::nullopt;
  try {
    const auto word = [&](const char* key) { return content->at(key).text().substr(0, kMaxText); };
    const auto number = content->at("process").whole();
    if (!is_token(word("token")) || number < 1 || !std::in_range<pid_t>(number)) return std::nullopt;
    return FolderProcess{
        .token = word("token"),
        .identity = {word("host"), content->at("machine").text(), static_cast<pid_t>(number), word("started")},
        .heartbeat = text->substr(0, kHeartbeatDigits)};
  } catch (const JsonError&) {
    return std::nullopt;
  }
}

std::vector<FolderProcess> processes_in(const std::string& folder, const FolderMember::Reader& read) {
  std::vector<FolderProcess> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(kProcessPrefix)) continue;
    if (std::optional<FolderProcess> process = read_process(at->path().string(), read))
      found.push_back(std::move(*process));
  }
  return found;
}

/// Gives a lock of a dead process up. Another process may have done so, and may have locked again: its lock is put
/// back.
void remove_lock(const std::string& path, const std::string& token, const FolderMember::Reader& read) {
  const std::string aside = path + ".tmp-" + random_digits();
  if (std::rename(path.c_str(), aside.c_str()) != 0) return;
  const std::optional<FolderProcess> removed = read_process(aside, read);
  if (removed && removed->token != token) std::ignore = ::link(aside.c_str(), path.c_str());  // puts it back
  ::unlink(aside.c_str());
}

/// False once `stop` is requested.
bool pause(const std::stop_token& stop, milliseconds time) {
  std::mutex own;
  std::condition_variable_any never;
  std::unique_lock lock(own);
  never.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace

std::string FolderProcess::name() const {
  return fmt::format("process {} on '{}'", identity.process, printable(identity.host));
}

FolderProcess FolderProcess::this_process() {
  return {.token = random_digits(), .identity = ProcessIdentity::of_this_process(), .heartbeat = {}};
}

std::optional<std::string> FolderMember::read_text(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  std::string text(kMaxBytes, '\0');
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
  if (size < 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(size));
  return text;
}

FolderMember::FolderMember(const std::string& folder, milliseconds silence, Reader read)
    : folder_(folder),
      silence_(silence),
      read_(std::move(read)),
      self_(FolderProcess::this_process()),
      path_(path_of(folder, self_.token)) {
  cleanup_.emplace([this] { list_again(); }, [path = path_] { ::unlink(path.c_str()); });
  try {
    beating_ = std::jthread([this](const std::stop_token& stop) {
      while (pause(stop, std::min(kBeat, silence_ / 4))) write_heartbeat();
    });
    looking_ = std::jthread([this](const std::stop_token& stop) { look_for_another(stop); });
  } catch (...) {  // no thread can be started: the destructor does not run
    ::unlink(path_.c_str());
    throw;
  }
}

FolderMember::~FolderMember() {
  for (const std::string& name : std::exchange(held_, {})) ::unlink(lock_path(name).c_str());
  ::unlink(path_.c_str());
}

bool FolderMember::is_listed() const { return may_exist(path_); }

void FolderMember::list_again() {
  FileDescriptor file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file && errno == EEXIST) return;
  const std::lock_guard lock(mutex_);
  const std::string content = content_of(self_, heartbeats_);
  if (!file || ::pwrite(file.get(), content.data(), content.size(), 0) != static_cast<ssize_t>(content.size())) {
    const std::string reason = std::generic_category().message(errno);
    if (file) ::unlink(path_.c_str());
    throw OutputError(fmt::format("cannot write into '{}': {}", folder_, reason));
  }
  file_ = std::move(file);
  last_heartbeat_ = Clock::now();
}

void FolderMember::write_heartbeat() {
  const std::lock_guard lock(mutex_);
  const std::string text = heartbeat_text(++heartbeats_);
  if (::pwrite(file_.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()))
    last_heartbeat_ = Clock::now();
}

void FolderMember::look_for_another(const std::stop_token& stop) {
  const Clock::time_point end = Clock::now() + kSeeking;
  std::map<std::string, std::string> first_heartbeats;
  do {
    for (const FolderProcess& process : processes_in(folder_, read_)) {
      if (process.token == self_.token) continue;
      const auto [first, is_new] = first_heartbeats.emplace(process.token, process.heartbeat);
      if (process.identity.on_this_machine() ? process.identity.alive() : first->second != process.heartbeat)
        seen_another_ = true;
    }
  } while (!seen_another_ && Clock::now() < end && pause(stop, std::min(kBeat, silence_ / 4)));
}

std::string FolderMember::lock_path(const std::string& name) const {
  return fmt::format("{}/{}{}", folder_, kLockPrefix, name);
}

/// False if there is such a lock, or if the file of this process is gone.
bool FolderMember::make_lock(const std::string& path) {
  if (::link(path_.c_str(), path.c_str()) == 0) return true;
  const int error = errno;
  if (error == EEXIST || error == ENOENT) return false;
  if (error == EACCES || error == EROFS || error == ENOSPC || error == EDQUOT)
    throw OutputError(fmt::format("cannot write into '{}': {}", folder_, std::generic_category().message(error)));
  // Some file systems have no hard links: the lock is then a file of its own that says the same.
  try {
    write_atomically(path, content_of(self_, 0), {.overwrite = false, .sync = false});
    return true;
  } catch (const OutputError&) {
    if (may_exist(path)) return false;
    throw;
  }
}

bool FolderMember::is_dead(const std::string& path, const std::optional<FolderProcess>& process) {
  const Clock::time_point now = Clock::now();
  std::unique_lock lock(mutex_);
  if (process) watched_.erase(path);  // the lock can be read again
  const std::string& key = process ? process->token : path;
  {
    Watched& watched = watched_[key];
    if (watched.looked != Clock::time_point() && now - watched.looked < kLook) return watched.dead;
    watched.looked = now;
  }
  lock.unlock();
  std::string heartbeat = "unreadable";
  bool ended = false;
  if (process) {
    const std::string file = path_of(folder_, process->token);
    const std::optional<FolderProcess> current = read_process(file, read_);
    if (current) heartbeat = current->heartbeat;
    ended = (!current && !may_exist(file)) || (process->identity.on_this_machine() && !process->identity.alive());
  }
  lock.lock();
  Watched& watched = watched_[key];  // another thread may have erased it
  // From the end of this look to the beginning of the next: a look that takes long makes nobody dead.
  if (heartbeat != watched.heartbeat) watched.since = Clock::now();
  watched.heartbeat = std::move(heartbeat);
  watched.dead = ended || now - watched.since >= silence_;
  return watched.dead;
}

bool FolderMember::hold(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return held_.insert(name).second;
}

bool FolderMember::try_lock(const std::string& name) {
  const std::string path = lock_path(name);
  for (int tries = 0; tries < kMaxTries; ++tries) {
    if (make_lock(path)) return hold(name);
    const std::optional<FolderProcess> other = read_process(path, read_);
    // A network file system may have made the link although it says that there was one.
    if (other && other->token == self_.token) return hold(name);
    if (!may_exist(path)) continue;
    if (!is_dead(path, other)) return false;
    remove_lock(path, other ? other->token : "", read_);
  }
  return false;
}

void FolderMember::unlock(const std::string& name) noexcept {
  try {
    const std::string path = lock_path(name);
    std::unique_lock lock(mutex_);
    if (held_.erase(name) == 0) return;
    // After a silence another process may have taken the lock.
    const bool sure = Clock::now() - last_heartbeat_ < silence_ / 2;
    lock.unlock();
    const std::optional<FolderProcess> found = sure ? std::nullopt : read_process(path, read_);
    if (sure || (found && found->token == self_.token)) ::unlink(path.c_str());
  } catch (...) {  // no memory: the lock ends with this process
  }
}

std::optional<FolderProcess> FolderMember::holder(const std::string& name) const {
  return read_process(lock_path(name), read_);
}

void FolderMember::require_none(const std::string& folder, const std::atomic<bool>& stop, const Notice& notice,
                                milliseconds silence) {
  std::map<std::string, std::string> heartbeats;
  const Clock::time_point start = Clock::now();
  for (bool told = false;; std::this_thread::sleep_for(kPoll)) {
    bool unsure = false;
    for (const FolderProcess& process : processes_in(folder, read_text)) {
      const bool here = process.identity.on_this_machine();
      const auto [first, is_new] = heartbeats.emplace(process.token, process.heartbeat);
      if (here ? process.identity.alive() : first->second != process.heartbeat)
        throw OutputError(
            fmt::format("'{}' is in use: {} works on this study; --resume joins it", folder, process.name()));
      if (here) continue;
      unsure = true;
      if (!std::exchange(told, true))
        notice(fmt::format("{} had begun this study; waiting {:.3g} s to see that it has ended", process.name(),
                           std::chrono::duration<double>(silence).count()));
    }
    if (!unsure || Clock::now() - start >= silence) return;
    if (stop) throw Interrupted("interrupted");
  }
}

bool FolderMember::may_exist(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return file || (errno != ENOENT && errno != ENOTDIR);
}

bool FolderMember::is_file_name(std::string_view name) {
  return name.starts_with(kLockPrefix) ||
         (name.starts_with(kProcessPrefix) && is_token(name.substr(kProcessPrefix.size())));
}

}  // namespace attest
