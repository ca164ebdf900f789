// A store that hangs or fails is given up.
#include "analysis/ranks/timed_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/analysis/ranks/memory_store.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using std::chrono::milliseconds;

TEST(TimedStore, PassesCallsOn) {
  TimedStore store([] { return std::make_unique<test::MemoryStore>(); }, "host:1", milliseconds(1000),
                   milliseconds(1000));
  store.set("a", "x");
  EXPECT_EQ(store.get("a"), "x");
  EXPECT_EQ(store.get("b"), std::nullopt);
  EXPECT_EQ(store.add("n", 2), 2);
  EXPECT_EQ(store.add("n", 3), 5);
  EXPECT_FALSE(store.replace("a", "y", "z"));
  EXPECT_TRUE(store.replace("a", "x", "z"));
  EXPECT_TRUE(store.replace("new", "", "v"));
  store.erase("a");
  EXPECT_EQ(store.get("a"), std::nullopt);
}

struct Hanging final : JobStore {
  explicit Hanging(std::shared_ptr<std::atomic<bool>> released) : release(std::move(released)) {}
  std::optional<std::string> get(const std::string&) override {
    while (!*release) std::this_thread::sleep_for(milliseconds(1));
    return std::nullopt;
  }
  void set(const std::string&, const std::string&) override {}
  std::int64_t add(const std::string&, std::int64_t) override { return 0; }
  bool replace(const std::string&, const std::string&, const std::string&) override { return false; }
  void erase(const std::string&) override {}
  const std::shared_ptr<std::atomic<bool>> release;
};

TEST(TimedStore, WaitsShorterOnceItIsToStop) {
  const auto release = std::make_shared<std::atomic<bool>>(false);
  std::atomic<bool> stop = false;
  {
    TimedStore store([=] { return std::make_unique<Hanging>(release); }, "host:1", milliseconds(1000),
                     milliseconds(60000), &stop);
    std::jthread signal([&] {
      std::this_thread::sleep_for(milliseconds(200));
      stop = true;
    });
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THROW(store.get("a"), StoreLost);
    EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(10000));
  }
  *release = true;  // the thread that was left ends
  std::this_thread::sleep_for(milliseconds(20));
}

TEST(TimedStore, GivesUpWhatHangs) {
  const auto release = std::make_shared<std::atomic<bool>>(false);
  {
    TimedStore store([=] { return std::make_unique<Hanging>(release); }, "host:1", milliseconds(1000),
                     milliseconds(50));
    const std::string sentence =
        "the store at host:1 is gone (no answer within 0.05 s); finished layers are kept, the same command with "
        "--resume "
        "goes on";
    EXPECT_EQ(message_of<StoreLost>([&] { store.get("a"); }), sentence);
    EXPECT_EQ(message_of<StoreLost>([&] { store.set("a", "b"); }), sentence) << "from then on";
  }
  *release = true;  // the thread that was left ends
  std::this_thread::sleep_for(milliseconds(20));
}

TEST(TimedStore, SaysWhyItFailed) {
  TimedStore store(
      [] {
        auto made = std::make_unique<test::MemoryStore>();
        made->fail_after(1);
        return made;
      },
      "host:1", milliseconds(1000), milliseconds(1000));
  store.set("a", "b");
  EXPECT_EQ(message_of<StoreLost>([&] { store.get("a"); }),
            "the store at host:1 is gone (the store is gone); finished layers are kept, the same command with --resume "
            "goes on");
}

TEST(TimedStore, AStoreThatCannotBeOpened) {
  EXPECT_EQ(message_of<StoreLost>([&] {
              TimedStore([]() -> std::unique_ptr<JobStore> { throw StoreLost("refused"); }, "host:1",
                         milliseconds(1000), milliseconds(1000));
            }),
            "refused");
}

}  // namespace
}  // namespace attest
