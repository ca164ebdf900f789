// Cleanups run latest first, and the threads that would add or end one stop.
#include "dumps/base/cleanup.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>

namespace attest {
namespace {

/// What a child process writes that ends with run_cleanups().
template <class Work>
std::string written_by(Work&& work) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    work([&](char c) { [[maybe_unused]] const auto n = ::write(ends[1], &c, 1); });
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text(16, '\0');
  std::size_t size = 0;
  for (ssize_t n = 1; n > 0; size += static_cast<std::size_t>(n))
    n = ::read(ends[0], text.data() + size, text.size() - size);
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return text.substr(0, size);
}

TEST(CleanupTest, TheLatestComesFirstAndEndedOnesDoNot) {
  EXPECT_EQ(written_by([](const auto& write) {
              const Cleanup first([&] { write('1'); });
              std::optional<Cleanup> second(std::in_place, [&] { write('2'); });
              const Cleanup third([&] { write('3'); });
              second.reset();
              run_cleanups();
              ::_exit(0);  // a destructor would wait for ever
            }),
            "31");
}

TEST(CleanupTest, NothingIsMadeAfterThem) {
  EXPECT_EQ(written_by([](const auto& write) {
              const Cleanup first([&] { write('m'); }, [&] { write('1'); });
              run_cleanups();
              std::thread([&] { const Cleanup late([&] { write('x'); }, [&] { write('2'); }); }).detach();
              std::this_thread::sleep_for(std::chrono::milliseconds(100));
              ::_exit(0);
            }),
            "m1");
}

TEST(CleanupTest, WhatCannotBeMadeIsNotCleanedUp) {
  EXPECT_EQ(written_by([](const auto& write) {
              try {
                const Cleanup none([] { throw 1; }, [&] { write('1'); });
              } catch (int) {
                write('c');
              }
              run_cleanups();
              ::_exit(0);
            }),
            "c");
}

TEST(CleanupTest, NoOtherThreadGoesOn) {
  EXPECT_EQ(written_by([](const auto& write) {
              std::optional<Cleanup> first(std::in_place, [&] { write('1'); });
              run_cleanups();
              std::thread([&] {
                first.reset();
                write('x');
              }).detach();
              std::thread([&] {
                const Cleanup another([] {});
                write('y');
              }).detach();
              std::this_thread::sleep_for(std::chrono::milliseconds(100));
              ::_exit(0);
            }),
            "1");
}

TEST(CleanupTest, WaitsForStepsThatBelongTogether) {
  EXPECT_EQ(written_by([](const auto& write) {
              const Cleanup last([&] { write('c'); });
              auto together = delay_cleanups();
              std::thread ending([&] { run_cleanups(); });
              std::this_thread::sleep_for(std::chrono::milliseconds(50));
              write('a');
              write('b');
              together.unlock();
              ending.join();
              ::_exit(0);
            }),
            "abc");
}

}  // namespace
}  // namespace attest
