// run_gnuplot: spawns gnuplot and waits for it until the time limit.
#include "plots/gnuplot.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

extern char** environ;

namespace attest {
namespace {

using Clock = std::chrono::steady_clock;

void check(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

/// Both ends of a pipe. The destructor closes those that are still open.
struct Pipe {
  std::array<int, 2> ends{-1, -1};

  Pipe() { check(pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno, "cannot make a pipe"); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  void close_end(int end) {
    if (ends[end] >= 0) close(ends[end]);
    ends[end] = -1;
  }
};

constexpr const char* kPrepare = "cannot prepare a process";

struct SpawnActions {
  posix_spawn_file_actions_t actions;

  SpawnActions() { check(posix_spawn_file_actions_init(&actions), kPrepare); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions); }
};

/// A process that blocks no signals and ignores those that this one ignores, but for SIGPIPE: SIGXFSZ, SIGHUP under
/// nohup. Its own process group keeps a terminal's Ctrl-C from it: the message of this process would else be that
/// gnuplot failed.
struct SpawnAttributes {
  posix_spawnattr_t attributes;

  SpawnAttributes() {
    check(posix_spawnattr_init(&attributes), kPrepare);
    sigset_t signals;
    sigemptyset(&signals);
    check(posix_spawnattr_setsigmask(&attributes, &signals), kPrepare);
    // SIGXFSZ stays ignored: a picture at the limit is cut, and is_whole_picture() sees it.
    sigaddset(&signals, SIGPIPE);
    check(posix_spawnattr_setsigdefault(&attributes, &signals), kPrepare);
    check(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP),
          kPrepare);
  }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes); }
};

std::mutex running_mutex;
pid_t running = 0;  ///< the gnuplot that is running

/// Starts gnuplot. Returns its process id, or nothing if it is not installed.
std::optional<pid_t> spawn(const std::filesystem::path& folder, const std::string& script, const Gnuplot& command,
                           int error_descriptor) {
  const SpawnAttributes attributes;
  SpawnActions spawning;
  posix_spawn_file_actions_t* actions = &spawning.actions;
  check(posix_spawn_file_actions_addchdir_np(actions, folder.c_str()), kPrepare);
  check(posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0), kPrepare);
  check(posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0), kPrepare);
  check(posix_spawn_file_actions_adddup2(actions, error_descriptor, STDERR_FILENO), kPrepare);

  std::array<std::string, 5> words = {"gnuplot", "--default-settings", "-e", command.text(), script};
  std::array<char*, 6> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  pid_t process = 0;
  const std::lock_guard lock(running_mutex);
  const int error = posix_spawnp(&process, "gnuplot", actions, &attributes.attributes, arguments.data(), environ);
  if (error == ENOENT || error == EACCES || error == ENOTDIR) {  // of gnuplot, or of the folder
    const int entering = access(folder.c_str(), X_OK) == 0 ? 0 : errno;
    check(entering, ("cannot enter " + folder.string()).c_str());
    return std::nullopt;
  }
  check(error, "cannot start gnuplot");
  return running = process;
}

/// Reads until the writer closes the pipe (true) or the deadline passes (false).
bool read_until_closed(int descriptor, Clock::time_point deadline, std::string& text) {
  constexpr std::size_t kMaxText = 1 << 16;
  std::array<char, 4096> buffer;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};
    const int ready = poll(&waiting, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    if (text.size() < kMaxText) text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

/// Waits until the process has ended (true) or the deadline passes (false). It is still to be reaped.
bool ends_by(pid_t process, Clock::time_point deadline) {
  // A process that has closed its errors is about to end, mostly before the first look.
  for (auto pause = std::chrono::microseconds(100);; pause = std::min(2 * pause, std::chrono::microseconds(20'000))) {
    siginfo_t ended{};
    if (waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOWAIT | WNOHANG) == 0 && ended.si_pid == process)
      return true;
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
  }
}

int reap(pid_t process) {
  siginfo_t unused{};
  while (waitid(P_PID, static_cast<id_t>(process), &unused, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  const std::lock_guard lock(running_mutex);  // from here on its number may belong to another process
  running = 0;
  int status = 0;
  check(waitpid(process, &status, 0) == process ? 0 : errno, "cannot tell how gnuplot ended");
  return status;
}

/// Extracts the message of an error. gnuplot prints the line, a caret, and then `"x.gp" line 12: what is wrong`.
std::string error_message(const std::string& text) {
  std::string found;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    std::string line = text.substr(begin, end - begin);
    const std::size_t first = line.find_first_not_of(" \t^\r");
    if (first != std::string::npos) {
      line.erase(0, first);
      const std::size_t at = line.find(" line ");
      const bool names_line = line.front() == '"' && at != std::string::npos;
      if (names_line || found.empty()) found = names_line ? line.substr(at + 1) : line;
    }
    begin = end + 1;
  }
  return found.empty() ? "it printed no error" : found;
}

}  // namespace

GnuplotRun run_gnuplot(const std::filesystem::path& folder, const std::string& script, const Gnuplot& command,
                       std::chrono::milliseconds time_limit) {
  using Status = GnuplotRun::Status;
  Pipe errors;
  const std::optional<pid_t> process = spawn(folder, script, command, errors.ends[1]);
  if (!process) return {Status::not_installed, "gnuplot is not installed"};
  errors.close_end(1);

  std::string text;
  const Clock::time_point deadline = Clock::now() + time_limit;
  const bool in_time = read_until_closed(errors.ends[0], deadline, text) && ends_by(*process, deadline);
  if (!in_time) kill(-*process, SIGKILL);  // what it started belongs to its group
  const int status = reap(*process);
  if (!in_time)
    return {Status::failed, fmt::format("gnuplot was stopped after {:.3g} s on {}",
                                        std::chrono::duration<double>(time_limit).count(), script)};
  if (WIFSIGNALED(status))
    return {Status::failed, fmt::format("gnuplot was ended by signal {} on {}", WTERMSIG(status), script)};
  if (WEXITSTATUS(status) != 0)
    return {Status::failed, fmt::format("gnuplot could not draw {}: {}", script, error_message(text))};
  return {};
}

void end_gnuplot() {
  running_mutex.lock();  // for ever
  if (running > 0) kill(-running, SIGKILL);
}

}  // namespace attest
