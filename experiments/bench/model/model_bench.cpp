// Reads the record of attest bench model from JSON. The file is untrusted.
#include "experiments/bench/model/model_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "analysis/run/input_hashes.h"
#include "dumps/base/error.h"
#include "dumps/base/join.h"
#include "dumps/base/json_place.h"
#include "dumps/base/printable.h"
#include "dumps/dump_info.h"
#include "experiments/bench/kernel/kernel_report.h"
#include "experiments/bench/kernel/kernel_text.h"
#include "kernels/base/not_defined.h"

namespace attest {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;
constexpr std::size_t kMaxModelPoints = 1000;  // a run has some dozens; a damaged file may have any number

int count(const JsonPlace& at) { return static_cast<int>(at.whole(1, kLargestCount)); }

/// A number that a logarithmic axis can show.
double positive(const JsonPlace& at) {
  constexpr double kMin = 1e-12, kMax = 1e18;
  const double value = at.number();
  if (!(value >= kMin && value <= kMax)) at.refuse("a number from 1e-12 to 1e18");
  return value;
}

double share(const JsonPlace& at) {
  const double value = at.number();
  if (value > 1) at.refuse("a share from 0 to 1");
  return value;
}

double positive_or_null(const JsonPlace& at) { return at.is_null() ? kNaN : positive(at); }

ModelPoint point_of(const JsonPlace& fields) {
  const JsonPlace setting = fields["setting"], check = fields["check"];
  return {.method = fields["method"].one_of({"ffd", "sdpa_flash", "sdpa_cudnn"}),
          .setting = setting["kind"].one_of({"keep", "delta", "none"}),
          .value = setting["value"].number(),
          .context = fields["context"].whole(1, kLargestCount),
          .batch = count(fields["batch"]),
          .kept = share(fields["kept"]),
          .tokens_per_second = positive(fields["tokens_per_second"]),
          .low = positive(fields["tokens_per_second_low"]),
          .high = positive(fields["tokens_per_second_high"]),
          .step_ms = positive(fields["step_milliseconds"]),
          .attention_share = share(fields["attention_share"]),
          .cache_bytes = positive(fields["cache_bytes"]),
          .over_flash = positive_or_null(fields["over_flash"]),
          .over_cudnn = positive_or_null(fields["over_cudnn"]),
          .limit_flash = positive_or_null(fields["limit_flash"]),
          .limit_cudnn = positive_or_null(fields["limit_cudnn"]),
          .logits_difference = check["logits_difference"].number(),
          .tolerance = check["tolerance"].number()};
}

void add_left_out(const JsonPlace& line, ModelBench& bench) {
  const std::string& method = line["method"].one_of({"all", "ffd", "sdpa_flash", "sdpa_cudnn"});
  ModelPoint point{.method = method,
                   .context = line["context"].whole(1, kLargestCount),
                   .batch = count(line["batch"]),
                   .kept = kNotMeasured,
                   .tokens_per_second = kNotMeasured,
                   .low = kNotMeasured,
                   .high = kNotMeasured,
                   .step_ms = kNotMeasured,
                   .attention_share = kNotMeasured,
                   .cache_bytes = kNotMeasured,
                   .left_out = excerpt(line["reason"].text())};
  std::string whose = method == "all" ? "" : method + " at ";
  if (method == "ffd") {
    point.setting = line["setting"]["kind"].one_of({"keep", "delta"});
    point.value = line["setting"]["value"].number();
    bench.left_points.push_back(point);
    whose = point.curve_text() + " at ";
  }
  bench.left_out.push_back(fmt::format("{}{} tokens, batch {}, was not measured: {}.", whose,
                                       length_text(point.context), point.batch, point.left_out));
}

ModelBench read_model_bench(const std::string& path) {
  const Json document = read_json_object(path, "a record of 'attest bench model'", kMaxBytes);
  const JsonPlace fields(document, path);
  fields["format"].one_of({std::string(kModelBenchFormat)});
  fields["format_version"].whole(kModelBenchVersion, kModelBenchVersion);
  const JsonPlace model = fields["model"];
  ModelBench bench{.gpu = fields["machine"]["gpu"].text(),
                   .model = model["name"].text(),
                   .element_type = model["element_type"].one_of({"float16", "bfloat16"}),
                   .random_weights = model["random_weights"].flag(),
                   .layers = count(model["layers"]),
                   .query_heads = count(model["num_query_heads"]),
                   .kv_heads = count(model["num_kv_heads"]),
                   .head_dim = count(model["head_dim"]),
                   .weight_bytes = positive(model["weight_bytes"])};
  for (const JsonPlace& each : fields["measurements"].elements()) bench.points.push_back(point_of(each));
  if (bench.points.empty() || bench.points.size() > kMaxModelPoints)
    throw InputError(
        fmt::format("{}: has {} measurements, expected 1 to {}", path, bench.points.size(), kMaxModelPoints));
  for (const JsonPlace& each : fields["left_out"].elements()) add_left_out(each, bench);
  return bench;
}

/// Titles name curves and rows of panels: no two are alike.
void set_titles(const std::vector<std::string>& paths, std::vector<ModelBench>& benches) {
  std::map<std::string, int> gpus, models, files;
  const auto stem_of = [](const std::string& path) { return std::filesystem::path(path).stem().string(); };
  for (std::size_t i = 0; i < paths.size(); ++i) {
    benches[i].title = gpu_title(benches[i].gpu);
    ++gpus[benches[i].title];
    ++models[benches[i].model];
    ++files[stem_of(paths[i])];
  }
  for (std::size_t i = 0; i < paths.size(); ++i) {
    ModelBench& bench = benches[i];
    const std::string file = stem_of(paths[i]);
    if (gpus.at(bench.title) > 1)
      bench.title += fmt::format(" ({})", models.at(bench.model) == 1 ? bench.model
                                          : files.at(file) == 1       ? file
                                                                      : paths[i]);
  }
}

}  // namespace

std::string ModelPoint::curve_text() const {
  return is_baseline() ? method_text(method)
                       : method_text(method) + " " + setting_text({.kind = setting, .value = value});
}

std::string ModelBench::source() const {
  return fmt::format("{} on {}{}: {} layers, {} query heads, {} KV heads of {}, {}, weights of {:.1f} GB; bench {}",
                     model, gpu, random_weights ? ", random weights" : "", layers, query_heads, kv_heads, head_dim,
                     element_type, weight_bytes / 1e9, file);
}

std::vector<std::string> take_model_benches(std::vector<std::string>& benches) {
  const auto is_of_kernels = [](const std::string& path) {
    const Json document =
        read_json_object(path, "a record of 'attest bench kernel' or 'attest bench model'", kMaxBytes);
    const std::vector<std::string> formats{std::string(kKernelBenchFormat), std::string(kModelBenchFormat)};
    return JsonPlace(document, path)["format"].one_of(formats) == kKernelBenchFormat;
  };
  const auto models = std::ranges::stable_partition(benches, is_of_kernels);
  std::vector<std::string> taken(models.begin(), models.end());
  benches.erase(models.begin(), models.end());
  return taken;
}

std::vector<ModelBench> read_model_benches(const std::vector<std::string>& paths) {
  std::vector<ModelBench> benches;
  for (const std::string& path : paths) benches.push_back(read_model_bench(path));
  const std::vector<std::string> hashes = benches.empty() ? std::vector<std::string>() : content_hashes(paths, 1);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto same = static_cast<std::size_t>(std::ranges::find(hashes, hashes[i]) - hashes.begin());
    if (same < i) throw UsageError(fmt::format("{} and {} hold the same bench", paths[same], paths[i]));
    benches[i].file = fmt::format("{} ({})", std::filesystem::path(paths[i]).filename().string(), hashes[i]);
  }
  set_titles(paths, benches);
  return benches;
}

}  // namespace attest
