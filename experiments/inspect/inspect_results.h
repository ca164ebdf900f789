// What `attest inspect` prints about a results file and about the folder of an unfinished study.
#pragma once

#include <string>

#include "analysis/results/check_results.h"
#include "analysis/results/partial_status.h"
#include "analysis/results/results_file.h"
#include "dumps/base/json.h"

namespace attest {

Json summary_json(const ResultsFile& results);
std::string summary_text(const ResultsFile& results);

Json check_json(const ResultsFile&, const ResultsCheck& check);
std::string check_text(const ResultsFile&, const ResultsCheck& check);

Json status_json(const PartialStatus& status);
std::string status_text(const PartialStatus& status);

}  // namespace attest
