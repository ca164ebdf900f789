// The JSON of an audit.
#include <cmath>

#include "dumps/base/json_numbers.h"
#include "experiments/audit/audit_report.h"

namespace attest {
namespace {

Json errors_json(const HeadErrors& errors) {
  return {{"error", finite_or_null(errors.error)},
          {"lse_difference", finite_or_null(errors.lse_difference)},
          {"beyond", errors.beyond}};
}

Json departure_json(const LayerAudit& layer) {
  if (!layer.first) return {};
  return {{"position", layer.first->position},
          {"head", layer.first->head},
          {"error", finite_or_null(layer.first->fit.error)},
          {"bound", layer.first->fit.bound},
          {"lse_difference", finite_or_null(layer.first->fit.lse_difference)}};
}

Json candidates_json(const std::vector<TestedHypothesis>& candidates) {
  Json list = Json::array();
  for (const TestedHypothesis& candidate : candidates)
    list.push_back({{"kind", candidate.kind},
                    {"text", candidate.text},
                    {"rows_within", candidate.within},
                    {"note", text_or_null(candidate.note)},
                    {"error", finite_or_null(candidate.error)},
                    {"bound", candidate.bound}});
  return list;
}

Json explanation_json(const LayerAudit& layer) {
  if (!layer.explanation) return {};
  const Explanation& found = *layer.explanation;
  return {{"text", explanation_text(found, layer.prompt_alone)},
          {"failing", found.failing},
          {"tested", found.tested},
          {"screened", found.screened},
          {"explained_by", candidates_json(found.explaining)},
          {"explained_by_more", found.explaining_left_out},
          {"nearest", candidates_json(found.nearest)},
          {"prompt_alone", layer.prompt_alone}};
}

Json layer_json(const AuditedLayer& one) {
  const LayerAudit& audit = one.audit;
  Json heads = Json::array();
  for (std::size_t h = 0; h < audit.heads.size(); ++h)
    heads.push_back({{"head", h},
                     {"expected", errors_json(audit.heads[h].expected)},
                     {"exact", errors_json(audit.heads[h].exact)}});
  return {{"layer", audit.layer},
          {"sample", one.sample},
          {"expected_attention", audit.expected},
          {"own_rounding", text_or_null(audit.own_rounding)},
          {"element_type", name_of(one.element_type)},
          {"output_type", name_of(one.output_type)},
          {"rows", audit.rows},
          {"bound", audit.median_bound},
          {"expected", errors_json(audit.worst_expected())},
          {"exact", errors_json(audit.worst_exact())},
          {"first", departure_json(audit)},
          {"explanation", explanation_json(audit)},
          {"heads", heads}};
}

}  // namespace

Json audit_json(const AuditReport& report) {
  Json layers = Json::array(), first;
  for (const AuditedLayer& one : report.audit.layers) layers.push_back(layer_json(one));
  if (const AuditedLayer* departure = report.audit.first()) {
    first = {{"layer", departure->audit.layer}, {"sample", departure->sample}};
    first.update(departure_json(departure->audit));
  }
  return {{"text", audit_text(report)},
          {"dump", report.dump.path},
          {"engine", text_or_null(report.dump.engine)},
          {"kv_cache", text_or_null(report.dump.kv_cache)},
          {"expected", report.expected},
          {"device", report.device},
          {"roundings", report.roundings},
          {"agrees", report.audit.agrees()},
          {"without_output", report.audit.without_output},
          {"first", first},
          {"layers", layers}};
}

}  // namespace attest
