// run_ordered: order of delivery, threads and exceptions.
#include "dumps/base/ordered_pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>

namespace attest {
namespace {

using Buffer = std::vector<std::int64_t>;

TEST(OrderedPipeline, delivers_in_order_what_many_threads_made_out_of_order) {
  std::vector<std::int64_t> delivered;
  std::atomic<int> consuming = 0;
  std::mutex mutex;
  std::set<std::thread::id> makers;
  run_ordered<Buffer>(
      200, 8,
      [&](std::int64_t job, Buffer& buffer) {
        std::this_thread::sleep_for(std::chrono::microseconds((job * 7919) % 300));
        buffer.assign(1, job * job);
        std::scoped_lock lock(mutex);
        makers.insert(std::this_thread::get_id());
      },
      [&](std::int64_t job, Buffer& buffer) {
        EXPECT_EQ(++consuming, 1);
        EXPECT_EQ(buffer.front(), job * job);
        delivered.push_back(job);
        --consuming;
      });
  ASSERT_EQ(delivered.size(), 200u);
  for (std::size_t i = 0; i < 200; ++i) EXPECT_EQ(delivered[i], static_cast<std::int64_t>(i));
  EXPECT_GT(makers.size(), 1u);
}

TEST(OrderedPipeline, works_with_one_thread_and_with_no_job) {
  int count = 0;
  const auto nothing = [](std::int64_t, Buffer&) {};
  run_ordered<Buffer>(3, 1, nothing, [&](std::int64_t, Buffer&) { ++count; });
  EXPECT_EQ(count, 3);
  run_ordered<Buffer>(0, 4, nothing, [&](std::int64_t, Buffer&) { ++count; });
  EXPECT_EQ(count, 3);
}

TEST(OrderedPipeline, the_first_failure_ends_all_and_is_thrown) {
  for (const bool in_producer : {true, false}) {
    std::int64_t last = -1;
    const auto fail_at_50 = [](std::int64_t job) {
      if (job == 50) throw std::runtime_error("job 50");
    };
    try {
      run_ordered<Buffer>(
          1'000'000, 4,
          [&](std::int64_t job, Buffer&) {
            if (in_producer) fail_at_50(job);
          },
          [&](std::int64_t job, Buffer&) {
            if (!in_producer) fail_at_50(job);
            last = job;
          });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "job 50");
    }
    EXPECT_LT(last, 50);
  }
}

}  // namespace
}  // namespace attest
