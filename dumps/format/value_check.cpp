// all_finite by a scan of exponent bits; check_values and first_bad_estimate.
#include "dumps/format/value_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>

#include "dumps/format/dump_fields.h"

namespace attest {
namespace {

/// IEEE formats of one word size differ only in where the exponent begins, and all of them order like sign-magnitude
/// integers. A row can therefore be scanned with integer minima and maxima, which compilers vectorise.
template <class Word>
struct RowScan {
  using Signed = std::make_signed_t<Word>;
  static constexpr Word kMagnitude = std::numeric_limits<Signed>::max();

  Signed min = std::numeric_limits<Signed>::max();  ///< in two's complement
  Signed max = std::numeric_limits<Signed>::min();
  Word largest_magnitude = 0;

  static Signed ordered(Word bits) {
    const Word sign = static_cast<Word>(static_cast<Signed>(bits) >> (8 * sizeof(Word) - 1));
    return static_cast<Signed>(bits ^ (sign & kMagnitude));
  }
  static Word bits_of(Signed ordered_bits) { return static_cast<Word>(ordered(static_cast<Word>(ordered_bits))); }

  void add(std::span<const Word> row) {
    for (const Word bits : row) {
      const Signed value = ordered(bits);
      min = std::min(min, value);
      max = std::max(max, value);
      largest_magnitude = std::max(largest_magnitude, static_cast<Word>(bits & kMagnitude));
    }
  }
};

template <class Word>
class TensorScan {
 public:
  TensorScan(ElementType type, int num_heads, int row_elements)
      : type_(type), row_(static_cast<std::size_t>(row_elements)), findings_(static_cast<std::size_t>(num_heads)) {
    for (std::size_t head = 0; head < findings_.size(); ++head) {
      findings_[head].head = static_cast<int>(head);
      findings_[head].all_zero = true;
    }
  }

  void add_row(std::size_t head, std::int64_t token, const std::byte* source) {
    std::memcpy(row_.data(), source, row_.size() * sizeof(Word));
    RowScan<Word> scan;
    scan.add(row_);
    HeadFinding& finding = findings_[head];
    if (scan.largest_magnitude > 0) finding.all_zero = false;
    if (scan.largest_magnitude < infinity()) {
      finite_.min = std::min(finite_.min, scan.min);
      finite_.max = std::max(finite_.max, scan.max);
    } else {
      add_row_with_bad_values(finding, token);
    }
  }

  TensorCheck result() {
    TensorCheck check;
    if (finite_.min <= finite_.max) {
      check.minimum = value_of(RowScan<Word>::bits_of(finite_.min));
      check.maximum = value_of(RowScan<Word>::bits_of(finite_.max));
    }
    for (const HeadFinding& finding : findings_) {
      if (finding.all_zero || finding.not_finite()) check.findings.push_back(finding);
    }
    if (check.findings.size() > TensorCheck::kMaxFindings) {
      check.num_left_out = check.findings.size() - TensorCheck::kMaxFindings;
      std::ranges::stable_partition(check.findings, &HeadFinding::not_finite);
      check.findings.resize(TensorCheck::kMaxFindings);
      check.findings.shrink_to_fit();
      std::ranges::sort(check.findings, {}, &HeadFinding::head);
    }
    return check;
  }

 private:
  Word infinity() const {
    if constexpr (sizeof(Word) == 4) return 0x7F800000;
    return type_ == ElementType::float16 ? 0x7C00 : 0x7F80;
  }

  float value_of(Word bits) const {
    float value = 0;
    convert_to_float(type_, reinterpret_cast<const std::byte*>(&bits), 1, &value);
    return value;
  }

  void add_row_with_bad_values(HeadFinding& finding, std::int64_t token) {
    for (const Word& bits : row_) {
      const Word magnitude = bits & RowScan<Word>::kMagnitude;
      if (magnitude < infinity()) {
        finite_.add(std::span(&bits, 1));
        continue;
      }
      ++(magnitude == infinity() ? finding.num_infinite : finding.num_nan);
      if (finding.first_token < 0) finding.first_token = token;
    }
  }

  ElementType type_;
  std::vector<Word> row_;
  RowScan<Word> finite_;
  std::vector<HeadFinding> findings_;
};

template <class Word>
LayerCheck check_words(const AttentionLayer& layer) {
  const AttentionShape& shape = layer.shape;
  const auto query_heads = static_cast<std::size_t>(shape.num_query_heads);
  const std::size_t row_bytes = static_cast<std::size_t>(shape.head_dim) * sizeof(Word);

  LayerCheck check;
  check.layer = layer.layer;
  TensorScan<Word> q(layer.element_type, shape.num_query_heads, shape.head_dim);
  for (std::size_t n = 0; n < layer.query_positions.size(); ++n) {
    for (std::size_t head = 0; head < query_heads; ++head) {
      q.add_row(head, layer.query_positions[n], layer.q.data() + (n * query_heads + head) * row_bytes);
    }
  }
  check.q = q.result();

  const auto scan_heads = [&](const LayerBuffer& buffer, int row_elements) {
    TensorScan<Word> scan(layer.element_type, shape.num_kv_heads, row_elements);
    const std::byte* row = buffer.data();
    for (std::size_t head = 0; head < static_cast<std::size_t>(shape.num_kv_heads); ++head) {
      for (std::int64_t token = 0; token < layer.num_tokens; ++token) {
        scan.add_row(head, token, row);
        row += static_cast<std::size_t>(row_elements) * sizeof(Word);
      }
    }
    return scan.result();
  };
  check.k = scan_heads(layer.k, shape.head_dim);
  check.v = scan_heads(layer.v, shape.value_dim);
  if (shape.values_in_keys != 0) {
    const std::size_t value_bytes = static_cast<std::size_t>(shape.value_dim) * sizeof(Word);
    const std::int64_t rows = layer.num_tokens * shape.num_kv_heads;
    for (std::int64_t row = 0; row < rows && !check.other_value; ++row) {
      const auto r = static_cast<std::size_t>(row);
      if (std::memcmp(layer.k.data() + r * row_bytes, layer.v.data() + r * value_bytes, value_bytes) != 0)
        check.other_value = {static_cast<int>(row / layer.num_tokens), row % layer.num_tokens};
    }
  }
  return check;
}

/// False if an element has all bits of `exponent` set, as only NaN and infinity have. The scan works in blocks, because
/// compilers vectorise only a loop without an early exit. A maximum is some 25 times as fast as an OR of comparisons.
template <class Bits>
bool none_has(std::span<const std::byte> values, Bits exponent) {
  constexpr std::size_t kBlock = 4096;
  const std::size_t count = values.size() / sizeof(Bits);
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t end = std::min(count, start + kBlock);
    Bits largest = 0;
    for (std::size_t i = start; i < end; ++i) {
      Bits bits;
      std::memcpy(&bits, values.data() + i * sizeof(Bits), sizeof(Bits));
      largest = std::max<Bits>(largest, bits & exponent);
    }
    if (largest == exponent) return false;
  }
  return true;
}

}  // namespace

bool all_finite(ElementType type, std::span<const std::byte> values) {
  switch (type) {
    case ElementType::float16:
      return none_has<std::uint16_t>(values, 0x7C00u);
    case ElementType::bfloat16:
      return none_has<std::uint16_t>(values, 0x7F80u);
    case ElementType::float32:
      return none_has<std::uint32_t>(values, 0x7F800000u);
  }
  return false;
}

bool LayerCheck::finite() const { return first_bad_value(*this).empty(); }

LayerCheck check_values(const AttentionLayer& layer) {
  return layer.element_type == ElementType::float32 ? check_words<std::uint32_t>(layer)
                                                    : check_words<std::uint16_t>(layer);
}

std::string first_bad_value(const LayerCheck& check) {
  for (const auto& [name, tensor] : check.tensors()) {
    for (const HeadFinding& finding : tensor->findings) {
      if (!finding.not_finite()) continue;
      const char* kind = finding.num_nan == 0 ? "infinity" : finding.num_infinite == 0 ? "NaN" : "NaN and infinity";
      return fmt::format("layer {}, {}, head {}: {}, first at token {}", check.layer, name, finding.head, kind,
                         finding.first_token);
    }
  }
  return {};
}

std::string other_value_text(const LayerCheck& check) {
  return fmt::format("layer {}, v, head {}: is not the first channels of k (values_in_keys), first at token {}",
                     check.layer, check.other_value->head, check.other_value->token);
}

std::string first_bad_element(const AttentionLayer& layer, std::string_view name, std::string_view shape,
                              std::span<const float> values) {
  const auto bad = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  if (bad == values.end()) return {};
  const char* kind = std::isnan(*bad) ? "NaN" : "infinity";
  const std::int64_t place = bad - values.begin();
  const std::vector<std::string_view> symbols = axis_symbols(shape);
  const std::vector<std::int64_t> sizes = Axes(layer.shape, layer).sizes(shape);
  std::int64_t rest = place, head = -1, token = -1;
  for (std::size_t i = symbols.size(); i-- > 0;) {
    const std::int64_t index = i == 0 ? rest : rest % sizes[i];  // the first axis may be A, whose size a layer lacks
    rest = i == 0 ? 0 : rest / sizes[i];
    if (symbols[i] == "Hq") head = index;
    if (symbols[i] == "N") token = layer.query_positions[static_cast<std::size_t>(index)];
    if (symbols[i] == "T") token = index;
  }
  if (head < 0 || token < 0) return fmt::format("layer {}, {}, entry {}: {}", layer.layer, name, place, kind);
  return fmt::format("layer {}, {}, head {}: {}, first at token {}", layer.layer, name, head, kind, token);
}

std::string first_bad_output(const AttentionLayer& layer, std::span<const float> output, std::span<const float> lse) {
  const std::string bad = first_bad_element(layer, "output", "[N, Hq, Dv]", output);
  return bad.empty() ? first_bad_element(layer, "output_lse", "[N, Hq]", lse) : bad;
}

namespace {

/// The first bad value among keys or values that replace the dump's.
std::string first_bad_vector(const LayerEstimates& vectors, const AttentionLayer& layer, const std::string& sample) {
  const int dim = vectors.source.kind == EstimateKind::keys ? layer.shape.head_dim : layer.shape.value_dim;
  for (int head = 0; head < vectors.num_heads; ++head)
    for (std::int64_t token = 0; token < vectors.num_entries; ++token)
      for (const float value : std::span(vectors.vectors(head, token, dim), static_cast<std::size_t>(dim)))
        if (!std::isfinite(value))
          return fmt::format("{}: sample '{}', layer {}, '{}', head {}: {} at token {}", vectors.source.file, sample,
                             layer.layer, vectors.source.dataset, head, std::isnan(value) ? "NaN" : "infinity", token);
  return {};
}

}  // namespace

std::string first_bad_estimate(const AttentionLayer& layer, const std::string& sample) {
  for (const LayerEstimates& estimates : layer.estimates) {
    if (estimates.source.kind != EstimateKind::scores) {
      if (std::string bad = first_bad_vector(estimates, layer, sample); !bad.empty()) return bad;
      continue;
    }
    for (std::int64_t n = 0; n < layer.num_queries(); ++n) {
      const std::int64_t position = layer.query_positions[static_cast<std::size_t>(n)];
      const int width = estimates.source.width;
      for (int head = 0; head < estimates.num_heads; ++head)
        for (std::int64_t i = layer.first_visible_key(position) / width; i <= position / width; ++i) {
          const double value = estimates.at(n, head, i);
          if (value < INFINITY) continue;
          return fmt::format("{}: sample '{}', layer {}, '{}', query at {}, head {}: {} at {} {}",
                             estimates.source.file, sample, layer.layer, estimates.source.dataset, position, head,
                             std::isnan(value) ? "NaN" : "infinity", width == 1 ? "token" : "block", i);
        }
    }
  }
  return {};
}

}  // namespace attest
