// The thread that waits for signals, and InterruptFlag.
#include "experiments/cli/process/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <string>

#include "dumps/base/cleanup.h"
#include "experiments/cli/process/line_prefix.h"

namespace attest {
namespace {

constexpr int kInterruptedExitCode = 130;

std::atomic<bool> flag_wanted{false}, interrupted{false};
std::atomic<std::chrono::milliseconds> grace;  ///< from the first signal to the end of the process
std::atomic<bool> signalled{false};  ///< time that is over sets `interrupted` alone: the next signal is the first

struct LastWords {
  std::mutex mutex;
  std::string sentence = "interrupted";
};

/// They are never destroyed: the thread that ends the process may use them while main returns.
LastWords& last_words() {
  static LastWords& only = *new LastWords;
  return only;
}

[[noreturn]] void end_process() {
  run_cleanups();
  LastWords& words = last_words();
  const std::lock_guard lock(words.mutex);
  const std::string said = flag_wanted ? words.sentence : "interrupted";
  const std::string line = (::isatty(STDERR_FILENO) == 1 ? "\n" : "") + line_prefix() + "attest: " + said + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(kInterruptedExitCode);
}

void* wait_for_signals(void*) {
  sigset_t awaited;
  pthread_sigmask(SIG_BLOCK, nullptr, &awaited);
  for (;;) {
    int signal = 0;
    if (sigwait(&awaited, &signal) != 0) continue;
    if (!flag_wanted || signalled.exchange(true)) end_process();
    interrupted = true;
    const auto [seconds, rest] = std::lldiv(grace.load().count(), 1000);
    const timespec time{.tv_sec = seconds, .tv_nsec = rest * 1'000'000};
    const int second = sigtimedwait(&awaited, nullptr, &time);
    if (second > 0 || flag_wanted) end_process();
  }
}

bool ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

void end_on_signals() {
  sigset_t awaited;
  sigemptyset(&awaited);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&awaited, signal);
  if (!ignored(SIGHUP)) sigaddset(&awaited, SIGHUP);  // nohup ignores it
  pthread_sigmask(SIG_BLOCK, &awaited, nullptr);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, std::size_t{256} << 10);
  pthread_t thread{};
  // Where the thread cannot be started, the signals end the process as they do by default.
  if (pthread_create(&thread, &attributes, wait_for_signals, nullptr) != 0)
    pthread_sigmask(SIG_UNBLOCK, &awaited, nullptr);
  pthread_attr_destroy(&attributes);
}

InterruptFlag::InterruptFlag(std::chrono::milliseconds time) {
  grace = time;
  signalled = interrupted = false;
  set_last_words("interrupted");
  flag_wanted = true;
}

InterruptFlag::~InterruptFlag() { flag_wanted = false; }

void InterruptFlag::set_last_words(const std::string& sentence) {
  LastWords& words = last_words();
  const std::lock_guard lock(words.mutex);
  words.sentence = sentence;
}

void InterruptFlag::set_after(std::chrono::milliseconds time) {
  timer_ = std::jthread([this, time](const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any().wait_for(lock, stop, time, [] { return false; });
    if (stop.stop_requested()) return;
    time_is_over_ = true;
    interrupted = true;
  });
}

const std::atomic<bool>& InterruptFlag::flag() const { return interrupted; }

}  // namespace attest
