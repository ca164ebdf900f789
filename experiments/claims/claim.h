// A claim of the paper, and what results say about it.
#pragma once

#include <string>
#include <vector>

#include "experiments/study_view/model_study.h"
#include "experiments/study_view/scan_bound_study.h"

namespace attest {

enum class Verdict : std::uint8_t { holds, does_not_hold, cannot_tell };
std::string verdict_text(Verdict verdict);  ///< "holds", "does not hold", "cannot tell"

/// What the results of one study say about a claim.
struct ClaimResult {
  Verdict verdict = Verdict::cannot_tell;
  /// The measurement in words, with its interval; if the verdict is cannot_tell, what is missing.
  std::string evidence;
  std::string run_options = {};  ///< of `attest run`, with which the results would tell: "--selector ffd --delta 5"
  std::string subject = {};      ///< what was measured: "ffd at delta 5 (gqa=union), layers 2 to 31"
};

struct PaperClaim {
  std::string statement;  ///< in our words, with the paper's number
  std::string place;      ///< in the paper
  std::string figure;     ///< the experiment that shows the numbers; empty if none does
  std::string rule;       ///< by which it holds or does not
  ClaimResult (*check)(const ModelStudy& study) = nullptr;
};

std::vector<PaperClaim> quality_claims();        ///< how well FFD reproduces attention, beside other methods
std::vector<PaperClaim> sparsity_claims();       ///< how much FFD keeps, and what it drops
std::vector<PaperClaim> paper_contradictions();  ///< where the paper disagrees with itself

struct CheckedClaim {
  PaperClaim claim;
  ClaimResult result;
};

/// The theorem on the scanning error and the false-negative bound.
std::vector<CheckedClaim> checked_bound_claims(const ModelStudy& study, ScanBounds& scan_bounds);

}  // namespace attest
