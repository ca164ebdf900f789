// Reads a kernel report from JSON. The file is untrusted.
#include <nlohmann/json.hpp>

#include "dumps/base/json_file.h"
#include "dumps/dump_info.h"
#include "experiments/bench/json_fields.h"
#include "experiments/bench/kernel_report.h"

namespace attest {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;

int count(const JsonFields& fields, const char* name, std::int64_t least) {
  return static_cast<int>(fields.whole(name, least, kLargestCount));
}

KernelMachine machine_of(const JsonFields& fields) {
  return {.gpu = fields.text("gpu"),
          .multiprocessors = count(fields, "multiprocessors", 1),
          .memory_bytes = fields.whole("memory_bytes", 0, std::numeric_limits<std::int64_t>::max()),
          .driver = fields.text("driver"),
          .cuda_runtime = fields.text("cuda_runtime"),
          .torch = fields.text_or_null("torch"),
          .sm_clock_mhz = fields.number_or_null("sm_clock_mhz"),
          .memory_clock_mhz = fields.number_or_null("memory_clock_mhz"),
          .copy_bytes_per_second = fields.number("copy_bytes_per_second")};
}

KernelShape shape_of(const JsonFields& fields) {
  KernelShape shape{.num_query_heads = count(fields, "num_query_heads", 1),
                    .num_kv_heads = count(fields, "num_kv_heads", 1),
                    .head_dim = count(fields, "head_dim", 1),
                    .value_dim = count(fields, "value_dim", 1),
                    .element_type = fields.one_of("element_type", {"float16", "bfloat16"})};
  if (shape.num_query_heads % shape.num_kv_heads != 0) fields.refuse("num_query_heads", "a multiple of num_kv_heads");
  return shape;
}

KernelData data_of(const JsonFields& fields) {
  KernelData data;
  data.source = fields.one_of("source", {"generated", "dump"});
  if (data.source == "generated") return data;
  data.path = fields.text("path");
  data.xxh64_of_1mib = fields.text("xxh64_of_1MiB");
  data.model = fields.text("model");
  return data;
}

KernelFidelity fidelity_of(const JsonFields& fields) {
  return {.recall_mean = fields.cosine_or_null("recall_mean"),
          .recall_min = fields.cosine_or_null("recall_min"),
          .lse_error_mean = fields.number_or_null("lse_error_mean"),
          .lse_error_max = fields.number_or_null("lse_error_max")};
}

KernelCheck check_of(const JsonFields& fields) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return {.against = fields.text("against"),
          .largest_output_error = fields.number_or_null("largest_output_error"),
          .largest_lse_error = fields.number_or_null("largest_lse_error"),
          .blocks_differing = fields.whole("blocks_differing", 0, kMost),
          .blocks = fields.whole("blocks", 0, kMost)};
}

KernelMeasurement measurement_of(const JsonFields& fields) {
  KernelMeasurement m;
  m.experiments = fields.texts("experiments");
  m.method = fields.one_of("method", kKernelMethods);
  m.length = fields.whole("length", 1, kLargestCount);
  m.batch = count(fields, "batch", 1);
  if (!fields.is_null("layer")) m.layer = count(fields, "layer", 0);
  m.sample = fields.text_or_null("sample");
  m.tiled = fields.flag("tiled");
  m.scan = fields.one_of_or_null("scan", {"2-bit", "4-bit", "8-bit", "16-bit"});
  m.rule = fields.one_of_or_null("rule", {"topdelta", "topk", "topp", "none"});
  m.launches = fields.one_of_or_null("launches", {"fused", "split"});
  const JsonFields setting = fields.object("setting");
  m.setting = {.kind = setting.one_of("kind", {"delta", "keep", "factor", "none"}), .value = setting.number("value")};
  m.delta = fields.number_or_null("delta");
  m.keep_ratio = fields.number_or_null("keep_ratio");
  m.io_ratio = fields.number_or_null("io_ratio");
  m.bytes = fields.number("bytes");
  m.floor_microseconds = fields.number("floor_microseconds");
  m.microseconds = fields.numbers("microseconds");
  m.median_microseconds = fields.number_or_null("median_microseconds");
  if (!fields.is_null("fidelity")) m.fidelity = fidelity_of(fields.object("fidelity"));
  m.check = check_of(fields.object("check"));
  return m;
}

}  // namespace

KernelReport read_kernel_report(const std::string& path) {
  const nlohmann::json document = read_json_object(path, "a kernel report of 'attest bench kernel'", kMostBytes);
  const JsonFields fields(path, "", document);
  fields.one_of("format", {std::string(kKernelBenchFormat)});
  fields.whole("format_version", kKernelBenchVersion, kKernelBenchVersion);
  KernelReport report;
  const JsonFields program = fields.object("program");
  report.program_version = program.text("version");
  report.program_commit = program.text("commit");
  report.created = fields.text("created");
  report.machine = machine_of(fields.object("machine"));
  report.arguments = fields.texts("arguments");
  report.seed = fields.unsigned_whole("seed");
  report.shape = shape_of(fields.object("shape"));
  report.data = data_of(fields.object("data"));
  fields.objects("measurements", [&](const JsonFields& each) { report.measurements.push_back(measurement_of(each)); });
  fields.objects("left_out", [&](const JsonFields& each) {
    report.left_out.push_back({.method = each.text("method"), .reason = each.text("reason")});
  });
  return report;
}

}  // namespace attest
