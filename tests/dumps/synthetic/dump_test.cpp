// Synthetic dumps must show, under plain softmax attention, the structures after which their heads are named.
#include "dumps/synthetic/dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "dumps/base/error.h"
#include "dumps/base/json.h"
#include "dumps/format/dump_reader.h"
#include "dumps/synthetic/heads.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest {
namespace {

using testing::HasSubstr;

struct Case {
  std::string name;
  SyntheticOptions options;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

SyntheticOptions with(auto&& change) {
  SyntheticOptions options;
  options.num_tokens = 3000;
  options.shape.num_query_heads = 8;
  options.shape.num_kv_heads = 2;
  change(options);
  return options;
}

/// A layer as read, and its values as float.
struct FloatLayer {
  AttentionLayer layer;
  std::vector<float> q, k, v;

  FloatLayer(const DumpReader& reader, std::size_t sample, int number) {
    EXPECT_TRUE(reader.read_layer(sample, number, layer));
    for (auto [bytes, floats] : {std::pair{&layer.q, &q}, {&layer.k, &k}, {&layer.v, &v}}) {
      floats->resize(bytes->size() / size_of(layer.element_type));
      convert_to_float(layer.element_type, bytes->data(), floats->size(), floats->data());
    }
  }
};

/// Scores of the keys that query n of head h sees, [p - begin + 1], in nats after scale and soft-cap; and softmax.
struct Row {
  std::int64_t begin = 0;
  std::vector<double> scores, weights;

  double mass(std::int64_t first, std::int64_t end) const {
    double sum = 0;
    for (std::int64_t j = std::max(first, begin); j < std::min(end, this->end()); ++j)
      sum += weights[static_cast<std::size_t>(j - begin)];
    return sum;
  }
  std::int64_t end() const { return begin + static_cast<std::int64_t>(scores.size()); }
};

Row attend(const FloatLayer& values, std::int64_t n, int head) {
  const AttentionLayer& layer = values.layer;
  const std::int64_t dim = layer.shape.head_dim, position = layer.query_positions[static_cast<std::size_t>(n)];
  const float* q = values.q.data() + (n * layer.shape.num_query_heads + head) * dim;
  const float* k = values.k.data() + head / layer.shape.group() * layer.num_tokens * dim;
  Row row;
  if (layer.sliding_window > 0) row.begin = std::max<std::int64_t>(0, position - layer.sliding_window + 1);
  for (std::int64_t j = row.begin; j <= position; ++j) {
    double score = 0;
    for (std::int64_t d = 0; d < dim; ++d) score += double{q[d]} * double{k[j * dim + d]};
    score *= layer.softmax_scale;
    if (const double c = layer.logit_softcap; c > 0) score = c * std::tanh(score / c);
    row.scores.push_back(score);
  }
  const double largest = std::ranges::max(row.scores);
  double sum = 0;
  for (const double score : row.scores) sum += row.weights.emplace_back(std::exp(score - largest));
  for (double& weight : row.weights) weight /= sum;
  return row;
}

double effective_tokens(const Row& row) {
  double entropy = 0;
  for (const double w : row.weights) entropy -= w > 0 ? w * std::log(w) : 0;
  return std::exp(entropy);
}

double top_mass(const Row& row, std::size_t n) {
  std::vector<double> weights = row.weights;
  std::ranges::sort(weights, std::greater());
  double sum = 0;
  for (std::size_t i = 0; i < std::min(n, weights.size()); ++i) sum += weights[i];
  return sum;
}

/// Scores in descending order.
std::vector<double> sorted_scores(const Row& row, std::int64_t from) {
  std::vector<double> scores(row.scores.begin() + std::max<std::int64_t>(0, from - row.begin), row.scores.end());
  std::ranges::sort(scores, std::greater());
  return scores;
}

void expect_structure(HeadKind kind, const Row& row, const AttentionLayer& layer, const SyntheticOptions& options) {
  const double visible = static_cast<double>(row.scores.size());
  const bool sink_visible = row.begin < options.sink_tokens;
  switch (kind) {
    case HeadKind::sink:
      if (sink_visible) {
        EXPECT_GT(row.mass(0, options.sink_tokens), 0.5);
      }
      break;
    case HeadKind::local:
      EXPECT_GT(row.mass(row.end() - 64, row.end()), 0.4);
      EXPECT_LT(64 / visible, 0.2) << "the case is trivial";
      break;
    case HeadKind::retrieval: {
      double mass = 0, tokens = 0;
      bool all_visible = true;
      for (const TokenSpan& span : layer.spans) {
        mass += row.mass(span.begin, span.end);
        tokens += static_cast<double>(span.end - span.begin);
        all_visible = all_visible && span.begin >= row.begin;
      }
      if (!all_visible) break;
      EXPECT_GT(mass, 0.5);
      EXPECT_LT(tokens / visible, 0.1) << "the case is trivial";
      break;
    }
    case HeadKind::multi_peak:
      EXPECT_GT(top_mass(row, 9), 0.5);  // eight peaks and the sink
      EXPECT_LT(top_mass(row, 1), 0.5) << "one peak is not several";
      break;
    case HeadKind::flat:
      EXPECT_GT(effective_tokens(row), 0.95 * visible);
      break;
    case HeadKind::ties: {
      EXPECT_GT(top_mass(row, 17), 0.5);  // sixteen tied tokens and the sink
      const std::vector<double> scores = sorted_scores(row, options.sink_tokens);
      std::map<double, int> times;
      for (std::size_t i = 0; i < 16; ++i) ++times[scores[i]];
      const auto maximum = std::ranges::max_element(times, {}, [](const auto& entry) { return entry.second; });
      EXPECT_GE(maximum->second, 8) << "identical keys have identical scores";
      EXPECT_LT(scores[0] - scores[15], 0.1) << "the others are near";
      EXPECT_GT(scores[15] - scores[16], 0.1) << "and all stand out";
      break;
    }
  }
}

class Structure : public testing::TestWithParam<Case> {};

TEST_P(Structure, every_head_shows_what_its_kind_says) {
  const SyntheticOptions& options = GetParam().options;
  const ScratchFolder folder;
  write_synthetic_dump(options, folder.file("dump.h5"), false, 2);
  const DumpReader reader(folder.file("dump.h5"));
  std::set<HeadKind> seen;
  for (std::size_t sample = 0; sample < reader.info().samples.size(); ++sample)
    for (int number = 0; number < options.num_layers; ++number) {
      const FloatLayer layer(reader, sample, number);
      for (int head = 0; head < options.shape.num_query_heads; ++head)
        for (std::int64_t n = 0; n < options.num_queries; ++n) {
          const HeadKind kind = head_kind(profile_kinds(options.profile), number, head);
          SCOPED_TRACE(testing::Message() << "sample " << sample << " layer " << number << " query " << n << " head "
                                          << head << " " << name_of(kind));
          seen.insert(kind);
          expect_structure(kind, attend(layer, n, head), layer.layer, options);
        }
    }
  for (const HeadKind kind : profile_kinds(options.profile)) EXPECT_TRUE(seen.contains(kind)) << name_of(kind);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Structure,
    testing::Values(Case{"bfloat16", with([](auto& o) { o.num_samples = 2; })},
                    Case{"float16", with([](auto& o) { o.element_type = ElementType::float16; })},
                    Case{"float32", with([](auto& o) { o.element_type = ElementType::float32; })},
                    Case{"seed", with([](auto& o) { o.seed = 123456789; })},
                    Case{"long", with([](auto& o) { o.num_tokens = 20000, o.num_queries = 1; })},
                    Case{"short", with([](auto& o) { o.num_tokens = 400, o.span_tokens = 8, o.num_queries = 2; })},
                    Case{"head_dim_64_group_1", with([](auto& o) {
                           o.shape = {8, 8, 64, 64};
                         })},
                    Case{"head_dim_80_group_7", with([](auto& o) {
                           o.shape = {14, 2, 80, 80};
                         })},
                    Case{"head_dim_16", with([](auto& o) {
                           o.shape = {8, 1, 16, 24};
                         })},
                    Case{"head_dim_192_values_128", with([](auto& o) {
                           o.shape = {8, 2, 192, 128};
                         })},
                    Case{"mla", with([](auto& o) {
                           o.shape = {8, 1, 576, 512};
                         })},
                    Case{"softcap_50", with([](auto& o) { o.logit_softcap = 50; })},
                    Case{"softcap_30", with([](auto& o) { o.logit_softcap = 30; })},
                    Case{"scale", with([](auto& o) { o.softmax_scale = 0.0123; })},
                    Case{"window",
                         with([](auto& o) { o.sliding_window = 1000, o.num_layers = 4, o.global_every = 2; })},
                    Case{"four_sinks", with([](auto& o) { o.sink_tokens = 4, o.profile = "sink_local"; })},
                    Case{"peaked", with([](auto& o) { o.profile = "peaked"; })},
                    Case{"ties", with([](auto& o) {
                           o.profile = "ties", o.shape = {4, 1, 128, 128};
                         })}),
    [](const auto& info) { return info.param.name; });

TEST(Synthetic, any_shape_makes_a_dump_of_finite_values) {
  const ScratchFolder folder;
  const std::string path = folder.file("dump.h5");
  for (const ElementType type : {ElementType::bfloat16, ElementType::float16, ElementType::float32})
    for (const AttentionShape shape : {AttentionShape{1, 1, 1, 1}, {3, 1, 3, 5}, {4, 2, 17, 1}, {2, 2, 15, 8}})
      for (const auto& [tokens, queries] : {std::pair<int, int>{1, 1}, {2, 2}, {3, 1}, {65, 65}, {127, 3}}) {
        SyntheticOptions options;
        options.element_type = type;
        options.shape = shape;
        options.num_tokens = tokens;
        options.num_queries = queries;
        SCOPED_TRACE(testing::Message() << name_of(type) << " head_dim " << shape.head_dim << " tokens " << tokens);
        write_synthetic_dump(options, path, true, 1);
        const DumpReader reader(path);
        EXPECT_EQ(reader.info().shape, shape);
        ASSERT_EQ(reader.info().samples.size(), 1u);
        EXPECT_EQ(reader.info().samples[0].num_tokens, tokens);
        EXPECT_EQ(reader.info().samples[0].query_positions.front(), tokens - queries);
        const FloatLayer layer(reader, 0, 1);
        ASSERT_EQ(layer.q.size(), static_cast<std::size_t>(queries * shape.num_query_heads * shape.head_dim));
        ASSERT_EQ(layer.v.size(), static_cast<std::size_t>(tokens * shape.num_kv_heads * shape.value_dim));
        for (const auto* values : {&layer.q, &layer.k, &layer.v})
          EXPECT_TRUE(std::ranges::all_of(*values, [](float x) { return std::isfinite(x); }));
      }
}

TEST(Synthetic, bytes_depend_on_the_seed_and_not_on_the_threads) {
  const ScratchFolder folder;
  // Several slabs per head, so that threads could write them in the wrong order.
  SyntheticOptions options = with([](auto& o) { o.num_tokens = 9001, o.num_samples = 2, o.num_queries = 17; });
  write_synthetic_dump(options, folder.file("one.h5"), false, 1);
  write_synthetic_dump(options, folder.file("seven.h5"), false, 7);
  options.seed = 1;
  write_synthetic_dump(options, folder.file("other.h5"), false, 7);
  const std::string one = bytes_of_file(folder.file("one.h5"));
  EXPECT_GT(one.size(), 10'000'000u);
  EXPECT_TRUE(one == bytes_of_file(folder.file("seven.h5")));
  EXPECT_FALSE(one == bytes_of_file(folder.file("other.h5")));
}

TEST(Synthetic, a_seed_means_the_same_for_ever) {
  const ScratchFolder folder;
  write_synthetic_dump(with([](auto& o) { o.seed = 42; }), folder.file("dump.h5"), false, 1);
  const DumpReader reader(folder.file("dump.h5"));
  AttentionLayer layer;
  EXPECT_TRUE(reader.read_layer(0, 1, layer));
  const auto fnv1a = [](const LayerBuffer& buffer) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (std::size_t i = 0; i < buffer.size(); ++i)
      hash = (hash ^ std::to_integer<std::uint64_t>(buffer.data()[i])) * 0x100000001b3u;
    return hash;
  };
  EXPECT_EQ(fnv1a(layer.k), 6451249211386124685u);
  EXPECT_EQ(fnv1a(layer.v), 353433701095296044u);
}

TEST(Synthetic, samples_layers_and_heads_differ) {
  const ScratchFolder folder;
  write_synthetic_dump(with([](auto& o) { o.num_samples = 2; }), folder.file("dump.h5"), false, 1);
  const DumpReader reader(folder.file("dump.h5"));
  std::set<std::string> rows;
  int count = 0;
  for (std::size_t sample = 0; sample < 2; ++sample)
    for (int number = 0; number < 2; ++number) {
      AttentionLayer layer;
      EXPECT_TRUE(reader.read_layer(sample, number, layer));
      const auto keep = [&](const LayerBuffer& buffer, std::int64_t row, std::size_t dim) {
        rows.emplace(reinterpret_cast<const char*>(buffer.data()) + static_cast<std::size_t>(row) * dim * 2, dim * 2);
        ++count;
      };
      for (const std::int64_t token : {500, 1500, 2999}) {
        keep(layer.k, token, 128), keep(layer.k, 3000 + token, 128);
        keep(layer.v, token, 128), keep(layer.v, 3000 + token, 128);
      }
      for (int row = 0; row < 4 * 8; ++row) keep(layer.q, row, 128);
    }
  EXPECT_EQ(rows.size(), static_cast<std::size_t>(count));
}

TEST(Synthetic, keys_have_outlier_channels_as_real_ones_have) {
  const ScratchFolder folder;
  write_synthetic_dump(with([](auto&) {}), folder.file("dump.h5"), false, 1);
  const FloatLayer layer(DumpReader(folder.file("dump.h5")), 0, 0);
  for (int kv_head = 0; kv_head < 2; ++kv_head) {
    std::vector<double> magnitude(128);
    for (std::size_t token = 0; token < 3000; ++token)
      for (std::size_t d = 0; d < 128; ++d)
        magnitude[d] += std::abs(layer.k[(static_cast<std::size_t>(kv_head) * 3000 + token) * 128 + d]) / 3000;
    std::ranges::sort(magnitude);
    EXPECT_GT(magnitude[124], 5 * magnitude[64]) << "four channels are large";
    EXPECT_LT(magnitude[123], 4 * magnitude[64]) << "and no more";
  }
}

TEST(Synthetic, spans_are_disjoint_and_before_every_query) {
  for (const std::int64_t tokens : {10, 50, 100, 1000, 100000})
    for (const int count : {0, 1, 2, 7}) {
      SyntheticOptions options;
      options.num_tokens = tokens;
      options.num_spans = count;
      for (int sample = 0; sample < 5; ++sample) {
        const auto spans = synthetic_spans(options, sample);
        if (tokens >= 100) {
          EXPECT_EQ(spans.size(), static_cast<std::size_t>(count));
        }
        std::int64_t previous = 1;
        for (const TokenSpan& span : spans) {
          EXPECT_GE(span.begin, previous);
          EXPECT_LT(span.begin, span.end);
          EXPECT_LE(span.end - span.begin, 16);
          previous = span.end;
        }
        EXPECT_LE(previous, std::max<std::int64_t>(1, tokens - options.num_queries));
      }
    }
  SyntheticOptions options;
  EXPECT_NE(synthetic_spans(options, 0), synthetic_spans(options, 1));
}

TEST(Synthetic, the_dump_says_what_it_is) {
  const ScratchFolder folder;
  const SyntheticOptions options = with([](auto& o) {
    o.seed = 7, o.sliding_window = 100, o.global_every = 2, o.logit_softcap = 30, o.softmax_scale = 0.1,
    o.num_samples = 2;
  });
  write_synthetic_dump(options, folder.file("dump.h5"), false, 1);
  const DumpReader reader(folder.file("dump.h5"));
  const DumpInfo& info = reader.info();
  EXPECT_EQ(info.model, "synthetic/mixed");
  EXPECT_EQ(info.softmax_scale, 0.1);
  EXPECT_EQ(info.logit_softcap, 30);
  EXPECT_EQ(reader.layer_info(0, 0).sliding_window, 100);
  EXPECT_EQ(reader.layer_info(0, 1).sliding_window, 0);
  ASSERT_EQ(info.samples.size(), 2u);
  EXPECT_EQ(info.samples[1].spans, synthetic_spans(options, 1));
  const Json source = parse_json(info.source);
  EXPECT_EQ(source["seed"], 7);
  EXPECT_EQ(source["head_kinds"][1], "local");
  EXPECT_EQ(name_of(head_kind(profile_kinds("mixed"), 0, 1)), "local");
}

TEST(Synthetic, progress_counts_every_byte_and_what_it_throws_leaves_no_file) {
  const ScratchFolder folder;
  const SyntheticOptions options = with([](auto& o) { o.num_tokens = 9000; });
  std::int64_t last = 0, total = 0;
  write_synthetic_dump(options, folder.file("dump.h5"), false, 3, [&](std::int64_t done, std::int64_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
  });
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, 2 * (2 * 2 * 9000 * 128 + 4 * 8 * 128) * 2);

  const ScratchFolder other;
  const auto stop = [](std::int64_t done, std::int64_t) {
    if (done > 1'000'000) throw Interrupted("stopped");
  };
  EXPECT_THROW(write_synthetic_dump(options, other.file("dump.h5"), false, 3, stop), Interrupted);
  EXPECT_TRUE(other.empty());
}

TEST(Synthetic, an_existing_file_stays_unless_it_may_be_replaced) {
  const ScratchFolder folder;
  const std::string path = folder.write("dump.h5", "mine");
  const SyntheticOptions options = with([](auto& o) { o.num_tokens = 10; });
  EXPECT_THAT(message_of<OutputError>([&] { write_synthetic_dump(options, path, false, 1); }), HasSubstr(path));
  EXPECT_EQ(bytes_of_file(path), "mine");
  write_synthetic_dump(options, path, true, 1);
  EXPECT_EQ(DumpReader(path).info().num_layers, 2);
}

TEST(Synthetic, impossible_options_are_refused_by_name_and_value) {
  const auto refusal = [](auto&& change) {
    const ScratchFolder folder;
    const std::string message =
        message_of<UsageError>([&] { write_synthetic_dump(with(change), folder.file("dump.h5"), false, 1); });
    EXPECT_TRUE(folder.empty());
    return message;
  };
  EXPECT_EQ(refusal([](auto& o) { o.shape.num_kv_heads = 3; }),
            "synthetic dump: 8 query heads are not a multiple of 3 KV heads");
  EXPECT_EQ(refusal([](auto& o) { o.num_tokens = 0; }), "synthetic dump: tokens is 0, expected 1 to 2147483647");
  EXPECT_EQ(refusal([](auto& o) {
              o.num_tokens = std::int64_t{1} << 31;
              o.shape = {1, 1, 1, 1};
            }),
            "synthetic dump: tokens is 2147483648, expected 1 to 2147483647")
      << "more than a dump may have";
  EXPECT_EQ(refusal([](auto& o) { o.num_queries = 3001; }), "synthetic dump: queries is 3001, expected 1 to 3000");
  EXPECT_EQ(refusal([](auto& o) { o.shape.head_dim = -1; }), "synthetic dump: head dim is -1, expected 1 to 1048576");
  EXPECT_THAT(refusal([](auto& o) { o.logit_softcap = -1; }), HasSubstr("softcap is -1"));
  EXPECT_THAT(refusal([](auto& o) { o.softmax_scale = std::nan(""); }), HasSubstr("scale is nan"));
  EXPECT_THAT(refusal([](auto& o) { o.profile = "round"; }), HasSubstr("unknown profile 'round'; there are mixed, "));
  EXPECT_THAT(refusal([](auto& o) { o.softmax_scale = 1e-6, o.element_type = ElementType::float16; }),
              HasSubstr("more than float16 holds"));
}

}  // namespace
}  // namespace attest
