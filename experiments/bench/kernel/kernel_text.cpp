// The lines of the table.
#include "experiments/bench/kernel/kernel_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "dumps/base/byte_size.h"
#include "dumps/base/join.h"
#include "dumps/base/printable.h"
#include "experiments/bench/kernel/kernel_point.h"
#include "experiments/cli/output/aligned_text.h"

namespace attest {
namespace {

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }
std::string number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "-";
}
std::string ratio_text(double ratio, int digits) { return std::isfinite(ratio) ? number(ratio, digits) + "x" : "-"; }

std::string machine_text(const KernelReport& report) {
  const KernelMachine& machine = report.machine;
  const KernelShape& shape = report.shape;
  std::string text =
      fmt::format("{}, {} multiprocessors, {}; driver {}, CUDA {}, LibTorch {}\n", printable(machine.gpu),
                  machine.multiprocessors, byte_size_text(machine.memory_bytes), or_dash(printable(machine.driver)),
                  printable(machine.cuda_runtime), or_dash(printable(machine.torch)));
  text += fmt::format("SM clock {} MHz, memory clock {} MHz while kernels ran; copy bandwidth {:.0f} GB/s\n",
                      number(machine.sm_clock_mhz, 0), number(machine.memory_clock_mhz, 0),
                      machine.copy_bytes_per_second / 1e9);
  text += fmt::format("{} query heads, {} KV heads, head_dim {}, value_dim {}, {}; {}\n\n", shape.num_query_heads,
                      shape.num_kv_heads, shape.head_dim, shape.value_dim, shape.element_type,
                      report.data.source == "dump" ? printable(report.data.path) : "generated inputs");
  return text;
}

}  // namespace

std::string text_of(const KernelReport& report) {
  std::vector<KernelPoint> points =
      pooled_points(report.measurements, /*by_budget=*/false, [](const KernelMeasurement&) { return true; });
  std::ranges::stable_sort(points, {}, [](const KernelPoint& p) { return std::pair(p.length, p.batch); });
  std::vector<std::vector<std::string>> cells{{"method", "scan", "rule", "launches", "length", "batch", "setting",
                                               "keep", "io", "us", "min..max", "floor us", "of floor", "vs flash",
                                               "vs cuDNN", "1/io", "recall"}};
  for (const KernelPoint& p : points) {
    const auto over = [&](const char* method) {
      const auto found = std::ranges::find_if(points, [&](const KernelPoint& other) {
        return other.method == method && other.length == p.length && other.batch == p.batch;
      });
      return found == points.end() || !p.attends ? "-" : ratio_text(speed_up(p, *found), 2);
    };
    cells.push_back({p.method, or_dash(p.scan), or_dash(p.rule), or_dash(p.launches), length_text(p.length),
                     fmt::format("{}", p.batch), or_dash(setting_text(p.setting)), formatted(p.keep, "ratio"),
                     formatted(p.io, "ratio"), number(p.us, 1),
                     fmt::format("{}..{}", number(p.us_low, 1), number(p.us_high, 1)), number(p.floor_us, 1),
                     number(p.floor_ratio(), 2), over("sdpa_flash"), over("sdpa_cudnn"), ratio_text(p.io_limit(), 1),
                     number(p.recall_mean, 5)});
  }
  std::string text = machine_text(report) + aligned_text(cells, 4);
  for (const KernelLeftOut& line : report.left_out)
    text += fmt::format("left out: {}: {}\n", printable(line.method), printable(line.reason));
  return text;
}

std::string method_text(const std::string& method) {
  if (method == "ffd") return "FFD";
  if (method == "sdpa_flash") return "SDPA flash";
  return method == "sdpa_cudnn" ? "SDPA cuDNN" : method;
}

std::string gpu_title(const std::string& gpu) {
  constexpr std::string_view kMaker = "NVIDIA ";
  return gpu.starts_with(kMaker) ? gpu.substr(kMaker.size()) : gpu;
}

std::string setting_text(const KernelSetting& setting) {
  if (setting.kind == "none") return {};
  if (setting.kind == "keep") return fmt::format("keep {:.3g} %", 100 * setting.value);
  return fmt::format("{} {:g}", setting.kind, setting.value);
}

}  // namespace attest
