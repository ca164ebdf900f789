// InterruptFlag: signal handlers that set an atomic flag.
#include "experiments/cli/interrupt.h"

#include <csignal>
#include <initializer_list>

namespace attest {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // so that a signal handler may set it

extern "C" void on_signal(int signal) {
  interrupted = true;
  std::signal(signal, SIG_DFL);
}

}  // namespace

InterruptFlag::InterruptFlag() {
  interrupted = false;
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, on_signal);
}

InterruptFlag::~InterruptFlag() {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
}

const std::atomic<bool>& InterruptFlag::flag() const { return interrupted; }

}  // namespace attest
