// Pools the measurements of kernel benches, and names what they are of.
#include "experiments/bench/kernel/kernel_study.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <tuple>

#include "analysis/run/input_hashes.h"
#include "dumps/base/error.h"
#include "dumps/base/printable.h"
#include "experiments/bench/kernel/curve_style.h"
#include "experiments/bench/kernel/kernel_text.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

/// FFD first, by kind and value of its setting; then other methods, the dense baselines last.
auto curve_order(const KernelPoint& p) {
  const auto method = std::ranges::find(kKernelMethods, p.method) - kKernelMethods.begin();
  return std::tuple(is_baseline(p.method), method, p.rule != "topdelta", p.launches == "split", p.is_dealt(),
                    p.scan.size(), p.scan, p.setting.kind, p.setting.value);
}

/// The curves that are drawn, but for the baselines. kernel_latency has the most: they come first and take the first
/// colours.
std::vector<std::string> curves_of(std::vector<KernelPoint> latencies, std::vector<KernelPoint> others) {
  std::vector<std::string> curves;
  for (std::vector<KernelPoint>* const points : {&latencies, &others}) {
    std::ranges::stable_sort(*points, {}, curve_order);
    for (const KernelPoint& point : *points)
      if (!is_baseline(point.method) && !point.is_dealt() && std::ranges::count(curves, curve_text(point)) == 0)
        curves.push_back(curve_text(point));
  }
  return curves;
}

std::pair<std::int64_t, std::int64_t> lengths_of(const std::vector<KernelPoint>& points) {
  std::pair<std::int64_t, std::int64_t> lengths = {std::numeric_limits<std::int64_t>::max(), 0};
  for (const KernelPoint& point : points)
    lengths = {std::min(lengths.first, point.length), std::max(lengths.second, point.length)};
  return lengths;
}

}  // namespace

std::vector<KernelPoint> KernelStudy::pooled(const std::function<bool(const KernelMeasurement&)>& is_wanted) const {
  std::vector<KernelPoint> points = pooled_points(report_.measurements, /*by_budget=*/true, is_wanted);
  std::ranges::stable_sort(points, [](const KernelPoint& a, const KernelPoint& b) {
    return std::tuple(a.batch, curve_order(a), a.length) < std::tuple(b.batch, curve_order(b), b.length);
  });
  return points;
}

std::vector<KernelPoint> KernelStudy::points(std::string_view experiment) const {
  return pooled([&](const KernelMeasurement& m) { return std::ranges::count(m.experiments, experiment) > 0; });
}

std::optional<KernelPoint> KernelStudy::baseline(std::string_view method, std::int64_t length, int batch) const {
  const std::vector<KernelPoint> found = pooled([&](const KernelMeasurement& m) {
    return m.method == method && m.length == length && m.batch == batch && m.setting.kind == "none";
  });
  return found.empty() ? std::nullopt : std::optional(found.front());
}

LineStyle KernelStudy::style(const KernelPoint& point) const {
  if (is_baseline(point.method)) return baseline_style(point.method);
  if (point.method == "skip_softmax") return skip_softmax_style();
  const auto index = static_cast<std::size_t>(std::ranges::find(curves_, curve_text(point)) - curves_.begin());
  return coloured_style(index);
}

std::vector<Finding> KernelStudy::left_out(const std::vector<std::string>& methods) const {
  std::vector<Finding> findings;
  for (const KernelLeftOut& left : report_.left_out)
    if (std::ranges::count(methods, left.method) > 0)
      findings.push_back({.text = fmt::format("{} was not measured: {}.", left.method, excerpt(left.reason))});
  return findings;
}

std::string KernelStudy::source() const {
  const KernelMachine& machine = report_.machine;
  std::string clock;
  if (!std::isnan(machine.sm_clock_mhz)) clock = fmt::format(", {:g} MHz", machine.sm_clock_mhz);
  const std::string data =
      report_.data.source == "dump"
          ? fmt::format("layers of {} ({})", fs::path(report_.data.path).filename().string(), report_.data.model)
          : "generated data";
  const KernelShape& shape = report_.shape;
  return fmt::format(
      "{} (driver {}, CUDA {}{}, copies {:.3g} TB/s), {} with {} query heads, {} KV heads, head_dim {}; bench {}",
      machine.gpu, machine.driver, machine.cuda_runtime, clock, machine.copy_bytes_per_second / 1e12, data,
      shape.num_query_heads, shape.num_kv_heads, shape.head_dim, file_);
}

std::vector<KernelStudy> read_kernel_studies(const std::vector<std::string>& paths) {
  std::vector<KernelStudy> studies;
  for (const std::string& path : paths) studies.emplace_back().report_ = read_kernel_report(path);
  if (studies.empty()) return studies;

  const std::vector<std::string> hashes = content_hashes(paths, 1);
  std::map<std::string, int> gpus, files;
  std::vector<KernelPoint> latencies, others;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto same = static_cast<std::size_t>(std::ranges::find(hashes, hashes[i]) - hashes.begin());
    if (same < i) throw UsageError(fmt::format("{} and {} hold the same bench", paths[same], paths[i]));
    studies[i].file_ = fmt::format("{} ({})", fs::path(paths[i]).filename().string(), hashes[i]);
    ++gpus[studies[i].report_.machine.gpu];
    ++files[fs::path(paths[i]).stem().string()];
    std::ranges::copy(studies[i].points("kernel_latency"), std::back_inserter(latencies));
    const std::vector<KernelPoint> mine = studies[i].pooled([](const KernelMeasurement&) { return true; });
    if (mine.size() > kMaxPoints)
      throw InputError(
          fmt::format("{}: measurements are of {} different methods, settings, lengths or batch sizes, "
                      "expected at most {}",
                      paths[i], mine.size(), kMaxPoints));
    others.insert(others.end(), mine.begin(), mine.end());
  }
  const std::vector<std::string> curves = curves_of(latencies, others);
  const std::pair<std::int64_t, std::int64_t> lengths = lengths_of(latencies);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string& gpu = studies[i].report_.machine.gpu;
    const std::string file = fs::path(paths[i]).stem().string();
    studies[i].title_ = gpu_title(gpu);
    if (gpus[gpu] > 1) studies[i].title_ += fmt::format(" ({})", files[file] == 1 ? file : paths[i]);
    studies[i].curves_ = curves;
    studies[i].lengths_ = lengths;
  }
  return studies;
}

std::string curve_text(const KernelPoint& point) {
  std::string text = method_text(point.method);
  if (point.method == "ffd") {
    if (!point.scan.empty() && point.scan != "2-bit") text += " " + point.scan;
    if (point.rule == "topk") text += " top-k";
    if (point.launches == "split") text += " split";
    if (point.is_dealt()) text += " dealt";
  }
  const std::string setting = setting_text(point.setting);
  return setting.empty() ? text : text + " " + setting;
}

}  // namespace attest
