// The processes: one reads, one makes HDF5 files, one watches both. They share the number of the input, its bytes and
// the counts.
#include "tests/fuzz/fuzz_driver.h"

#include <semaphore.h>
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

#include "dumps/hdf5/guarded_child.h"
#include "tests/fuzz/byte_mutation.h"

namespace attest::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostBytes = std::size_t{64} << 20;  // of one input
/// Inputs of a process that calls HDF5, which leaks on damaged files.
constexpr std::uint64_t kBatch = 10'000;
constexpr std::uint64_t kNoMore = ~std::uint64_t{0};
constexpr std::uint64_t kVariants = 16;  // of one file that HDF5 made
/// Of the processor, in which the worker reads any HDF5 file on which HDF5 does not loop. The child's limit is longer.
constexpr double kLoopSeconds = 0.25;
/// So many loops, and then some of them, are read again in a child.
constexpr std::uint64_t kLoopsReadAgain = 10, kOneLoopOf = 50;

constexpr std::string_view kNoEnd = "no end after";

enum ExitCode : int { kUsedUp = 0, kBatchDone = 2, kFailed = 3 };

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

enum class Stage : int { making, reading };

struct Input {
  std::uint64_t number;
  std::size_t size;
  char bytes[kMostBytes];

  void set(std::uint64_t its_number, std::string_view content) {
    if (content.size() > kMostBytes) throw std::logic_error("an input of more than 64 MiB");
    number = its_number;
    size = content.size();
    std::memcpy(bytes, content.data(), size);
  }
  std::string_view view() const { return {bytes, size}; }
};

/// Shared by all.
struct Shared {
  std::atomic<std::uint64_t> making;   ///< number of the input that is being made
  std::atomic<std::uint64_t> begun;    ///< counts inputs that are being read, for the watch
  std::atomic<Stage> stage;            ///< of the reading process
  std::uint64_t next;                  ///< to be read
  std::atomic<std::uint64_t> looping;  ///< HDF5 loops on this input, and so on its other variants
  sem_t made, taken;                   ///< of `handed`
  DriverReport report;
  char failure[4096];
  Input input, handed;
};

class SharedPages {
 public:
  SharedPages() {
    void* pages =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) throw std::runtime_error("no shared memory");
    shared_ = static_cast<Shared*>(pages);  // zeros are what its members begin with
    if (sem_init(&shared_->made, 1, 0) != 0 || sem_init(&shared_->taken, 1, 1) != 0)
      throw std::runtime_error("no semaphores");
  }
  ~SharedPages() { munmap(shared_, sizeof(Shared)); }
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

double seconds_of_children() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

RandomStream stream_of(const TargetInfo& target, std::uint64_t seed, std::uint64_t number) {
  std::uint64_t name = 0;
  for (const char c : std::string_view(target.name)) name = name * 257 + static_cast<unsigned char>(c);
  return RandomStream(random_key({seed, name, number}));
}

std::uint64_t end_of(const DriverOptions& options) { return options.runs > 0 ? options.first + options.runs : kNoMore; }

/// The inputs of a target. HDF5 makes one file of kVariants; the others are that file with other bytes.
class Maker {
 public:
  Maker(const TargetInfo& target, std::uint64_t seed) : target_(target), seed_(seed), maker_(target.make()) {}

  std::string make(std::uint64_t number) {
    const std::uint64_t first = target_.is_hdf5() ? number - number % kVariants : number;
    if (first != first_) {
      first_ = kNoMore;  // if it fails
      RandomStream random = stream_of(target_, seed_, first);
      base_ = maker_->make(random);
      first_ = first;
    }
    std::string input = base_;
    RandomStream random = stream_of(target_, seed_, number);
    if (number != first) damage_bytes(input, random);
    return input;
  }

 private:
  const TargetInfo& target_;
  const std::uint64_t seed_;
  const std::unique_ptr<FuzzTarget> maker_;
  std::uint64_t first_ = kNoMore;
  std::string base_;
};

/// Makes inputs until they are used up, or a batch of them.
int make_inputs(const TargetInfo& target, const DriverOptions& options, Shared& shared) {
  Maker maker(target, options.seed);
  const std::uint64_t first = shared.making, end = end_of(options);
  for (std::uint64_t number = first; number < end; shared.making = ++number) {
    if (number - first == kBatch) return kBatchDone;
    if (number % kVariants != 0 && number / kVariants == shared.looping / kVariants) continue;
    const std::string input = maker.make(number);
    while (sem_wait(&shared.taken) != 0) {
    }
    shared.handed.set(number, input);
    sem_post(&shared.made);
  }
  while (sem_wait(&shared.taken) != 0) {
  }
  shared.handed.set(kNoMore, "");
  sem_post(&shared.made);
  return kUsedUp;
}

/// The next input, made here or by the other process; false if there is none.
bool take_input(const TargetInfo& target, const DriverOptions& options, Shared& shared, FuzzTarget& reader) {
  if (target.is_hdf5()) {
    while (sem_wait(&shared.made) != 0) {
    }
    shared.input.set(shared.handed.number, shared.handed.view());
    sem_post(&shared.taken);
    return shared.input.number != kNoMore;
  }
  if (shared.next >= end_of(options)) return false;
  RandomStream random = stream_of(target, options.seed, shared.next);
  shared.input.number = shared.next;
  shared.input.set(shared.next, reader.make(random));
  return true;
}

/// False, with a sentence, if the reader breaks its contract.
bool read_input(FuzzTarget& reader, const DriverOptions& options, Shared& shared) {
  DriverReport& report = shared.report;
  const std::string input(shared.input.view());
  const Clock::time_point begin = Clock::now();
  Outcome outcome{};
  try {
    outcome = reader.read(input);
  } catch (const std::exception& error) {
    std::snprintf(shared.failure, sizeof shared.failure, "%s",
                  printable(std::string_view(error.what()).substr(0, 500)).c_str());
    return false;
  }
  if (const double seconds = seconds_since(begin); seconds > report.worst_seconds) {
    report.worst_seconds = seconds;
    report.worst_input = shared.input.number;
  }
  const long own = peak_kib(RUSAGE_SELF), children = peak_kib(RUSAGE_CHILDREN);
  report.peak_kib = std::max(report.peak_kib, own);
  report.peak_child_kib = std::max(report.peak_child_kib, children);
  if (static_cast<double>(std::max(own, children)) > options.most_gib * 1024 * 1024) {
    std::snprintf(shared.failure, sizeof shared.failure, "the process took %ld MiB of memory, its children %ld",
                  own / 1024, children / 1024);
    return false;
  }
  ++(outcome == Outcome::accepted ? report.accepted : report.refused);
  return true;
}

/// Runs until the inputs or the time are used up, or until a failure, which it describes.
int read_inputs(const TargetInfo& target, const DriverOptions& options, Shared& shared, Clock::time_point end) {
  const std::unique_ptr<FuzzTarget> reader = target.make();
  make_no_guarded_children(!options.guarded);
  for (std::uint64_t count = 0; Clock::now() < end; ++count) {
    if (target.is_hdf5() && !options.guarded && count == kBatch) return kBatchDone;
    shared.stage = Stage::making;
    if (!take_input(target, options, shared, *reader)) break;
    shared.stage = Stage::reading;
    ++shared.begun;
    shared.next = shared.input.number + 1;
    if (!read_input(*reader, options, shared)) return kFailed;
  }
  return kUsedUp;
}

int read_again_in_child(const TargetInfo& target, const DriverOptions& options, Shared& shared) {
  const std::unique_ptr<FuzzTarget> reader = target.make();
  ++shared.begun;
  return read_input(*reader, options, shared) ? kUsedUp : kFailed;
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
    return processor_seconds(process) - used_before > options.most_seconds ||
           seconds_since(since) > kWaiting * options.most_seconds;
  }
};

void end(pid_t process) {
  int status = 0;
  kill(process, SIGKILL);
  waitpid(process, &status, 0);
}

/// Looks at the process that makes inputs, and starts another in the place of one that ended.
void watch_maker(const TargetInfo& target, const DriverOptions& options, Shared& shared, Watched& maker) {
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
    ++shared.making;
  }
  maker = {.process = start(target, shared, [&] { return make_inputs(target, options, shared); })};
}

/// Waits for the process that reads. Empty if it has used up its inputs or a batch; else what happened.
std::optional<std::string> watch(const TargetInfo& target, const DriverOptions& options, Shared& shared, pid_t process,
                                 Watched& maker, bool& used_up) {
  Watched reader{.process = process};
  DriverOptions limits = options;  // of what is read again, less will do first
  if (target.is_hdf5() && !options.guarded && maker.process >= 0)
    limits.most_seconds = std::min(kLoopSeconds, limits.most_seconds);
  for (int status = 0;;) {
    const pid_t ended = waitpid(process, &status, WNOHANG);
    if (ended == process && WIFEXITED(status)) {
      const int code = WEXITSTATUS(status);
      used_up = code == kUsedUp;
      if (code == kUsedUp || code == kBatchDone) return std::nullopt;
      return code == kFailed ? shared.failure : fmt::format("the process ended with {}", code);
    }
    if (ended == process) return fmt::format("a crash: {}", strsignal(WTERMSIG(status)));
    watch_maker(target, options, shared, maker);
    if (shared.stage == Stage::making && target.is_hdf5()) {
      reader.input = kNoMore;
    } else if (reader.too_long(shared.begun, limits)) {
      end(process);
      return fmt::format("{} {} s", kNoEnd, limits.most_seconds);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::string keep_input(const TargetInfo& target, const DriverOptions& options, Shared& shared) {
  namespace fs = std::filesystem;
  const fs::path folder = options.failures.empty() ? fs::temp_directory_path() : fs::path(options.failures);
  fs::create_directories(folder);
  const fs::path path =
      folder / fmt::format("attest-fuzz-{}-{}-{}{}", target.name, options.seed, shared.input.number, target.extension);
  std::ofstream(path, std::ios::binary).write(shared.input.bytes, static_cast<std::streamsize>(shared.input.size));
  return path.string();
}

}  // namespace

std::string make_input(const TargetInfo& target, std::uint64_t seed, std::uint64_t number) {
  return Maker(target, seed).make(number);
}

DriverReport drive(const TargetInfo& target, const DriverOptions& options) {
  const SharedPages pages;
  Shared& shared = *pages;
  shared.making = shared.next = options.first;
  shared.looping = kNoMore;
  const Clock::time_point begin = Clock::now();
  const double used_before = seconds_of_children();
  const Clock::time_point last =
      options.seconds > 0
          ? begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds))
          : Clock::time_point::max();
  Watched maker{.process = -1}, none{.process = -1};
  if (target.is_hdf5()) maker.process = start(target, shared, [&] { return make_inputs(target, options, shared); });
  const auto too_few_made = [&] { return shared.report.unmade > kMostFailures + shared.next / 100; };
  for (bool used_up = false; !used_up && shared.report.failed < kMostFailures && !too_few_made();) {
    const pid_t reader = start(target, shared, [&] { return read_inputs(target, options, shared, last); });
    std::optional<std::string> failure = watch(target, options, shared, reader, maker, used_up);
    if (!failure) continue;
    if (target.is_hdf5() && !options.guarded) {
      if (failure->starts_with(kNoEnd)) {
        shared.looping = shared.input.number;
        if (++shared.report.loops > kLoopsReadAgain && shared.report.loops % kOneLoopOf != 0) continue;
      }
      bool ignored = false;
      const pid_t again = start(target, shared, [&] { return read_again_in_child(target, options, shared); });
      failure = watch(target, options, shared, again, none, ignored);
      if (!failure) {
        ++shared.report.guarded;
        continue;
      }
    }
    if (shared.stage == Stage::making) {
      ++shared.report.unmade;
      shared.making = ++shared.next;
      continue;
    }
    ++shared.report.failed;
    std::printf("%s: input %llu: %s\n  again: fuzz_readers --reader %s --file %s\n", target.name,
                static_cast<unsigned long long>(shared.input.number), failure->c_str(), target.name,
                keep_input(target, options, shared).c_str());
  }
  if (maker.process > 0) end(maker.process);
  shared.report.seconds = seconds_since(begin);
  shared.report.processor_seconds = seconds_of_children() - used_before;
  return shared.report;
}

void replay(const TargetInfo& target, const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw InputError(path + ": cannot be opened");
  const std::string input{std::istreambuf_iterator<char>(stream), {}};
  const Outcome outcome = target.make()->read(input);
  std::printf("%s: %s\n", path.c_str(), outcome == Outcome::accepted ? "accepted" : "refused");
}

}  // namespace attest::fuzz
