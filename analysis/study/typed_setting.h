// Settings as a user types them to choose among those of a study.
#pragma once

#include <cstddef>
#include <string_view>

#include "analysis/study/study.h"

namespace attest {

/// Whether `typed` is setting `s` of the selector: as it was typed for the study, or by its value ("5.0" is "5").
bool is_setting(const StudySelector& selector, std::size_t s, std::string_view typed);

}  // namespace attest
