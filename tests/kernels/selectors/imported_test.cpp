// The selector `imported` against its rules, on estimates that tests/cases.h generates.
#include "dumps/base/error.h"
#include "tests/kernels/selectors/selector_test.h"

namespace attest::test {
namespace {

/// The imported estimate of a token of the sample for query n and query head h of the group.
double estimate_of(const KvHead& head, const std::string& dataset, int n, int h, std::int64_t token) {
  const std::size_t source = dataset == "tokens" ? 0 : 1;
  const LayerEstimates& all = head.estimates[source];
  const std::int64_t width = source == 0 ? 1 : 16;
  const std::int64_t own = source == 0 ? head.kv_head * head.group + h : head.kv_head;
  const std::int64_t i = ((head.first_query + n) * all.num_heads + own) * all.num_entries + token / width;
  return source == 0 ? static_cast<double>(reinterpret_cast<const float*>(all.values.data())[i])
                     : reinterpret_cast<const double*>(all.values.data())[i];
}

PlainForm imported(const std::string& options) {
  const Options o(options);
  return [o](const Query& query) {
    const std::int64_t width = o.is("granularity", "block") ? o.number("block", 64) : 1, first = query.head->first_key;
    Plain plain;
    std::vector<Row> entries;  // [G][entries that the query sees partly or completely]
    for (int h = 0; h < query.group(); ++h) {
      plain.estimate.emplace_back();
      entries.emplace_back();
      for (std::int64_t j = 0; j < query.length(); ++j) {
        plain.estimate.back().push_back(estimate_of(*query.head, o.text("dataset", ""), query.n, h, first + j));
        if (j == 0 || (first + j) % width == 0) entries.back().push_back(plain.estimate.back().back());
      }
    }
    plain.keep = [=](double setting) {
      std::vector<Kept> kept;
      for (const Row& values : entries) {
        Kept items;
        const double maximum = *std::max_element(values.begin(), values.end());
        if (o.is("rule", "topp"))
          items = smallest_share(maximum == -std::numeric_limits<double>::infinity()
                                     ? Row(values.size(), 1 / static_cast<double>(values.size()))
                                     : softmax(values),
                                 setting, Kept(values.size(), 1));
        else if (o.is("rule", "topdelta"))
          for (double x : values) items.push_back(x >= maximum - setting);
        else
          items = best_n(values, std::max(1.0, std::floor(setting / static_cast<double>(width))));
        Kept tokens;
        for (std::int64_t j = 0; j < query.length(); ++j)
          tokens.push_back(items[static_cast<std::size_t>((first + j) / width - first / width)] ||
                           j < o.number("sink", 0) || j >= query.length() - o.number("local", 0));
        kept.push_back(tokens);
      }
      return o.is("gqa", "union") ? united(kept) : kept;
    };
    plain.bytes = [=](const std::vector<Kept>& kept) {
      return static_cast<double>(o.number("scan_bytes", 0) * query.length()) + dense_bytes(query, kept_by_group(kept));
    };
    return plain;
  };
}

TEST(Imported, ConformsToItsRules) {
  const std::string tokens = "file=own.h5,dataset=tokens",
                    blocks = "file=own.h5,dataset=blocks,granularity=block,block=16";
  for (const std::string& options :
       {tokens, tokens + ",gqa=union,sink=4,local=20,scan_bytes=3", tokens + ",rule=topp", tokens + ",rule=topdelta",
        blocks, blocks + ",rule=topp,gqa=union", blocks + ",rule=topdelta,local=5,units=ranks"}) {
    const Compared compared = expect_conforms("imported", options, imported(options));
    EXPECT_GT(compared.partial, compared.all / 3) << options;
  }
}

TEST(Imported, ReportsEstimateKindAndCost) {
  const std::string file = "file=own.h5,dataset=tokens";
  EXPECT_TRUE(selector("imported", file)->estimates_scores());
  EXPECT_FALSE(selector("imported", file + ",units=ranks")->estimates_scores());
  EXPECT_FALSE(selector("imported", file)->counts_scan());
  EXPECT_TRUE(selector("imported", file + ",scan_bytes=0.5")->counts_scan());
  EXPECT_EQ(selector("imported", file)->input_files(), std::vector<std::string>{"own.h5"});
  EXPECT_EQ(selector("imported", file + ",granularity=block,keys=k_hat,values=v_hat")->estimate_sources(),
            (std::vector<EstimateSource>{{"own.h5", "tokens", 64},
                                         {"own.h5", "k_hat", 1, EstimateKind::keys},
                                         {"own.h5", "v_hat", 1, EstimateKind::values}}));
  EXPECT_EQ(selector("imported", file + ",rule=topdelta")->natural_delta(2, {}), 2);
  EXPECT_TRUE(std::isnan(selector("imported", file + ",rule=topdelta,units=ranks")->natural_delta(2, {})));
}

TEST(Imported, WantsAFileAndADataSet) {
  for (const char* options : {"", "dataset=tokens", "file=own.h5"})
    EXPECT_THROW(selector("imported", options)->check({64, 64}), UsageError) << options;
  EXPECT_NO_THROW(selector("imported", "file=own.h5,dataset=tokens")->check({64, 64}));
}

TEST(Imported, SaysWhereEverythingIsKept) {
  const std::unique_ptr<Selector> blocks = selector("imported", "file=f,dataset=d,granularity=block,block=16");
  EXPECT_TRUE(blocks->short_context(32, 33).empty());
  EXPECT_FALSE(blocks->short_context(48, 33).empty());
  EXPECT_FALSE(selector("imported", "file=f,dataset=d,rule=topp,sink=4,local=6")->short_context(0.5, 10).empty());
}

}  // namespace
}  // namespace attest::test
