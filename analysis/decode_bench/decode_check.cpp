// Errors of outputs, and ranks of sub-blocks.
#include "analysis/decode_bench/decode_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "dumps/base/error.h"

namespace attest {
namespace {

struct RowError {
  double relative = 0;  ///< norm of the difference over the norm of the expected row
  double cosine = 0;
};

RowError row_error(std::span<const float> found, std::span<const double> expected) {
  double difference = 0, own = 0, other = 0, product = 0;
  for (std::size_t c = 0; c < expected.size(); ++c) {
    const double x = found[c], y = expected[c];
    difference += (x - y) * (x - y);
    own += x * x;
    other += y * y;
    product += x * y;
  }
  const double norms = std::sqrt(own) * std::sqrt(other);
  return {.relative = difference == 0 ? 0 : std::sqrt(difference / other),
          .cosine = difference == 0 ? 1 : std::clamp(product / norms, -1.0, 1.0)};
}

/// Calls each(error of the row's output, difference of its LSEs, or 0).
template <class Each>
void for_rows(const DecodeOutput& found, std::span<const double> out, std::span<const double> lse, Each&& each) {
  const std::size_t width = out.size() / lse.size();
  for (std::size_t row = 0; row < lse.size(); ++row) {
    const RowError error = row_error(std::span(found.out).subspan(row * width, width), out.subspan(row * width, width));
    each(error, found.lse.empty() ? 0 : std::fabs(found.lse[row] - lse[row]));
  }
}

/// Larger of the two; NaN if one is.
double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNotMeasured : std::max(a, b); }

}  // namespace

std::string kernel_name(const KernelSpec& spec, std::int64_t length, int batch) {
  std::string name = spec.method;
  if (!spec.scan.empty()) name += fmt::format(", {} scan", spec.scan);
  for (const std::string* part : {&spec.rule, &spec.launches})
    if (!part->empty()) name += ", " + *part;
  return fmt::format("bench: {}, {} tokens, batch {}", name, length, batch);
}

std::string reference_check_text(std::int64_t rows) {
  return fmt::format("plain kernel in double precision, {} rows", rows);
}

void check_output(const std::string& what, const DecodeOutput& found, std::span<const double> out,
                  std::span<const double> lse, const DecodeTolerance& tolerance, KernelCheck& check) {
  if (found.out.size() != out.size() || (!found.lse.empty() && found.lse.size() != lse.size()))
    throw Error(fmt::format("{}: returned {} values, expected {}", what, found.out.size(), out.size()));
  double largest = 0, largest_lse = 0;
  for_rows(found, out, lse, [&](const RowError& error, double lse_error) {
    largest = larger(largest, error.relative);
    largest_lse = larger(largest_lse, lse_error);
  });
  check.largest_output_error = largest;
  check.largest_lse_error = found.lse.empty() ? kNotMeasured : largest_lse;
  const auto refuse = [&](const char* quantity, double error, double maximum) {
    throw Error(
        fmt::format("{}: an {} differs from that of the plain kernel by {:.3g}, expected at most {:.3g}; "
                    "nothing was timed",
                    what, quantity, error, maximum));
  };
  if (!(largest <= tolerance.output)) refuse("output", largest, tolerance.output);
  if (!(largest_lse <= tolerance.lse)) refuse("LSE", largest_lse, tolerance.lse);
}

KernelFidelity fidelity_of(const DecodeOutput& found, std::span<const double> out, std::span<const double> lse) {
  KernelFidelity fidelity{.recall_mean = 0, .recall_min = 1, .lse_error_mean = 0, .lse_error_max = 0};
  for_rows(found, out, lse, [&](const RowError& error, double lse_error) {
    fidelity.recall_mean += error.cosine / static_cast<double>(lse.size());
    fidelity.recall_min = std::min(fidelity.recall_min, error.cosine);
    fidelity.lse_error_mean += lse_error / static_cast<double>(lse.size());
    fidelity.lse_error_max = larger(fidelity.lse_error_max, lse_error);
  });
  if (found.lse.empty()) fidelity.lse_error_mean = fidelity.lse_error_max = kNotMeasured;
  return fidelity;
}

std::vector<std::uint8_t> lowest_margins(const RankedBlocks& blocks, std::span<const int> counts) {
  std::vector<std::uint8_t> kept(blocks.margins.size(), 0);
  std::vector<std::size_t> order(static_cast<std::size_t>(blocks.sub_blocks));
  for (std::size_t pair = 0; pair < static_cast<std::size_t>(blocks.pairs); ++pair) {
    const std::size_t first = pair * order.size();
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t sub) { return blocks.margins[first + sub]; });
    const std::size_t count = std::min(order.size(), static_cast<std::size_t>(std::max(0, counts[pair])));
    for (std::size_t i = 0; i < count; ++i) kept[first + order[i]] = 1;
  }
  return kept;
}

std::vector<int> counts_within(const RankedBlocks& blocks, double delta) {
  std::vector<int> counts(static_cast<std::size_t>(blocks.pairs));
  for (std::size_t pair = 0; pair < counts.size(); ++pair) {
    const auto own = blocks.margins.subspan(pair * static_cast<std::size_t>(blocks.sub_blocks),
                                            static_cast<std::size_t>(blocks.sub_blocks));
    counts[pair] = static_cast<int>(std::ranges::count_if(own, [&](double margin) { return margin <= delta; }));
  }
  return counts;
}

void check_counts(const std::string& what, const RankedBlocks& blocks, std::span<const int> found,
                  std::span<const int> expected, double delta, KernelCheck& check) {
  check.blocks = blocks.pairs * blocks.sub_blocks;
  check.blocks_differing = 0;
  const auto heads = static_cast<std::size_t>(blocks.num_kv_heads);
  const std::vector<int> minimum = counts_within(blocks, delta - blocks.tolerance),
                         maximum = counts_within(blocks, delta + blocks.tolerance);
  for (std::size_t pair = 0; pair < expected.size(); ++pair) {
    check.blocks_differing += std::abs(found[pair] - expected[pair]);
    const bool near = found[pair] >= minimum[pair] && found[pair] <= maximum[pair];
    if (found[pair] != expected[pair] && !near)
      throw Error(fmt::format("{}: KV head {} of sequence {} kept {} of {} sub-blocks, expected {}; nothing was timed",
                              what, pair % heads, pair / heads, found[pair], blocks.sub_blocks, expected[pair]));
  }
}

double delta_that_keeps(const RankedBlocks& blocks, std::int64_t count) {
  std::vector<double> sorted(blocks.margins.begin(), blocks.margins.end());
  if (count >= static_cast<std::int64_t>(sorted.size())) return std::numeric_limits<double>::infinity();
  if (count <= 0) return 0;
  std::ranges::sort(sorted);
  const auto at = static_cast<std::size_t>(count);
  return std::max(0.0, (sorted[at - 1] + sorted[at]) / 2);
}

}  // namespace attest
