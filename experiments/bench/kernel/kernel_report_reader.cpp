// Reads a kernel report from JSON. The file is untrusted.
#include <cmath>
#include <limits>

#include "analysis/results/manifest_inputs.h"
#include "dumps/base/json_place.h"
#include "dumps/dump_info.h"
#include "experiments/bench/kernel/kernel_report.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;

int count(const JsonPlace& at, std::int64_t min) { return static_cast<int>(at.whole(min, kLargestCount)); }

/// A text; an empty one for null.
std::string text_or_null(const JsonPlace& at) {
  if (at.is_null()) return {};
  if (at.is_missing() || !at.value().is_text()) at.refuse("a text or null");
  return at.text();
}
std::string one_of_or_null(const JsonPlace& at, const std::vector<std::string>& texts) {
  return at.is_null() ? "" : at.one_of(texts);
}

/// A number that a logarithmic axis can show.
double measured(const JsonPlace& at) {
  constexpr double kMin = 1e-30, kMax = 1e30;
  const double value = at.number();
  if (value != 0 && !(value >= kMin && value <= kMax)) at.refuse("0 or a number from 1e-30 to 1e30");
  return value;
}

/// A number; NaN for null.
double number_or_null(const JsonPlace& at) {
  if (at.is_null()) return kNaN;
  if (at.is_missing() || !at.value().is_number() || !(at.value().number() >= 0))
    at.refuse("a number of at least 0 or null");
  return measured(at);
}
/// A cosine, which may exceed 1 by rounding; NaN for null.
double cosine_or_null(const JsonPlace& at) {
  if (at.is_null()) return kNaN;
  const double value = at.is_missing() || !at.value().is_number() ? 2 : at.value().number();
  if (!(std::fabs(value) <= 1 + 1e-6)) at.refuse("a number from -1 to 1 or null");
  return value;
}

KernelMachine machine_of(const JsonPlace& fields) {
  return {.gpu = fields["gpu"].text(),
          .multiprocessors = count(fields["multiprocessors"], 1),
          .memory_bytes = fields["memory_bytes"].whole(0, std::numeric_limits<std::int64_t>::max()),
          .driver = fields["driver"].text(),
          .cuda_runtime = fields["cuda_runtime"].text(),
          .torch = text_or_null(fields["torch"]),
          .sm_clock_mhz = number_or_null(fields["sm_clock_mhz"]),
          .memory_clock_mhz = number_or_null(fields["memory_clock_mhz"]),
          .copy_bytes_per_second = measured(fields["copy_bytes_per_second"])};
}

KernelShape shape_of(const JsonPlace& fields) {
  KernelShape shape{.num_query_heads = count(fields["num_query_heads"], 1),
                    .num_kv_heads = count(fields["num_kv_heads"], 1),
                    .head_dim = count(fields["head_dim"], 1),
                    .value_dim = count(fields["value_dim"], 1),
                    .element_type = fields["element_type"].one_of({"float16", "bfloat16"})};
  if (shape.num_query_heads % shape.num_kv_heads != 0) fields["num_query_heads"].refuse("a multiple of num_kv_heads");
  return shape;
}

KernelData data_of(const JsonPlace& fields) {
  KernelData data;
  data.source = fields["source"].one_of({"generated", "dump"});
  if (data.source == "generated") return data;
  data.path = fields["path"].text();
  data.xxh64_of_1mib = fields[kContentHashName].text();
  data.model = fields["model"].text();
  return data;
}

KernelFidelity fidelity_of(const JsonPlace& fields) {
  return {.recall_mean = cosine_or_null(fields["recall_mean"]),
          .recall_min = cosine_or_null(fields["recall_min"]),
          .lse_error_mean = number_or_null(fields["lse_error_mean"]),
          .lse_error_max = number_or_null(fields["lse_error_max"])};
}

KernelCheck check_of(const JsonPlace& fields) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  return {.against = fields["against"].text(),
          .largest_output_error = number_or_null(fields["largest_output_error"]),
          .largest_lse_error = number_or_null(fields["largest_lse_error"]),
          .blocks_differing = fields["blocks_differing"].whole(0, kMax),
          .blocks = fields["blocks"].whole(0, kMax)};
}

KernelMeasurement measurement_of(const JsonPlace& fields) {
  KernelMeasurement m;
  m.experiments = fields["experiments"].texts();
  m.method = fields["method"].one_of(kKernelMethods);
  m.length = fields["length"].whole(1, kLargestCount);
  m.batch = count(fields["batch"], 1);
  if (!fields["layer"].is_null()) m.layer = count(fields["layer"], 0);
  m.sample = text_or_null(fields["sample"]);
  m.tiled = fields["tiled"].flag();
  m.scan = one_of_or_null(fields["scan"], {"2-bit", "4-bit", "8-bit", "16-bit"});
  m.rule = one_of_or_null(fields["rule"], {"topdelta", "topk", "topp", "none"});
  m.launches = one_of_or_null(fields["launches"], {"fused", "dealt", "split"});
  const JsonPlace setting = fields["setting"];
  m.setting = {.kind = setting["kind"].one_of({"delta", "keep", "factor", "none"}),
               .value = measured(setting["value"])};
  m.delta = number_or_null(fields["delta"]);
  m.keep_ratio = number_or_null(fields["keep_ratio"]);
  m.io_ratio = number_or_null(fields["io_ratio"]);
  m.bytes = measured(fields["bytes"]);
  m.floor_microseconds = measured(fields["floor_microseconds"]);
  for (const JsonPlace& each : fields["microseconds"].elements()) m.microseconds.push_back(measured(each));
  m.median_microseconds = number_or_null(fields["median_microseconds"]);
  if (!fields["fidelity"].is_null()) m.fidelity = fidelity_of(fields["fidelity"]);
  m.check = check_of(fields["check"]);
  return m;
}

}  // namespace

KernelReport read_kernel_report(const std::string& path) {
  const Json document = read_json_object(path, "a kernel report of 'attest bench kernel'", kMaxBytes);
  const JsonPlace fields(document, path);
  fields["format"].one_of({std::string(kKernelBenchFormat)});
  fields["format_version"].whole(kKernelBenchVersion, kKernelBenchVersion);
  KernelReport report;
  const JsonPlace program = fields["program"];
  report.program_version = program["version"].text();
  report.program_commit = program["commit"].text();
  report.created = fields["created"].text();
  report.machine = machine_of(fields["machine"]);
  report.arguments = fields["arguments"].texts();
  report.seed = fields["seed"].unsigned_whole();
  report.shape = shape_of(fields["shape"]);
  report.data = data_of(fields["data"]);
  for (const JsonPlace& each : fields["measurements"].elements()) report.measurements.push_back(measurement_of(each));
  for (const JsonPlace& each : fields["left_out"].elements())
    report.left_out.push_back({.method = each["method"].text(), .reason = each["reason"].text()});
  return report;
}

}  // namespace attest
