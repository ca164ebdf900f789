// Quest's page score bounds on the device against their formula and against the CPU's.
#include <gtest/gtest.h>

#include "kernels/attention/page_scores.h"
#include "kernels/attention/page_scores_cuda.h"
#include "tests/kernels/device_cases.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {
namespace {

// Products, additions, scaling and soft-cap are each rounded to float32.
constexpr double kRounding = 0x1p-24;
constexpr int kOtherRoundings = 8;

struct PlainBound {
  double score = 0, magnitude = 0;
};

/// Bound of the scores of tokens [begin, end).
PlainBound plain_bound(const Query& query, int h, int begin, int end) {
  double sum = 0, magnitude = 0;
  for (int d = 0; d < query.dim(); ++d) {
    double minimum = query.k(begin, d), maximum = minimum;
    for (int j = begin; j < end; ++j)
      minimum = std::min(minimum, query.k(j, d)), maximum = std::max(maximum, query.k(j, d));
    const double term = std::max(query.q(h, d) * maximum, query.q(h, d) * minimum);
    sum += term;
    magnitude += std::fabs(term);
  }
  return {query.score_of(sum), query.head->transform.scale * magnitude + query.head->transform.softcap};
}

std::vector<int> counts_of_pages(const std::vector<int>& lengths, int page) {
  std::vector<int> counts;
  for (int length : lengths) counts.push_back((length + page - 1) / page);
  return counts;
}

class PageScoresCuda : public OnGpuWith<Case> {};

TEST_P(PageScoresCuda, AreSumsOfTheLargestProducts) {
  Gpu gpu;
  const DeviceLayer on(GetParam(), gpu);
  for (int page : {1, 16, 24, 128, 5000}) {
    if (page == 1 && on.rows.layer_max_length > 1000) continue;  // thousands of pages test no more than hundreds
    const std::vector<int> counts = counts_of_pages(on.visible, page);
    const RaggedRows<float> scores = gpu.take_rows<float>(counts, *std::max_element(counts.begin(), counts.end()) + 1);
    cuda_page_scores(on.rows, on.kv, on.queries, page, scores.items, gpu.arena, gpu.stream);
    const Rows<float> found = gpu.download_rows(scores);
    std::vector<RowMatrix<double>> cpu(on.heads.size());
    for (std::size_t i = 0; i < cpu.size(); ++i) page_scores(on.heads[i].head, page, cpu[i]);
    for (int r = 0; r < on.rows.num_rows; ++r) {
      const double* of_cpu =
          cpu[static_cast<std::size_t>(on.origin[static_cast<std::size_t>(r)])].row(on.row_of_head(r));
      for (int i = 0; i < counts[static_cast<std::size_t>(r)]; ++i) {
        const double score = static_cast<double>(found[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)]);
        const PlainBound plain =
            plain_bound(on.row(r), on.head_of_group(r), i * page, std::min(on.length(r), (i + 1) * page));
        const double tolerance = kRounding * (on.kv.head_dim + kOtherRoundings) * plain.magnitude;
        ASSERT_LE(std::fabs(score - plain.score), tolerance) << "pages of " << page << ", row " << r << ", page " << i;
        ASSERT_LE(std::fabs(score - of_cpu[i]), tolerance) << "pages of " << page << ", row " << r << ", page " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, PageScoresCuda, testing::ValuesIn(all_device_cases()), name_of_case);

class EqualPagesCuda : public OnGpu {};

// The partial last page has its own kernel. Equal pages must get bit-identical bounds, because ranks depend on ties.
TEST_F(EqualPagesCuda, TieWithThePartialOne) {
  for (int dim : {64, 100, 300}) {
    Gpu gpu;
    const DeviceLayer on(
        Case{"", 1, 4, dim, 64, ElementType::float32, {15, 16, 63, 100, 299}, Pattern::constant_keys, 30}, gpu);
    const std::vector<int> counts = counts_of_pages(on.visible, 16);
    const RaggedRows<float> scores = gpu.take_rows<float>(counts, 19);
    cuda_page_scores(on.rows, on.kv, on.queries, 16, scores.items, gpu.arena, gpu.stream);
    for (const std::vector<float>& row : gpu.download_rows(scores))
      EXPECT_EQ(row, std::vector<float>(row.size(), row[0])) << dim << " channels";
  }
}

}  // namespace
}  // namespace attest::test
