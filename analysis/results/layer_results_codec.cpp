// Encoding and decoding of a layer's results.
#include "analysis/results/layer_results_codec.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <span>

#include "dumps/base/content_hash.h"

namespace attest {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "attest unit 3\n";

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
  Reader(const TakeBytes& take, std::uint64_t size) : take_(take), left_(size) {}

  template <std::integral Number>
  Number number() {
    Number value{};
    take(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  std::string text() { return values<std::string>(number<std::uint64_t>()); }
  std::string text(std::uint64_t size) { return values<std::string>(size); }
  std::vector<MetricValues> metrics() {
    std::vector<MetricValues> all;
    for (auto count = number<std::uint64_t>(); count > 0 && !failed_; --count) {
      MetricValues& metric = all.emplace_back();
      metric.name = text();
      metric.axes = static_cast<MetricAxes>(number<std::uint8_t>());
      const auto bytes = number<std::uint64_t>();
      failed_ = failed_ || bytes % sizeof(float) != 0;
      metric.values = values<std::vector<float>>(bytes / sizeof(float));
    }
    return all;
  }
  bool failed() const { return failed_; }
  /// Whether nothing but the checksum is left, and it is that of all.
  bool ends_well() {
    const std::uint64_t expected = hash_.digest();
    return number<std::uint64_t>() == expected && !failed_ && left_ == 0;
  }

 private:
  template <class Values>
  Values values(std::uint64_t count) {
    Values found;
    failed_ = failed_ || count > left_ / sizeof(found[0]);
    if (failed_) return found;
    found.resize(count);
    take(std::as_writable_bytes(std::span(found)));
    return found;
  }
  void take(std::span<std::byte> bytes) {
    failed_ = failed_ || bytes.size() > left_;
    if (failed_) return;
    take_(bytes);
    hash_.update(bytes);
    left_ -= bytes.size();
  }

  const TakeBytes& take_;
  std::uint64_t left_;
  ContentHash hash_;
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

std::optional<LayerResults> decode_layer_results(const TakeBytes& take, std::uint64_t size, std::uint64_t study) {
  Reader in(take, size);
  if (in.text(kMagic.size()) != kMagic || in.number<std::uint64_t>() != study) return std::nullopt;
  LayerResults results;
  results.dump = in.number<std::int32_t>();
  results.sample = in.text();
  results.layer = in.number<std::int32_t>();
  results.done = in.number<std::uint8_t>() != 0;
  results.computed_by = in.text();
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
  if (!in.ends_well()) return std::nullopt;
  return results;
}

std::optional<LayerResults> decode_layer_results(std::string_view bytes, std::uint64_t study) {
  std::span left = std::as_bytes(std::span(bytes));
  return decode_layer_results(
      [&](std::span<std::byte> out) {
        std::ranges::copy(left.first(out.size()), out.begin());
        left = left.subspan(out.size());
      },
      left.size(), study);
}

}  // namespace attest
