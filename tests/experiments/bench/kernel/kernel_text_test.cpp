// The table of a made report.
#include "experiments/bench/kernel/kernel_text.h"

#include <gmock/gmock.h>

#include <sstream>

#include "experiments/bench/kernel/kernel_point.h"
#include "tests/experiments/bench/kernel/made_kernel_report.h"

namespace attest {
namespace {

using testing::HasSubstr;

/// The cells of the first line that begins with `method`.
std::vector<std::string> cells_of(const std::string& text, const std::string& method) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> cells;
    for (std::string word; words >> word;) cells.push_back(word);
    if (!cells.empty() && cells[0] == method) return cells;
  }
  return {};
}

TEST(KernelText, PoolsLayers) {
  const std::string text = text_of(made_kernel_report());
  EXPECT_THAT(cells_of(text, "ffd"),
              testing::ElementsAre("ffd", "2-bit", "topdelta", "fused", "32K", "1", "delta", "5", "8.00%", "12.50%",
                                   "12.0", "10.0..14.0", "3.5", "3.43", "5.00x", "-", "8.0x", "0.99900"));
  EXPECT_THAT(cells_of(text, "sdpa_flash"),
              testing::ElementsAre("sdpa_flash", "16-bit", "none", "-", "32K", "1", "-", "100.00%", "100.00%", "60.0",
                                   "60.0..60.0", "33.0", "1.82", "1.00x", "-", "1.0x", "-"));
  EXPECT_THAT(cells_of(text, "kivi_scan"),
              testing::ElementsAre("kivi_scan", "2-bit", "none", "-", "32K", "1", "-", "100.00%", "10.00%", "8.0",
                                   "8.0..8.0", "3.0", "2.67", "-", "-", "10.0x", "-"));
}

TEST(KernelText, HasTheMeanOverLayersAsFiguresDo) {
  KernelReport report = made_kernel_report();
  report.measurements.push_back(report.measurements[0]);
  report.measurements.back().median_microseconds = 30;
  const std::vector<std::string> cells = cells_of(text_of(report), "ffd");
  EXPECT_EQ(cells[10], "18.0") << "not the median, 14";
  EXPECT_EQ(cells[14], "3.33x");
}

TEST(KernelText, HasOneLineOfTopKWhoseBudgetsWereMatchedAndNoneWithoutATime) {
  KernelReport report = made_kernel_report();
  const KernelMeasurement ffd = report.measurements[0];
  report.measurements.clear();
  for (const double keep : {0.06, 0.1}) {
    KernelMeasurement& topk = report.measurements.emplace_back(ffd);
    topk.rule = "topk";
    topk.setting = {.kind = "keep", .value = keep};
  }
  KernelMeasurement& failed = report.measurements.emplace_back(ffd);
  failed.median_microseconds = kNotMeasured;
  const std::string text = text_of(report);
  EXPECT_EQ(cells_of(text, "ffd")[2], "topk");
  EXPECT_EQ(text.find("ffd"), text.rfind("ffd")) << text;
  const auto all = [](const KernelMeasurement&) { return true; };
  EXPECT_EQ(pooled_points(report.measurements, /*by_budget=*/true, all).size(), 2u);
}

TEST(KernelText, TellsTheMachineAndWhatWasLeftOut) {
  const std::string text = text_of(made_kernel_report());
  EXPECT_THAT(text, HasSubstr("NVIDIA H200, 132 multiprocessors, "));
  EXPECT_THAT(text, HasSubstr("driver 580.65.06, CUDA 13.0, LibTorch 2.11.0\n"));
  EXPECT_THAT(text, HasSubstr("SM clock 1980 MHz, memory clock - MHz while kernels ran; copy bandwidth 4000 GB/s\n"));
  EXPECT_THAT(text, HasSubstr("\nleft out: sdpa_cudnn: this LibTorch has no cuDNN\n"));
}

TEST(KernelText, HasALineForAReportWithoutMeasurements) {
  KernelReport report;
  EXPECT_THAT(text_of(report), HasSubstr("method"));
}

TEST(KernelText, IsPrintable) {
  KernelReport report = made_kernel_report();
  report.machine.gpu = "a\x1b[31m";
  report.data.path = "b\n";
  report.left_out[0].reason = "c\x07";
  const std::string text = text_of(report);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\x07'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("b\\x0a"));
}

}  // namespace
}  // namespace attest
