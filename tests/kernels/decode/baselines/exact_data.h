// Random 16-bit caches with ragged lengths, on the device and on the host, and plain attention over them in double.
#pragma once

#include <cmath>
#include <limits>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/decode/baselines/exact_cache_cuda.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {

/// Of a score, relative to scale * sum |q_d k_d|: tensor cores round each of their partial sums to float32.
constexpr double kScoreError = 4e-6;
/// Of a log-sum-exp beyond that of its scores: exp and log of the device.
constexpr double kLseError = 1e-5;
/// Half the distance of two neighbouring 16-bit numbers, relative: weights and outputs are rounded to it.
inline double rounding_of(ElementType type) { return type == ElementType::float16 ? 0x1p-11 : 0x1p-8; }
/// Of an output beyond those roundings: weights that are subnormal in float16.
constexpr double kOutputError = 1e-4;

struct DecodeCase {
  ElementType type;
  int dim, group;
  std::vector<int> lengths;

  std::string name() const {
    return std::string(name_of(type)) + "_D" + std::to_string(dim) + "_G" + std::to_string(group) + "_L" +
           std::to_string(lengths.back());
  }
  friend std::ostream& operator<<(std::ostream& out, const DecodeCase& c) { return out << c.name(); }
};

/// Lengths on both sides of tiles (16) and blocks (128), and one sequence with more tiles than a device runs at once.
inline std::vector<DecodeCase> decode_cases() {
  std::vector<DecodeCase> all;
  for (ElementType type : {ElementType::float16, ElementType::bfloat16}) {
    for (int dim : {64, 128})
      for (int group : {1, 4, 7, 16})
        all.push_back({type, dim, group, {1, 15, 16, 17, 127, 128, 129, 255, 256, 257, 600, 1000}});
    all.push_back({type, 128, 4, {70, 9, 20001}});
  }
  return all;
}
inline std::string name_of_decode_case(const testing::TestParamInfo<DecodeCase>& info) { return info.param.name(); }

/// One vector per (pair, item).
struct HostRows {
  int dim = 0;
  std::int64_t stride = 0;
  std::vector<float> values;

  const float* row(std::int64_t pair, std::int64_t item) const { return values.data() + (pair * stride + item) * dim; }
};

class ExactData {
 public:
  static constexpr int kKvHeads = 2;

  ExactData(const DecodeCase& c, Gpu& gpu, std::uint64_t seed = 1) : lengths(c.lengths) {
    Random random(seed);
    const int longest = *std::max_element(lengths.begin(), lengths.end());
    cache = {.batch = static_cast<int>(lengths.size()),
             .num_kv_heads = kKvHeads,
             .group = c.group,
             .head_dim = c.dim,
             .max_tokens = longest + 5,
             .stride = longest + 8,
             .element_type = c.type,
             .scale = 1 / std::sqrt(static_cast<float>(c.dim)),
             .lengths = gpu.upload(lengths)};
    q = {c.dim, c.group, std::vector<float>(static_cast<std::size_t>(cache.pairs() * c.group * c.dim))};
    k = v = {c.dim, cache.stride, std::vector<float>(static_cast<std::size_t>(cache.pairs() * cache.stride * c.dim))};
    for (float& x : q.values) x = static_cast<float>(to_type(c.type, 1.3 * random.normal()));
    std::vector<std::uint16_t> key_bits(k.values.size(), 0xFFFF), value_bits = key_bits;  // NaN beyond the lengths
    for (int pair = 0; pair < cache.pairs(); ++pair)
      for (int token = 0; token < length(pair); ++token) {
        const bool near_query = random.uniform() < (token < 128 ? 0.5 : 0.005);  // sinks: later tiles are skipped
        const float* query = q.row(pair, random.below(c.group));
        for (int d = 0; d < c.dim; ++d) {
          const auto at = static_cast<std::size_t>((pair * cache.stride + token) * c.dim + d);
          const double key = random.normal() * (d % 5 == 0 ? 2 : 0.7) + (d % 7 == 0 ? 1 : 0);
          set(near_query ? 0.4 * key + 0.5 * query[d] : key, at, k.values, key_bits);
          set(0.3 + random.normal(), at, v.values, value_bits);
        }
      }
    std::vector<std::uint16_t> query_bits(q.values.size());
    for (std::size_t i = 0; i < query_bits.size(); ++i) set(q.values[i], i, q.values, query_bits);
    device_q = gpu.upload(query_bits);
    cache.keys = gpu.upload(key_bits);
    cache.values = gpu.upload(value_bits);
    for (int h = 0; h < kKvHeads * c.group; ++h) sinks.push_back(static_cast<float>(3 * random.normal()));
  }

  int length(int pair) const { return lengths[static_cast<std::size_t>(pair / kKvHeads)]; }
  int full_blocks(int pair) const { return length(pair) / 128; }
  int sink_of(int pair, int head) const { return pair % kKvHeads * cache.group + head; }

  /// Scores of one head of a pair's group against all its tokens.
  std::vector<double> scores(int pair, int head) const { return products(pair, head, k, false); }
  /// scale * sum |q_d k_d|
  std::vector<double> magnitudes(int pair, int head) const { return products(pair, head, k, true); }
  std::vector<double> products(int pair, int head, const HostRows& keys, bool absolute) const {
    std::vector<double> out;
    for (int token = 0; token < length(pair); ++token) {
      double sum = 0;
      for (int d = 0; d < cache.head_dim; ++d) {
        const double product = static_cast<double>(q.row(pair, head)[d]) * keys.row(pair, token)[d];
        sum += absolute ? std::fabs(product) : product;
      }
      out.push_back(sum * cache.scale);
    }
    return out;
  }

  ExactCache cache;
  std::vector<int> lengths;
  HostRows q, k, v;
  std::vector<float> sinks;  ///< [Hq]
  const void* device_q = nullptr;

 private:
  void set(double x, std::size_t at, std::vector<float>& values, std::vector<std::uint16_t>& bits) const {
    const auto rounded = static_cast<float>(to_type(cache.element_type, x));
    values[at] = rounded;
    bits[at] = cache.element_type == ElementType::float16 ? float_to_float16(rounded) : float_to_bfloat16(rounded);
  }
};

/// Outputs of a kernel: [pairs * G, D], [pairs * G].
struct FoundAttention {
  std::vector<std::uint16_t> out;
  std::vector<float> lse;
  friend bool operator==(const FoundAttention&, const FoundAttention&) = default;
};

/// Errors of weights: relative, and beyond that of an output.
struct WeightError {
  double relative, rest;
};
inline WeightError rounded_weights(ElementType type) { return {rounding_of(type), kOutputError}; }

/// Compares the rows of one pair with softmax over the tokens of which kept [length] is nonzero.
inline void expect_attention(const ExactData& data, int pair, const Kept& kept, const float* sinks,
                             const FoundAttention& found, const WeightError& of_weights) {
  const int dim = data.cache.head_dim, group = data.cache.group;
  const double rounding = rounding_of(data.cache.element_type);
  for (int head = 0; head < group; ++head) {
    const std::vector<double> scores = data.scores(pair, head), magnitudes = data.magnitudes(pair, head);
    const double sink = sinks == nullptr ? -std::numeric_limits<double>::infinity() : sinks[data.sink_of(pair, head)];
    double maximum = sink, sum = 0, magnitude = 0;
    for (std::size_t t = 0; t < scores.size(); ++t)
      if (kept[t]) maximum = std::max(maximum, scores[t]), magnitude = std::max(magnitude, magnitudes[t]);
    std::vector<double> out(static_cast<std::size_t>(dim)), absolute(out.size());
    if (sinks != nullptr) sum += std::exp(sink - maximum);
    for (std::size_t t = 0; t < scores.size(); ++t) {
      if (!kept[t]) continue;
      const double weight = std::exp(scores[t] - maximum);
      sum += weight;
      for (int d = 0; d < dim; ++d) {
        const double value = data.v.row(pair, static_cast<std::int64_t>(t))[d];
        out[static_cast<std::size_t>(d)] += weight * value;
        absolute[static_cast<std::size_t>(d)] += weight * std::fabs(value);
      }
    }
    const double weight_error = of_weights.relative + kScoreError * magnitude;
    const auto row = static_cast<std::size_t>(pair) * group + head;
    if (sum == 0)
      ASSERT_EQ(found.lse[row], -std::numeric_limits<float>::infinity()) << "pair " << pair;
    else
      ASSERT_LE(std::fabs(found.lse[row] - (maximum + std::log(sum))), kLseError + kScoreError * magnitude)
          << "pair " << pair << ", head " << head << ", length " << data.length(pair);
    for (int d = 0; d < dim; ++d) {
      const std::uint16_t bits = found.out[row * dim + d];
      const double value =
          data.cache.element_type == ElementType::float16 ? float16_to_float(bits) : bfloat16_to_float(bits);
      const double expected = sum == 0 ? 0 : out[d] / sum, weighted = sum == 0 ? 0 : absolute[d] / sum;
      ASSERT_LE(std::fabs(value - expected),
                1.1 * (weight_error * weighted + rounding * std::fabs(expected)) + of_weights.rest)
          << "pair " << pair << ", head " << head << ", channel " << d << ", length " << data.length(pair);
    }
  }
}

/// Captures what `enqueue` puts on the stream in a graph, and replays it.
template <class Enqueue>
void replay(Gpu& gpu, Enqueue&& enqueue) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ATTEST_CUDA(cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeGlobal));
  enqueue();
  ATTEST_CUDA(cudaStreamEndCapture(gpu.stream, &graph));
  ATTEST_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  ATTEST_CUDA(cudaGraphLaunch(executable, gpu.stream));
  gpu.stream.synchronize();
  ATTEST_CUDA(cudaGraphExecDestroy(executable));
  ATTEST_CUDA(cudaGraphDestroy(graph));
}

}  // namespace attest::test
