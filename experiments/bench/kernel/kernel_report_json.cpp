// A kernel report as JSON.
#include <cmath>

#include "analysis/results/manifest_inputs.h"
#include "dumps/base/json.h"
#include "dumps/base/json_numbers.h"
#include "experiments/bench/kernel/kernel_report.h"

namespace attest {
namespace {

Json json_of(const KernelMachine& m) {
  return {{"gpu", m.gpu},
          {"multiprocessors", m.multiprocessors},
          {"memory_bytes", m.memory_bytes},
          {"driver", m.driver},
          {"cuda_runtime", m.cuda_runtime},
          {"torch", text_or_null(m.torch)},
          {"sm_clock_mhz", finite_or_null(m.sm_clock_mhz)},
          {"memory_clock_mhz", finite_or_null(m.memory_clock_mhz)},
          {"copy_bytes_per_second", m.copy_bytes_per_second}};
}

Json json_of(const KernelData& data) {
  Json json{{"source", data.source}};
  if (data.source != "dump") return json;
  json["path"] = data.path;
  json[kContentHashName] = data.xxh64_of_1mib;
  json["model"] = data.model;
  return json;
}

Json json_of(const std::optional<KernelFidelity>& fidelity) {
  if (!fidelity) return {};
  return {{"recall_mean", finite_or_null(fidelity->recall_mean)},
          {"recall_min", finite_or_null(fidelity->recall_min)},
          {"lse_error_mean", finite_or_null(fidelity->lse_error_mean)},
          {"lse_error_max", finite_or_null(fidelity->lse_error_max)}};
}

Json json_of(const KernelCheck& check) {
  return {{"against", check.against},
          {"largest_output_error", finite_or_null(check.largest_output_error)},
          {"largest_lse_error", finite_or_null(check.largest_lse_error)},
          {"blocks_differing", check.blocks_differing},
          {"blocks", check.blocks}};
}

Json json_of(const KernelMeasurement& m) {
  return {{"experiments", m.experiments},
          {"method", m.method},
          {"length", m.length},
          {"batch", m.batch},
          {"layer", m.layer ? Json(*m.layer) : Json()},
          {"sample", text_or_null(m.sample)},
          {"tiled", m.tiled},
          {"scan", text_or_null(m.scan)},
          {"rule", text_or_null(m.rule)},
          {"launches", text_or_null(m.launches)},
          {"setting", {{"kind", m.setting.kind}, {"value", m.setting.value}}},
          {"delta", finite_or_null(m.delta)},
          {"keep_ratio", finite_or_null(m.keep_ratio)},
          {"io_ratio", finite_or_null(m.io_ratio)},
          {"bytes", m.bytes},
          {"floor_microseconds", m.floor_microseconds},
          {"microseconds", m.microseconds},
          {"median_microseconds", finite_or_null(m.median_microseconds)},
          {"fidelity", json_of(m.fidelity)},
          {"check", json_of(m.check)}};
}

}  // namespace

Json json_of(const KernelReport& r) {
  Json measurements = Json::array(), left_out = Json::array();
  for (const KernelMeasurement& m : r.measurements) measurements.push_back(json_of(m));
  for (const KernelLeftOut& l : r.left_out) left_out.push_back({{"method", l.method}, {"reason", l.reason}});
  return {{"format", kKernelBenchFormat},
          {"format_version", kKernelBenchVersion},
          {"program", {{"version", r.program_version}, {"commit", r.program_commit}}},
          {"created", r.created},
          {"machine", json_of(r.machine)},
          {"arguments", r.arguments},
          {"seed", r.seed},
          {"shape",
           {{"num_query_heads", r.shape.num_query_heads},
            {"num_kv_heads", r.shape.num_kv_heads},
            {"head_dim", r.shape.head_dim},
            {"value_dim", r.shape.value_dim},
            {"element_type", r.shape.element_type}}},
          {"data", json_of(r.data)},
          {"measurements", std::move(measurements)},
          {"left_out", std::move(left_out)}};
}

}  // namespace attest
