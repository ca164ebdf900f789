// Pools measurements over layers, and prints them as lines.
#include "experiments/decode/kernel_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "analysis/statistics/quantile.h"
#include "dumps/base/byte_size.h"
#include "dumps/base/printable.h"
#include "experiments/cli/output/aligned_text.h"

namespace attest {
namespace {

/// The measurements of one method, setting, length and batch over layers.
struct Line {
  const KernelMeasurement* first = nullptr;
  std::vector<double> medians, floors, keeps, ios, recalls;
};

using Key = std::tuple<std::string, std::string, std::string, std::string, std::int64_t, int, std::string, double>;

/// Calibrated shares differ a little between layers where they were not typed: those of topk in an ablation.
Key key_of(const KernelMeasurement& m) {
  const bool matched = m.rule == "topk" && m.setting.kind == "keep" && m.method == "ffd";
  return {m.method, m.scan, m.rule, m.launches, m.length, m.batch, m.setting.kind, matched ? 0 : m.setting.value};
}

std::vector<Line> lines_of(const KernelReport& report) {
  std::map<Key, std::size_t> places;
  std::vector<Line> lines;
  for (const KernelMeasurement& m : report.measurements) {
    const auto [place, added] = places.emplace(key_of(m), lines.size());
    if (added) lines.push_back({.first = &m, .medians = {}, .floors = {}, .keeps = {}, .ios = {}, .recalls = {}});
    Line& line = lines[place->second];
    line.medians.push_back(m.median_microseconds);
    line.floors.push_back(m.floor_microseconds);
    line.keeps.push_back(m.keep_ratio);
    line.ios.push_back(m.io_ratio);
    if (m.fidelity) line.recalls.push_back(m.fidelity->recall_mean);
  }
  std::ranges::stable_sort(lines, {},
                           [](const Line& line) { return std::pair(line.first->length, line.first->batch); });
  return lines;
}

double middle(const std::vector<double>& values) { return quantile(values, 0.5); }

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }
std::string number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "-";
}
std::string percent(double share) { return std::isfinite(share) ? fmt::format("{:.2f}%", 100 * share) : "-"; }

std::string setting_text(const KernelMeasurement& m) {
  if (m.setting.kind == "none") return "-";
  if (m.setting.kind != "keep") return fmt::format("{} {}", m.setting.kind, m.setting.value);
  return fmt::format("keep {:.3g}%", 100 * m.setting.value);
}

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
  const std::vector<Line> lines = lines_of(report);
  const auto median_of = [&](const char* method, const Line& at) {
    const auto found = std::ranges::find_if(lines, [&](const Line& line) {
      return line.first->method == method && line.first->length == at.first->length &&
             line.first->batch == at.first->batch;
    });
    return found == lines.end() ? kNotMeasured : middle(found->medians);
  };
  std::vector<std::vector<std::string>> cells{{"method", "scan", "rule", "launches", "length", "batch", "setting",
                                               "keep", "io", "us", "min..max", "floor us", "of floor", "vs flash",
                                               "vs cuDNN", "1/io", "recall"}};
  for (const Line& line : lines) {
    const KernelMeasurement& m = *line.first;
    const double median = middle(line.medians), floor = middle(line.floors), io = middle(line.ios);
    const auto speedup = [&](const char* method) {
      const double ratio = m.fidelity ? median_of(method, line) / median : kNotMeasured;
      return std::isfinite(ratio) ? fmt::format("{:.2f}x", ratio) : "-";
    };
    cells.push_back(
        {m.method, or_dash(m.scan), or_dash(m.rule), or_dash(m.launches), length_text(m.length),
         fmt::format("{}", m.batch), setting_text(m), percent(middle(line.keeps)), percent(io), number(median, 1),
         fmt::format("{}..{}", number(std::ranges::min(line.medians), 1), number(std::ranges::max(line.medians), 1)),
         number(floor, 1), number(median / floor, 2), speedup("sdpa_flash"), speedup("sdpa_cudnn"),
         std::isfinite(1 / io) ? fmt::format("{:.1f}x", 1 / io) : "-", number(middle(line.recalls), 5)});
  }
  std::string text = machine_text(report) + aligned_text(cells, 4);
  for (const KernelLeftOut& line : report.left_out)
    text += fmt::format("left out: {}: {}\n", printable(line.method), printable(line.reason));
  return text;
}

std::string length_text(std::int64_t tokens) {
  constexpr std::int64_t kKibi = 1024, kMebi = kKibi * kKibi;
  if (tokens % kMebi == 0) return fmt::format("{}M", tokens / kMebi);
  return tokens % kKibi == 0 ? fmt::format("{}K", tokens / kKibi) : fmt::format("{}", tokens);
}

std::string setting_text(const KernelSetting& setting) {
  if (setting.kind == "none") return {};
  if (setting.kind == "keep") return fmt::format("keep {:.3g} %", 100 * setting.value);
  return fmt::format("{} {:g}", setting.kind, setting.value);
}

}  // namespace attest
