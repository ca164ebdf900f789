// Limits are named with their numbers; other errors are none.
#include "dumps/base/machine_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>

#include "dumps/base/error.h"
#include "tests/message_of.h"

namespace attest {
namespace {

TEST(MachineLimitsTest, AreNamedWithTheirNumbers) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit_text(EMFILE), "too many open files (ulimit -n is " + std::to_string(limit.rlim_cur) + ")");
  EXPECT_TRUE(limit_text(EAGAIN).starts_with("no further process or thread can be started"));
  EXPECT_TRUE(limit_text(ENOMEM).starts_with("out of memory"));
  EXPECT_EQ(limit_text(ENOENT), "");
}

TEST(MachineLimitsTest, OnlyTheyAreThrown) {
  EXPECT_NO_THROW(throw_if_limit("a.h5", EACCES));
  EXPECT_TRUE(message_of<LimitError>([] { throw_if_limit("a.h5", ENFILE); }).starts_with("a.h5: too many open files"));
}

}  // namespace
}  // namespace attest
