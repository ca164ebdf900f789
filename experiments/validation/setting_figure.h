// The figure `validation`: violating prompts and costs against the setting.
#pragma once

#include <optional>

#include "experiments/validation/judgement.h"
#include "plots/figure.h"

namespace attest {

/// The figure; none if the selector has no settings that an axis can show.
std::optional<Figure> setting_figure(const Judgement& judgement);

}  // namespace attest
