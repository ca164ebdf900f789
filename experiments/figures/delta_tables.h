// Tables of delta validation, and the names of their curves.
#pragma once

#include <string>
#include <vector>

#include "experiments/study_view/delta_quality.h"
#include "plots/table.h"

namespace attest {

std::string label_of(const DeltaValidation& v);
std::string model_curve(const DeltaValidation& v);
std::string layers_curve(const DeltaValidation& v);
std::string target_curve(const DeltaValidation& v, const QualityTarget& target);

/// A row for each delta of the model (no layer number) and of each layer.
Table quality_table(const std::vector<DeltaValidation>& validations);

/// A row for each target and the model, each layer, each head: the smallest delta that meets it.
Table target_table(const std::vector<DeltaValidation>& validations, const std::string& model);

/// The same as a table for a page, with the targets side by side: the model under each unit of delta, and the layers
/// under the first.
Table printed_targets(const std::vector<DeltaValidation>& validations);

}  // namespace attest
