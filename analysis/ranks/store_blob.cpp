// Parts of large values.
#include "analysis/ranks/store_blob.h"

#include <fmt/format.h>

#include <cstdio>
#include <span>

#include "dumps/base/content_hash.h"

namespace attest {
namespace {

/// TCPStore takes 8 MiB; smaller parts let the heartbeats of the same connection through.
constexpr std::size_t kPart = std::size_t{1} << 20;

std::size_t parts_of(std::size_t bytes) { return (bytes + kPart - 1) / kPart; }
std::string part_key(const std::string& key, std::size_t part) { return fmt::format("{}/{}", key, part); }

std::string description(std::string_view bytes) {
  return fmt::format("{} {}", bytes.size(), hex_digits(hash_of(std::as_bytes(std::span(bytes)))));
}

}  // namespace

void put_blob(JobStore& store, const std::string& key, std::string_view bytes) {
  for (std::size_t part = 0; part < parts_of(bytes.size()); ++part)
    store.set(part_key(key, part), std::string(bytes.substr(part * kPart, kPart)));
  store.set(key, description(bytes));
}

std::optional<std::string> get_blob(JobStore& store, const std::string& key) {
  const std::optional<std::string> described = store.get(key);
  if (!described) return std::nullopt;
  std::size_t size = 0;
  if (std::sscanf(described->c_str(), "%zu", &size) != 1)
    throw StoreLost(fmt::format("'{}' in the store of the ranks is damaged", key));
  std::string bytes;
  for (std::size_t part = 0; part < parts_of(size); ++part) bytes += store.get(part_key(key, part)).value_or("");
  if (description(bytes) != *described) throw StoreLost(fmt::format("'{}' in the store of the ranks is damaged", key));
  return bytes;
}

void erase_blob(JobStore& store, const std::string& key, std::size_t bytes) {
  store.erase(key);
  for (std::size_t part = 0; part < parts_of(bytes); ++part) store.erase(part_key(key, part));
}

}  // namespace attest
