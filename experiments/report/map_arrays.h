// The arrays of the layer x head map, from results files.
#pragma once

#include "experiments/paper/model_study.h"
#include "experiments/report/report_samples.h"
#include "plots/report/report_data.h"

namespace attest {

/// Adds the model to `data`, with its metrics and its arrays: over all samples and, where these are few enough, of each
/// sample.
void add_map(ResultsFiles files, const ModelStudy& study, ReportData& data);

/// The setting with which a page begins: one that the methods' papers use if there is one, else the middle of the grid.
int usual_setting(const MapSelector& selector);

}  // namespace attest
