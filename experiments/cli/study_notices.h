// Notices about a command line that asks for more, or for less, than it seems to.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "analysis/study/study.h"

namespace attest {

/// Sentences about grids that no selector of the study uses, and about selectors that are the same under two labels.
/// `grids` has the grids as typed; an empty text is none.
std::vector<std::string> study_notices(const Study& study, const std::map<SettingKind, std::string>& grids);

}  // namespace attest
