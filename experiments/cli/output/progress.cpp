// Progress bar and progress lines.
#include "experiments/cli/output/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cmath>
#include <iostream>

#include "dumps/base/printable.h"
#include "experiments/cli/process/line_prefix.h"

namespace attest {
namespace {

constexpr std::size_t kBarWidth = 30;
constexpr auto kBarInterval = std::chrono::milliseconds(100);
constexpr auto kLineInterval = std::chrono::seconds(10);
constexpr std::string_view kClearLine = "\r\033[K";

std::string duration_text(double seconds) {
  const auto whole = static_cast<long>(std::ceil(seconds));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

/// std::cerr lets no control sequence pass (printable_stream.h).
void write_terminal(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

std::string progress_text(std::size_t finished, std::size_t total, std::size_t done_here, double seconds,
                          const std::string& unit) {
  std::string text = fmt::format("{} of {} {}", finished, total, unit);
  if (done_here == 0 || seconds <= 0) return text;
  const double rate = static_cast<double>(done_here) / seconds;
  text += fmt::format(", {:.{}f} {}/s", rate, rate < 10 ? 2 : 0, unit);
  if (finished < total)
    return text + fmt::format(", {} left", duration_text(static_cast<double>(total - finished) / rate));
  return text + fmt::format(", {} in all", duration_text(seconds));
}

Progress::Progress(std::string unit, bool quiet, std::chrono::seconds silent)
    : unit_(std::move(unit)), quiet_(quiet), silent_(silent), terminal_(::isatty(STDERR_FILENO) == 1) {}

void Progress::end() {
  if (bar_shown_) std::cerr << std::endl;
  bar_shown_ = false;
}

void Progress::show(std::size_t finished, std::size_t total, std::size_t found_done) {
  if (quiet_) return;
  const Clock::time_point now = Clock::now();
  if (now - start_ < silent_) return;
  if (finished < total &&
      now - last_shown_ < (terminal_ ? Clock::duration(kBarInterval) : Clock::duration(kLineInterval)))
    return;
  last_shown_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  // Layers that another run finished may be counted before they are reported as finished.
  const std::size_t done_here = finished > found_done ? finished - found_done : 0;
  const std::string text = progress_text(finished, total, done_here, seconds, unit_);
  if (!terminal_) {
    std::cerr << text + "\n" << std::flush;
    return;
  }
  const std::size_t filled = total > 0 ? kBarWidth * finished / total : kBarWidth;
  write_terminal(fmt::format("{}[{:#<{}}{:.<{}}] {}", kClearLine, "", filled, "", kBarWidth - filled, text));
  bar_shown_ = true;
}

void Progress::notice(const std::string& line) {
  if (quiet_) return;
  if (bar_shown_) write_terminal(kClearLine);
  // The line is written in one piece, because ranks write to one terminal. It may have names from files.
  std::cerr << line_prefix() + printable(line) + "\n" << std::flush;
}

}  // namespace attest
