// Encoding and decoding of a layer's results.
#include "analysis/results/layer_results_codec.h"

#include <bit>
#include <concepts>
#include <cstring>
#include <span>

#include "dumps/base/content_hash.h"

namespace attest {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "attest unit 3\n";

std::uint64_t checksum(std::string_view bytes) { return hash_of(std::as_bytes(std::span(bytes))); }

/// Passes values on as they are, without a copy of the whole: they are most of the time of a unit with many queries.
class Writer {
 public:
  explicit Writer(const PutBytes& put) : put_(put) {}

  template <std::integral Number>
  void number(Number value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    this->raw({raw, sizeof value});
  }
  void text(std::string_view value) {
    number<std::uint64_t>(value.size());
    raw(value);
  }
  void raw(std::string_view value) {
    if (value.size() < kAsIs) {
      waiting_ += value;
      return;
    }
    pass_on();
    pass_on(value);
  }
  void metrics(const std::vector<MetricValues>& all) {
    number<std::uint64_t>(all.size());
    for (const MetricValues& metric : all) {
      text(metric.name);
      number(static_cast<std::uint8_t>(metric.axes));
      text({reinterpret_cast<const char*>(metric.values.data()), metric.values.size() * sizeof(float)});
    }
  }
  /// Ends with the checksum of all.
  void finish() {
    pass_on();
    number(hash_.digest());
    pass_on();
  }

 private:
  static constexpr std::size_t kAsIs = 4096;

  void pass_on() {
    pass_on(waiting_);
    waiting_.clear();
  }
  void pass_on(std::string_view bytes) {
    hash_.update(std::as_bytes(std::span(bytes)));
    put_(bytes);
  }

  const PutBytes& put_;
  ContentHash hash_;
  std::string waiting_;
};

/// Reads the bytes that Writer wrote. Lengths are not trusted: each is checked against the number of bytes left.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  template <std::integral Number>
  Number number() {
    Number value{};
    if (left_.size() < sizeof value) {
      failed_ = true;
      left_ = {};
      return value;
    }
    std::memcpy(&value, left_.data(), sizeof value);
    left_.remove_prefix(sizeof value);
    return value;
  }
  std::string_view text() {
    const auto size = number<std::uint64_t>();
    if (size > left_.size()) {
      failed_ = true;
      left_ = {};
      return {};
    }
    const std::string_view value = left_.substr(0, size);
    left_.remove_prefix(size);
    return value;
  }
  std::vector<MetricValues> metrics() {
    std::vector<MetricValues> all;
    for (auto count = number<std::uint64_t>(); count > 0 && !failed_; --count) {
      MetricValues& metric = all.emplace_back();
      metric.name = text();
      metric.axes = static_cast<MetricAxes>(number<std::uint8_t>());
      const std::string_view raw = text();
      failed_ = failed_ || raw.size() % sizeof(float) != 0;
      metric.values.resize(raw.size() / sizeof(float));
      if (metric.values.empty()) continue;  // memcpy takes no null pointer
      std::memcpy(metric.values.data(), raw.data(), metric.values.size() * sizeof(float));
    }
    return all;
  }
  bool failed() const { return failed_; }
  bool at_end() const { return left_.empty(); }

 private:
  std::string_view left_;
  bool failed_ = false;
};

/// About the number of bytes that encode() gives.
std::size_t bytes_of(const LayerResults& results) {
  constexpr std::size_t kPerMetric = 64;  // name and sizes
  std::size_t bytes = 256 + results.input_blocks.size() * sizeof(BlockHash);
  const auto count = [&](const std::vector<MetricValues>& metrics) {
    for (const MetricValues& metric : metrics) bytes += kPerMetric + metric.values.size() * sizeof(float);
  };
  count(results.scores);
  for (const SelectorLayerResults& selector : results.selectors) count(selector.metrics);
  return bytes;
}

/// Checks the bytes as a whole and reads what stands before the metrics. Empty if the bytes are not valid.
std::optional<Reader> read_start(std::string_view bytes, std::uint64_t study, LayerResults& results) {
  if (!bytes.starts_with(kMagic) || bytes.size() < kMagic.size() + sizeof(std::uint64_t)) return std::nullopt;
  const std::string_view body = bytes.substr(0, bytes.size() - sizeof(std::uint64_t));
  if (Reader(bytes.substr(body.size())).number<std::uint64_t>() != checksum(body)) return std::nullopt;
  Reader in(body.substr(kMagic.size()));
  if (in.number<std::uint64_t>() != study) return std::nullopt;
  results.dump = in.number<std::int32_t>();
  results.sample = in.text();
  results.layer = in.number<std::int32_t>();
  results.done = in.number<std::uint8_t>() != 0;
  results.computed_by = in.text();
  if (in.failed()) return std::nullopt;
  return in;
}

}  // namespace

void encode(const LayerResults& results, std::uint64_t study, const PutBytes& put) {
  Writer out(put);
  out.raw(kMagic);
  out.number(study);
  out.number<std::int32_t>(results.dump);
  out.text(results.sample);
  out.number<std::int32_t>(results.layer);
  out.number<std::uint8_t>(results.done);
  out.text(results.computed_by);
  out.metrics(results.scores);
  out.number<std::uint64_t>(results.selectors.size());
  for (const SelectorLayerResults& selector : results.selectors) {
    out.number<std::uint8_t>(selector.dense);
    out.metrics(selector.metrics);
  }
  out.number<std::uint64_t>(results.input_blocks.size());
  for (const BlockHash& block : results.input_blocks) {
    out.number(block.block);
    out.number(block.hash);
  }
  out.finish();
}

std::string encode(const LayerResults& results, std::uint64_t study) {
  std::string bytes;
  bytes.reserve(bytes_of(results));
  encode(results, study, [&](std::string_view more) { bytes += more; });
  return bytes;
}

std::optional<LayerResults> decode_layer_results(std::string_view bytes, std::uint64_t study) {
  LayerResults results;
  std::optional<Reader> start = read_start(bytes, study, results);
  if (!start) return std::nullopt;
  Reader& in = *start;
  results.scores = in.metrics();
  for (auto count = in.number<std::uint64_t>(); count > 0 && !in.failed(); --count) {
    SelectorLayerResults& selector = results.selectors.emplace_back();
    selector.dense = in.number<std::uint8_t>() != 0;
    selector.metrics = in.metrics();
  }
  for (auto count = in.number<std::uint64_t>(); count > 0 && !in.failed(); --count) {
    const auto block = in.number<std::uint64_t>();
    results.input_blocks.push_back({block, in.number<std::uint64_t>()});
  }
  if (in.failed() || !in.at_end()) return std::nullopt;
  return results;
}

}  // namespace attest
