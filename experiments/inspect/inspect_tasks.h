// What `attest inspect` prints about task outcomes, and about the folder of unfinished ones.
#pragma once

#include <string>

namespace attest {

/// Prints what is in a file that `attest tasks` wrote.
void inspect_tasks(const std::string& path, bool as_json);

/// Whether a folder is one of unfinished task outcomes.
bool has_unfinished_tasks(const std::string& folder);
void inspect_unfinished_tasks(const std::string& folder, bool as_json);

}  // namespace attest
