// Large values in parts.
#include "analysis/ranks/store_blob.h"

#include <gtest/gtest.h>

#include "tests/analysis/ranks/memory_store.h"

namespace attest {
namespace {

TEST(StoreBlob, ComesBackWhole) {
  test::MemoryStore store;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 20, (std::size_t{5} << 20) + 3}) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + i / 1000);
    put_blob(store, "k", bytes);
    EXPECT_EQ(get_blob(store, "k"), bytes);
    erase_blob(store, "k", size);
    EXPECT_EQ(store.num_keys(), 0u);
    EXPECT_EQ(get_blob(store, "k"), std::nullopt);
  }
}

TEST(StoreBlob, DamageIsSaid) {
  test::MemoryStore store;
  put_blob(store, "k", "abc");
  store.set("k/0", "abd");
  EXPECT_THROW(get_blob(store, "k"), StoreLost);
  store.erase("k/0");
  EXPECT_THROW(get_blob(store, "k"), StoreLost);
  store.set("k", "no number");
  EXPECT_THROW(get_blob(store, "k"), StoreLost);
}

}  // namespace
}  // namespace attest
