// Compares metrics of the same name and size, cell by cell.
#include "experiments/bench/study/agreement.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/base/join.h"

namespace attest {
namespace {

void compare(const std::string& group, const std::vector<MetricValues>& ours, const std::vector<MetricValues>& peers,
             Agreement& agreement, std::map<std::string, std::int64_t>& differing) {
  for (const MetricValues& a : ours) {
    const auto b = std::ranges::find_if(
        peers, [&](const MetricValues& m) { return m.name == a.name && m.values.size() == a.values.size(); });
    if (b == peers.end()) {
      agreement.not_compared += std::ssize(a.values);
      agreement.metrics_not_compared.insert(a.name);
      continue;
    }
    agreement.cells += std::ssize(a.values);
    for (std::size_t i = 0; i < a.values.size(); ++i) {
      const double x = a.values[i], y = b->values[i];
      const bool both_undefined = std::isnan(x) && std::isnan(y);
      if (!both_undefined && !(std::fabs(x - y) <= kAgreementTolerance * std::max(1.0, std::fabs(x))))
        ++differing[group + "/" + a.name];
    }
  }
}

}  // namespace

Agreement agreement_of(const Study& study, const LayerResults& ours, const LayerResults& peers) {
  Agreement agreement;
  std::map<std::string, std::int64_t> differing;
  compare("scores", ours.scores, peers.scores, agreement, differing);
  for (std::size_t s = 0; s < ours.selectors.size(); ++s)
    compare(study.selectors[s].label, ours.selectors[s].metrics, peers.selectors[s].metrics, agreement, differing);
  std::int64_t maximum = 0;
  for (const auto& [name, count] : differing) {
    agreement.differing += count;
    if (count > maximum) {
      maximum = count;
      agreement.worst = name;
    }
  }
  if (agreement.cells == 0) throw Error("bench: no metric can be compared with the LibTorch peer's");
  if (!(static_cast<double>(agreement.differing) <= kMaxDifferingShare * static_cast<double>(agreement.cells)))
    throw Error(fmt::format(
        "bench: {} of {} cells differ from the LibTorch peer's by more than {} (most in '{}'), expected at "
        "most {:.0f} %",
        agreement.differing, agreement.cells, kAgreementTolerance, agreement.worst, 100 * kMaxDifferingShare));
  return agreement;
}

std::string text_of(const Agreement& agreement) {
  std::string text = fmt::format("{} of {} cells compared with LibTorch's are apart by more than {}",
                                 agreement.differing, agreement.cells, kAgreementTolerance);
  if (agreement.not_compared > 0)
    text += fmt::format("; {} were not compared, as LibTorch's lack {}", counted(agreement.not_compared, "cell"),
                        join(agreement.metrics_not_compared, ", "));
  return text;
}

}  // namespace attest
