// run_in_guarded_child: results, errors, crashes and limits of a child.
#include "dumps/hdf5/guarded_child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/hdf5/handle.h"
#include "tests/message_of.h"

namespace attest {
namespace {

const ChildLimits kLimits{std::size_t{256} << 20, 2};

/// The message of the InputError when a child runs `work`.
std::string failure_of(const std::function<void()>& work, const ChildLimits& limits = kLimits) {
  return message_of<InputError>([&] {
    run_in_guarded_child(
        "a.h5", limits,
        [&](ChildOutput&) {
          note_object("/samples/x");
          work();
        },
        [](ChildInput& input) { input.read_all(1 << 20); });
  });
}

bool has_children() { return !(::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD); }

TEST(GuardedChildTest, PassesBytesOfAnyAmount) {
  std::vector<std::uint32_t> sent(3'000'000);
  std::iota(sent.begin(), sent.end(), 7u);
  std::vector<std::uint32_t> received(sent.size());
  std::string rest;
  run_in_guarded_child(
      "a.h5", kLimits, [&](ChildOutput& output) { output.write(std::as_bytes(std::span(sent))); },
      [&](ChildInput& input) {
        const std::span<std::uint32_t> half(received.data(), received.size() / 2);
        EXPECT_EQ(input.read(std::as_writable_bytes(half)), half.size_bytes());
        rest = input.read_all(12'000'000);
      });
  ASSERT_EQ(rest.size(), sent.size() / 2 * 4);
  std::memcpy(received.data() + received.size() / 2, rest.data(), rest.size());
  EXPECT_TRUE(received == sent);
  EXPECT_FALSE(has_children());
}

TEST(GuardedChildTest, ReadsLessWhenTheChildEnds) {
  const std::string sent = "abc";
  std::array<std::byte, 10> received{};
  std::size_t count = 0;
  run_in_guarded_child(
      "a.h5", kLimits, [&](ChildOutput& output) { output.write(std::as_bytes(std::span(sent))); },
      [&](ChildInput& input) { count = input.read(received); });
  EXPECT_EQ(count, 3u);
}

/// 76800 layers of 16 tokens, a sound dump of 97 MB, take HDF5 7 s.
TEST(GuardedChildTest, ManySmallObjectsHaveTime) { EXPECT_GE(metadata_limits(97'000'000).processor_seconds, 4u * 7); }

/// As of a study that is stopped with Ctrl-Z.
TEST(GuardedChildTest, TheTimeThatAChildWaitsForItsParentDoesNotCount) {
  const std::vector<std::byte> sent(std::size_t{4} << 20);  // more than a pipe holds
  std::size_t received = 0;
  run_in_guarded_child(
      "a.h5", kLimits,
      [&](ChildOutput& output) {
        ::alarm(1);  // as the child's own, which is a minute or more
        output.write(sent);
      },
      [&](ChildInput& input) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2500));
        received = input.read_all(sent.size()).size();
      });
  EXPECT_EQ(received, sent.size());
}

/// More than a pipe holds: a child that nobody reads from would wait until its time is over.
TEST(GuardedChildTest, AChildThatWritesMoreThanIsReadEnds) {
  const std::vector<std::byte> sent(std::size_t{4} << 20);
  std::array<std::byte, 10> received{};
  const auto start = std::chrono::steady_clock::now();
  const std::string message = message_of<InputError>([&] {
    run_in_guarded_child(
        "a.h5", kLimits, [&](ChildOutput& output) { output.write(sent); },
        [&](ChildInput& input) { input.read(received); });
  });
  EXPECT_TRUE(message.starts_with("a.h5: /: the file is damaged, ")) << message;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30))
      << "the child's time is a minute or more";
}

TEST(GuardedChildTest, PassesErrorsOn) {
  EXPECT_EQ(failure_of([] { throw InputError("a.h5: /samples: is what it is"); }), "a.h5: /samples: is what it is");
  EXPECT_EQ(failure_of([] { throw std::runtime_error("something else"); }), "something else");
}

TEST(GuardedChildTest, ControlCharactersOfAnErrorAreEscaped) {
  EXPECT_EQ(failure_of([] { throw std::runtime_error("a.h5: \x1b[31m\nred"); }), "a.h5: \\x1b[31m\\x0ared");
}

/// Fills all memory that the child shares with its parent, its report among it.
void overwrite_shared_memory() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    char access[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, access) != 3 || std::string_view(access) != "rw-s")
      continue;
    if (line.find("/dev/zero") != line.npos) std::memset(reinterpret_cast<void*>(begin), 'A', end - begin);
  }
}

TEST(GuardedChildTest, AReportWithoutEndIsReadNoFurther) {
  const std::string message = message_of<LimitError>([] {  // the page says, too, that the session leaves little memory
    run_in_guarded_child(
        "a.h5", kLimits,
        [&](ChildOutput&) {
          overwrite_shared_memory();
          std::raise(SIGSEGV);
        },
        [](ChildInput& input) { input.read_all(1 << 20); });
  });
  EXPECT_TRUE(message.starts_with("a.h5: AAAA")) << message;
  EXPECT_LT(message.size(), 2000u);
}

TEST(GuardedChildTest, SurvivesCrashes) {
  EXPECT_EQ(failure_of([] { std::raise(SIGSEGV); }),
            "a.h5: /samples/x: the file is damaged, HDF5 crashed on it (Segmentation fault)");
  EXPECT_EQ(failure_of([] { std::abort(); }), "a.h5: /samples/x: the file is damaged, HDF5 crashed on it (Aborted)");
  EXPECT_EQ(failure_of([] { std::_Exit(77); }), "a.h5: /samples/x: the file is damaged, HDF5 failed on it");
  EXPECT_FALSE(has_children());
}

void expect_that_endless_loops_end() {
  volatile std::uint64_t counter = 0;
  EXPECT_EQ(failure_of(
                [&] {
                  for (;;) counter = counter + 1;
                },
                {kLimits.memory_bytes, 1}),
            "a.h5: /samples/x: the file is damaged, HDF5 was still busy with it after 1 s");
}

TEST(GuardedChildTest, EndsEndlessLoops) { expect_that_endless_loops_end(); }

TEST(GuardedChildTest, SignalsOfTheGroupAndOfTheParentDoNotMatter) {
  const pid_t group = ::getpgrp();
  EXPECT_EQ(failure_of([&] {
              if (::getpgrp() == group) throw InputError("a signal for the group ends it");
            }),
            "");
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGXCPU);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  expect_that_endless_loops_end();
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

TEST(GuardedChildTest, BoundsMemory) {
  const std::string message = failure_of([] {
    std::vector<std::vector<char>> hoard;
    for (int i = 0; i < 1000; ++i) hoard.emplace_back(std::size_t{16} << 20, 'x');
  });
#if defined(__SANITIZE_ADDRESS__)  // AddressSanitizer ends the process instead of throwing bad_alloc
  EXPECT_EQ(message, "a.h5: /samples/x: the file is damaged, HDF5 failed on it");
#else
  EXPECT_EQ(message, "a.h5: /samples/x: claims more memory than a file of this size can need");
#endif
}

#if !defined(__SANITIZE_ADDRESS__)  // its shadow takes more than any limit
/// What is thrown of `work`'s error in a session that leaves a child less memory than it should have, as `ulimit -v`.
std::string failure_with_little_memory(const std::function<void()>& work) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return "no pipe";
  const pid_t id = fork();
  if (id == 0) {
    const rlimit limit{std::size_t{4} << 30, std::size_t{4} << 30};
    setrlimit(RLIMIT_AS, &limit);
    std::string said = "nothing";
    try {
      run_in_guarded_child(
          "memory/a.h5", {std::size_t{8} << 30, 2}, [&](ChildOutput&) { work(); }, [](ChildInput&) {});
    } catch (const LimitError& error) {
      said = std::string("limit: ") + error.what();
    } catch (const InputError& error) {
      said = std::string("input: ") + error.what();
    }
    [[maybe_unused]] const ssize_t written = write(ends[1], said.data(), said.size());
    _exit(0);
  }
  close(ends[1]);
  std::array<char, 1024> text{};
  const ssize_t count = read(ends[0], text.data(), text.size());
  close(ends[0]);
  waitpid(id, nullptr, 0);
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

TEST(GuardedChildTest, WithLittleMemoryOnlyFailedAllocationsAreForWantOfIt) {
  EXPECT_EQ(failure_with_little_memory([] { throw InputError("memory/a.h5: /samples/alloc-3: has no layer"); }),
            "input: memory/a.h5: /samples/alloc-3: has no layer");
  EXPECT_TRUE(failure_with_little_memory([] { throw std::bad_alloc(); }).starts_with("limit: memory/a.h5: /: cannot"));
  EXPECT_TRUE(failure_with_little_memory([] {  // as HDF5 says it, whatever the reader makes of it
                const hdf5::Lock lock;
                H5Epush2(H5E_DEFAULT, "f", "f", 1, H5E_ERR_CLS, H5E_RESOURCE, H5E_NOSPACE, "no");
                throw InputError("memory/a.h5: is damaged, HDF5 says: " + hdf5::take_error_text());
              })
                  .starts_with("limit: "));
}
#endif

TEST(GuardedChildTest, EndsTheChildWhenItsParentHasEnough) {
  EXPECT_THROW(run_in_guarded_child(
                   "a.h5", kLimits,
                   [](ChildOutput&) {
                     for (;;) pause();
                   },
                   [](ChildInput&) { throw std::length_error("enough"); }),
               std::length_error);
  EXPECT_FALSE(has_children());
}

TEST(GuardedChildTest, MayUseHdf5WhileTheParentHoldsTheLock) {
  const hdf5::Lock lock;
  const hdf5::Handle list(H5Pcreate(H5P_DATASET_CREATE));
  EXPECT_EQ(failure_of([&] {
              const hdf5::Lock child_lock;
              if (H5Pset_deflate(list.get(), 3) < 0) throw InputError("does not work");
            }),
            "");
}

TEST(GuardedChildTest, IsSilent) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  failure_of([] {
    std::puts("noise");
    std::fputs("noise", stderr);
    std::fflush(stdout);
    std::abort();
  });
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(GuardedChildTest, NoteObjectDoesNothingInTheParent) {
  note_object("/no/child");
  const std::string said = failure_of([] { std::abort(); });
  EXPECT_FALSE(said.empty());
  EXPECT_EQ(said.find("/no/child"), std::string::npos) << said;
}

TEST(GuardedChildTest, TooFewDescriptorsAreNoDamage) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  for (rlim_t maximum = 3; maximum < 12; ++maximum) {
    rlimit few = before;
    few.rlim_cur = maximum;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    std::string said;
    try {
      run_in_guarded_child(
          "a.h5", kLimits, [](ChildOutput&) {}, [](ChildInput& input) { input.read_all(1); });
    } catch (const LimitError& error) {
      said = error.what();
    }
    EXPECT_TRUE(maximum >= 6 || said.starts_with("a.h5: too many open files (ulimit -n is ")) << said;
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(GuardedChildTest, ASignalThatEndsCommandsIsNoDamage) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    EXPECT_THROW(
        run_in_guarded_child(
            "a.h5", kLimits, [&](ChildOutput&) { std::raise(signal); }, [](ChildInput& input) { input.read_all(1); }),
        Interrupted);
}

TEST(GuardedChildTest, AChildThatIsKilledIsNoDamage) {
  EXPECT_EQ(message_of<LimitError>([] {
              run_in_guarded_child(
                  "a.h5", kLimits, [](ChildOutput&) { std::raise(SIGKILL); },
                  [](ChildInput& input) { input.read_all(1); });
            }),
            "a.h5: /: the process that reads it was killed, probably for want of memory");
}

TEST(GuardedChildTest, WithoutAChildAFaultOfTheReaderIsNoDamage) {
  make_no_guarded_children();
  const auto read = [](const auto& error) {
    run_in_guarded_child(
        "a.h5", kLimits, [&](ChildOutput&) { throw error; }, [](ChildInput&) {});
  };
  EXPECT_THROW(read(std::logic_error("a fault")), std::logic_error);
  EXPECT_THROW(read(std::runtime_error("damaged")), InputError);
  make_no_guarded_children(false);
}

}  // namespace
}  // namespace attest
