// Starts and watches the processes: one reads, one makes HDF5 files.
#include "tests/fuzz/fuzz_driver.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "tests/fuzz/driver_work.h"
#include "tests/fuzz/loop_limit.h"

namespace attest::fuzz {
namespace {

/// Inputs on which HDF5 crashes or loops are read again in a child: the first crashes and then one of some; of the
/// loops, each of which takes seconds, one of many.
constexpr std::uint64_t kCrashesAgain = 20, kOneCrashOf = 10, kOneLoopOf = 100;

constexpr std::string_view kNoEnd = "no end after", kCrash = "a crash";

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double seconds_of_children() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double processor_seconds(pid_t process) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

template <class Work>
pid_t start(const TargetInfo& target, Shared& shared, Work&& work) {
  std::fflush(nullptr);
  const pid_t process = fork();
  if (process < 0) throw std::runtime_error("cannot fork");
  if (process > 0) return process;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{};
  setrlimit(RLIMIT_CORE, &no_core);
  int code = 1;
  try {
    code = work();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: the input %llu could not be made: %s\n", target.name,
                 static_cast<unsigned long long>(shared.making.load()), error.what());
  }
  std::exit(code);  // removes the reader's folder of temporary files only if `work` has returned
}

/// Which process, and since when it is busy with one input.
struct Watched {
  pid_t process;
  std::uint64_t input = kNoMore;
  Clock::time_point since = {};
  double used_before = 0;

  /// A loop uses the processor; what waits for ever does not, nor does a process on a busy machine.
  bool too_long(std::uint64_t in_work, const DriverOptions& options) {
    constexpr double kWaiting = 6;
    if (input != in_work) {
      input = in_work;
      since = Clock::now();
      used_before = processor_seconds(process);
    }
    return processor_seconds(process) - used_before > options.max_seconds ||
           seconds_since(since) > kWaiting * options.max_seconds;
  }
};

void end(pid_t process) {
  int status = 0;
  kill(process, SIGKILL);
  waitpid(process, &status, 0);
}

/// Looks at the process that makes inputs, and starts another in the place of one that ended.
void watch_maker(const TargetInfo& target, FuzzTarget& made_by, const DriverOptions& options, Shared& shared,
                 Watched& maker) {
  int status = 0;
  if (maker.process < 0) return;
  if (waitpid(maker.process, &status, WNOHANG) == 0) {
    int waiting = 0;
    sem_getvalue(&shared.taken, &waiting);
    if (waiting == 0 || !maker.too_long(shared.making, options)) return;  // it may wait for the one that reads
    end(maker.process);
    status = SIGKILL;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kUsedUp) {
    maker.process = -1;
    return;
  }
  if (!(WIFEXITED(status) && WEXITSTATUS(status) == kBatchDone)) {
    ++shared.report.unmade;
    shared.making += options.variants;
  }
  maker = {.process = start(target, shared, [&] { return make_files(target, made_by, options, shared); })};
}

/// Blocks until a process ends, for a short time.
void wait_for_end() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGCHLD);
  const timespec maximum{.tv_sec = 0, .tv_nsec = 5'000'000};
  sigtimedwait(&ends, nullptr, &maximum);
}

/// Waits for the process that reads. Empty if it has used up its inputs or a batch; else what happened. `look` looks at
/// the other one.
template <class Look>
std::optional<std::string> watch(const TargetInfo& target, const DriverOptions& options, Shared& shared, pid_t process,
                                 bool& used_up, Look&& look) {
  Watched reader{.process = process};
  for (int status = 0;;) {
    const pid_t ended = waitpid(process, &status, WNOHANG);
    if (ended == process && WIFEXITED(status)) {
      const int code = WEXITSTATUS(status);
      used_up = code == kUsedUp;
      if (code == kUsedUp || code == kBatchDone) return std::nullopt;
      if (code == kLooping) return fmt::format("{} {} s", kNoEnd, kLoopSeconds);
      return code == kFailed ? shared.failure : fmt::format("the process ended with {}", code);
    }
    if (ended == process) return fmt::format("{}: {}", kCrash, strsignal(WTERMSIG(status)));
    look();
    if (shared.stage == Stage::making && target.is_hdf5()) {
      reader.input = kNoMore;
    } else if (reader.too_long(shared.begun, options)) {
      end(process);
      return fmt::format("{} {} s", kNoEnd, options.max_seconds);
    }
    wait_for_end();
  }
}

/// Writes the input that failed. Returns how it is read again, or that it could not be written and how it is made.
std::string keep_input(const TargetInfo& target, const DriverOptions& options, Shared& shared) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // of a folder that cannot be made: then the file cannot be written
  const fs::path folder = options.failures.empty() ? fs::temp_directory_path(ignored) : fs::path(options.failures);
  fs::create_directories(folder, ignored);
  const fs::path path =
      folder / fmt::format("attest-fuzz-{}-{}-{}{}", target.name, options.seed, shared.input.number, target.extension);
  std::ofstream file(path, std::ios::binary);
  file.write(shared.input.bytes, static_cast<std::streamsize>(shared.input.size));
  file.close();
  if (file) return fmt::format("again: fuzz_readers --reader {} --file {}", target.name, path.string());
  return fmt::format("not kept: {} cannot be written; again: fuzz_readers --reader {} --seed {} --first {} --runs 1",
                     path.string(), target.name, options.seed, shared.input.number);
}

/// The processes of one run.
class Run {
 public:
  Run(const TargetInfo& target, const DriverOptions& options)
      : target_(target), options_(options), own_(target.is_hdf5() ? target.make() : nullptr) {
    shared().making = first_of(options.first);
    shared().next = options.first;
    shared().base.number = kNoMore;
    if (options.seconds > 0)
      last_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds));
    else
      last_ = Clock::time_point::max();
    if (own_) maker_.process = start(target, shared(), [&] { return make_files(target, *own_, options, shared()); });
  }
  ~Run() {
    if (maker_.process > 0) end(maker_.process);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  DriverReport drive() {
    const double used_before = seconds_of_children();
    for (bool used_up = false; !used_up && report().failed < kMaxFailures && !too_few_made();) {
      std::optional<std::string> failure = read(used_up);
      if (failure && target_.is_hdf5() && !options_.guarded) failure = once_more(*failure);
      if (failure) note(*failure);
    }
    if (maker_.process > 0) end(std::exchange(maker_.process, -1));
    report().seconds = seconds_since(begin_);
    report().processor_seconds = seconds_of_children() - used_before;
    return report();
  }

 private:
  Shared& shared() { return *pages_; }
  DriverReport& report() { return shared().report; }
  std::uint64_t first_of(std::uint64_t number) const { return number - number % options_.variants; }
  bool too_few_made() { return report().unmade > kMaxFailures + shared().next / 100; }

  std::optional<std::string> read(bool& used_up) {
    const pid_t process = start(target_, shared(), [&] {
      const std::unique_ptr<FuzzTarget> made = own_ ? nullptr : target_.make();
      return read_inputs(target_, own_ ? *own_ : *made, options_, shared(), last_);
    });
    return watch(target_, options_, shared(), process, used_up, [&] {
      if (own_) watch_maker(target_, *own_, options_, shared(), maker_);
    });
  }

  /// HDF5 ended the process, perhaps: what a guarded child says is what counts.
  std::optional<std::string> once_more(const std::string& failure) {
    const bool loops = failure.starts_with(kNoEnd);
    if (loops) {
      const std::uint64_t number = shared().input.number;
      if (number == shared().base.number) shared().next = number + options_.variants;  // the others are like it
      if (++report().loops % kOneLoopOf != 0) return std::nullopt;
    } else if (failure.starts_with(kCrash)) {
      if (++report().crashes > kCrashesAgain && report().crashes % kOneCrashOf != 0) return std::nullopt;
    }
    ++report().again;
    const double used_before = seconds_of_children();
    bool ignored = false;
    const pid_t process = start(target_, shared(), [&] { return read_again(target_, *own_, options_, shared()); });
    std::optional<std::string> found = watch(target_, options_, shared(), process, ignored, [] {});
    report().again_seconds += seconds_of_children() - used_before;
    return found;
  }

  void note(const std::string& failure) {
    if (shared().stage == Stage::making) {
      ++report().unmade;
      ++shared().next;
      return;
    }
    ++report().failed;
    std::printf("%s: input %llu: %s\n  %s\n", target_.name, static_cast<unsigned long long>(shared().input.number),
                failure.c_str(), keep_input(target_, options_, shared()).c_str());
  }

  const TargetInfo& target_;
  const DriverOptions& options_;
  /// Of HDF5 files: its seeds are made once for all processes.
  const std::unique_ptr<FuzzTarget> own_;
  const SharedPages pages_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
  Watched maker_{.process = -1};
};

}  // namespace

DriverReport drive(const TargetInfo& target, const DriverOptions& options) {
  sigset_t ends, before;  // else no process waits for it
  sigemptyset(&ends);
  sigaddset(&ends, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ends, &before);
  const DriverReport report = Run(target, options).drive();
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return report;
}

void replay(const TargetInfo& target, const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw InputError(path + ": cannot be opened");
  const std::string input{std::istreambuf_iterator<char>(stream), {}};
  const Outcome outcome = target.make()->read(input);
  std::printf("%s: %s\n", path.c_str(), outcome == Outcome::accepted ? "accepted" : "refused");
}

}  // namespace attest::fuzz
