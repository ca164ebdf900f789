// Whether the settings files of a study's selectors were made for the models of its dumps.
#pragma once

#include <string>
#include <vector>

#include "analysis/study/study.h"

namespace attest {

/// Throws InputError if a file has a layer or a KV head that a dump's model does not have, UsageError if dense_heads
/// has a layer that it does not have. Returns a warning for each file and model that the file does not name. The study
/// is planned: its dumps are filled in.
std::vector<std::string> settings_file_notices(const Study& study);

}  // namespace attest
