// Values of any size in a store that takes small ones.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "analysis/ranks/job_store.h"

namespace attest {

/// Stores `bytes` in parts below `key`; the key itself, which says how many there are, is set last.
void put_blob(JobStore& store, const std::string& key, std::string_view bytes);

/// Empty if put_blob() has not finished. Throws StoreLost if parts are missing or damaged.
std::optional<std::string> get_blob(JobStore& store, const std::string& key);

/// Also what an unfinished put_blob() of `bytes` bytes has left.
void erase_blob(JobStore& store, const std::string& key, std::size_t bytes);

}  // namespace attest
