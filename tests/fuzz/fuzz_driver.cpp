// The worker is a forked process; it and the process that watches it share the number of the input, its bytes and the
// counts.
#include "tests/fuzz/fuzz_driver.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

namespace attest::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostBytes = std::size_t{64} << 20;  // of one input
constexpr int kFailedExit = 3;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

enum class Stage : int { making, reading };

/// Shared by both processes. The input's bytes follow.
struct Shared {
  std::atomic<std::uint64_t> number;  ///< of the input in work
  std::atomic<std::uint64_t> begun;   ///< counts inputs that are being read, for the watch
  std::atomic<Stage> stage;
  std::size_t input_bytes;
  DriverReport report;
  char failure[4096];

  char* input() { return reinterpret_cast<char*>(this + 1); }
};

class SharedPages {
 public:
  SharedPages() {
    void* pages = mmap(nullptr, sizeof(Shared) + kMostBytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) throw std::runtime_error("no shared memory");
    shared_ = new (pages) Shared{};
  }
  ~SharedPages() { munmap(shared_, sizeof(Shared) + kMostBytes); }
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;
  Shared& operator*() const { return *shared_; }

 private:
  Shared* shared_;
};

long peak_kib(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return usage.ru_maxrss;
}

RandomStream stream_of(const TargetInfo& target, std::uint64_t seed, std::uint64_t number) {
  std::uint64_t name = 0;
  for (const char c : std::string_view(target.name)) name = name * 257 + static_cast<unsigned char>(c);
  return RandomStream(random_key({seed, name, number}));
}

/// Runs in the worker until the inputs or the time are used up, or until a failure, which it describes.
int work(const TargetInfo& target, const DriverOptions& options, Shared& shared, Clock::time_point end) {
  const std::unique_ptr<FuzzTarget> reader = target.make();
  const std::uint64_t stop = options.runs > 0 ? options.first + options.runs : ~std::uint64_t{0};
  DriverReport& report = shared.report;
  for (std::uint64_t number = shared.number; number < stop && Clock::now() < end; shared.number = ++number) {
    shared.stage = Stage::making;
    RandomStream random = stream_of(target, options.seed, number);
    const std::string input = reader->make(random);
    if (input.size() > kMostBytes) throw std::logic_error("an input of more than 64 MiB");
    std::memcpy(shared.input(), input.data(), input.size());
    shared.input_bytes = input.size();
    shared.stage = Stage::reading;
    ++shared.begun;
    const Clock::time_point begin = Clock::now();
    Outcome outcome{};
    try {
      outcome = reader->read(input);
    } catch (const std::exception& error) {
      std::snprintf(shared.failure, sizeof shared.failure, "%s",
                    printable(std::string_view(error.what()).substr(0, 500)).c_str());
      return kFailedExit;
    }
    if (const double seconds = seconds_since(begin); seconds > report.worst_seconds) {
      report.worst_seconds = seconds;
      report.worst_input = number;
    }
    const long own = peak_kib(RUSAGE_SELF), children = peak_kib(RUSAGE_CHILDREN);
    report.peak_kib = std::max(report.peak_kib, own);
    report.peak_child_kib = std::max(report.peak_child_kib, children);
    if (static_cast<double>(std::max(own, children)) > options.most_gib * 1024 * 1024) {
      std::snprintf(shared.failure, sizeof shared.failure, "the process took %ld MiB of memory, its children %ld",
                    own / 1024, children / 1024);
      return kFailedExit;
    }
    ++(outcome == Outcome::accepted ? report.accepted : report.refused);
  }
  return 0;
}

double processor_seconds(pid_t process) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Waits for the worker. Empty if it has used up its inputs; else what happened.
std::optional<std::string> watch(pid_t worker, const DriverOptions& options, Shared& shared) {
  std::uint64_t begun = shared.begun;
  Clock::time_point since = Clock::now();
  double used_before = 0;
  for (int status = 0;;) {
    const pid_t ended = waitpid(worker, &status, WNOHANG);
    if (ended == worker && WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::nullopt;
    if (ended == worker && WIFEXITED(status) && WEXITSTATUS(status) == kFailedExit) return shared.failure;
    if (ended == worker && WIFSIGNALED(status)) return fmt::format("a crash: {}", strsignal(WTERMSIG(status)));
    if (ended != 0) return fmt::format("the process ended with {}", WEXITSTATUS(status));
    if (begun != shared.begun) {
      begun = shared.begun;
      since = Clock::now();
      used_before = processor_seconds(worker);
    }
    // A loop uses the processor; what waits for ever does not, nor does a process on a busy machine.
    constexpr double kWaiting = 6;
    if (processor_seconds(worker) - used_before > options.most_seconds ||
        seconds_since(since) > kWaiting * options.most_seconds) {
      kill(worker, SIGKILL);
      waitpid(worker, &status, 0);
      return fmt::format("no end after {} s", options.most_seconds);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::string keep_input(const TargetInfo& target, const DriverOptions& options, Shared& shared) {
  namespace fs = std::filesystem;
  const fs::path folder = options.failures.empty() ? fs::temp_directory_path() : fs::path(options.failures);
  fs::create_directories(folder);
  const fs::path path =
      folder / fmt::format("attest-fuzz-{}-{}-{}{}", target.name, options.seed, shared.number.load(), target.extension);
  std::ofstream(path, std::ios::binary).write(shared.input(), static_cast<std::streamsize>(shared.input_bytes));
  return path.string();
}

[[noreturn]] void run_worker(const TargetInfo& target, const DriverOptions& options, Shared& shared,
                             Clock::time_point end) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{};
  setrlimit(RLIMIT_CORE, &no_core);
  int code = 1;
  try {
    code = work(target, options, shared, end);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: the input %llu could not be made: %s\n", target.name,
                 static_cast<unsigned long long>(shared.number.load()), error.what());
  }
  std::exit(code);  // removes the reader's folder of temporary files only if `work` has returned
}

}  // namespace

std::string make_input(const TargetInfo& target, std::uint64_t seed, std::uint64_t number) {
  RandomStream random = stream_of(target, seed, number);
  return target.make()->make(random);
}

DriverReport drive(const TargetInfo& target, const DriverOptions& options) {
  const SharedPages pages;
  Shared& shared = *pages;
  shared.number = options.first;
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end =
      options.seconds > 0
          ? begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds))
          : Clock::time_point::max();
  while (shared.report.failed < kMostFailures) {
    std::fflush(nullptr);
    const pid_t worker = fork();
    if (worker < 0) throw std::runtime_error("cannot fork");
    if (worker == 0) run_worker(target, options, shared, end);
    const std::optional<std::string> failure = watch(worker, options, shared);
    if (!failure) break;
    if (shared.stage == Stage::making) {
      ++shared.report.unmade;
      if (shared.report.unmade > kMostFailures + shared.number / 100) break;
    } else {
      ++shared.report.failed;
      std::printf("%s: input %llu: %s\n  again: fuzz_readers --reader %s --file %s\n", target.name,
                  static_cast<unsigned long long>(shared.number.load()), failure->c_str(), target.name,
                  keep_input(target, options, shared).c_str());
    }
    ++shared.number;
  }
  shared.report.seconds = seconds_since(begin);
  return shared.report;
}

int replay(const TargetInfo& target, const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw InputError(path + ": cannot be opened");
  const std::string input{std::istreambuf_iterator<char>(stream), {}};
  const Outcome outcome = target.make()->read(input);
  std::printf("%s: %s\n", path.c_str(), outcome == Outcome::accepted ? "accepted" : "refused");
  return 0;
}

}  // namespace attest::fuzz
