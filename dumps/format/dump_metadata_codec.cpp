// Encodes dump metadata for the pipe between a guarded child and its parent: the fields of the tables and what stands
// beside them, one after the other, numbers in the machine's own form.
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

#include "dumps/format/dump_fields.h"
#include "dumps/format/dump_metadata.h"

namespace attest {
namespace {

class Encoder {
 public:
  template <class T>
  void number(T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void text(std::string& value) {
    std::size_t size = value.size();
    number(size);
    bytes += value;
  }
  std::size_t count(std::size_t size) {
    number(size);
    return size;
  }

  std::string bytes;
};

class Decoder {
 public:
  explicit Decoder(const std::string& bytes) : left_(bytes) {}

  template <class T>
  void number(T& value) {
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
  }
  void text(std::string& value) { value = take(count(0)); }
  /// The number of elements that follow; each takes at least a byte.
  std::size_t count(std::size_t) {
    std::size_t size = 0;
    number(size);
    if (size > left_.size()) throw std::runtime_error("cut off");
    return size;
  }
  bool at_end() const { return left_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    if (size > left_.size()) throw std::runtime_error("cut off");
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }

  std::string_view left_;
};

// Each `code` is both directions: an Encoder reads the value, a Decoder fills it.

template <class Coder, class T>
requires std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, TokenSpan> ||
    std::is_same_v<T, TensorLocation>
void code(Coder& coder, T& value) { coder.number(value); }

template <class Coder>
void code(Coder& coder, std::string& value) {
  coder.text(value);
}

template <class Coder>
void code(Coder&, const OnDemand&) {}  // its name is in `arrays`

template <class Coder>
void code(Coder& coder, std::optional<std::int64_t>& value) {
  std::int64_t number = value.value_or(-1);
  coder.number(number);
  if (number >= 0) value = number;
}

template <class Coder, class T>
void code(Coder& coder, std::vector<T>& values) {
  values.resize(coder.count(values.size()));
  for (T& value : values) code(coder, value);
}

template <class Coder>
void code(Coder& coder, std::pair<const int, LayerInfo>& layer) {
  for_each_field(layer.second, [&](const auto&, auto& value) { code(coder, value); });
  code(coder, layer.second.element_type);
  code(coder, layer.second.arrays);
  code(coder, layer.second.gradient_scales);
  code(coder, layer.second.output_type);
}

template <class Coder>
void code(Coder& coder, SampleInfo& sample) {
  for_each_field(sample, [&](const auto&, auto& value) { code(coder, value); });
  code(coder, sample.name);
  code(coder, sample.arrays);
  code(coder, sample.layers);
}

template <class Coder>
void code(Coder& coder, DumpMetadata& metadata) {
  DumpInfo& info = metadata.info;
  for_each_field(info, [&](const auto&, auto& value) { code(coder, value); });
  code(coder, info.path);
  code(coder, info.file_bytes);
  code(coder, info.stored_bytes);
  code(coder, info.samples);
  metadata.layers.resize(info.samples.size());
  for (std::size_t i = 0; i < info.samples.size(); ++i)
    for (const int number : info.samples[i].layers) code(coder, *metadata.layers[i].try_emplace(number).first);
}

void require(bool plausible) {
  if (!plausible) throw std::runtime_error("implausible");
}

/// The number of elements of a shape; nothing beyond 2^63.
std::optional<std::int64_t> elements_of(const Axes& axes, const char* shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : axes.sizes(shape))
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) return std::nullopt;
  return count;
}

void require_known(ElementType type) { require(type <= ElementType::float32); }

/// Checks what other code relies on: the rules of the table, and sizes. A file may have damaged the memory of the child
/// that read it.
template <class Owner>
void check_fields(Owner& owner, const Axes& axes) {
  for_each_field(owner, [&]<class Value>(const Field<Owner>& field, const Value& value) {
    if constexpr (!std::is_same_v<Value, OnDemand> && !std::is_same_v<Value, TensorLocation>)
      if (field.optional && value == Value()) return;  // not stored
    const auto in_range = [&](std::int64_t x) {
      const bool by_axis = *field.range.max_axis != '\0';
      return x >= field.range.min && x <= (by_axis ? axes.at(field.range.max_axis) : field.range.max);
    };
    if constexpr (std::is_integral_v<Value>) {
      require(in_range(value));
    } else if constexpr (std::is_same_v<Value, std::optional<std::int64_t>>) {
      require(!value || in_range(*value));
    } else if constexpr (std::is_same_v<Value, double>) {
      require(fault_of_attribute(field.name, value).empty());
    } else if constexpr (std::is_same_v<Value, TensorLocation>) {
      if constexpr (requires { owner.element_type; }) {  // a layer
        const std::optional<std::int64_t> elements = elements_of(axes, field.shape);
        const std::size_t size = size_of(owner.element_type);
        require(value.storage <= Storage::gzip && elements && value.bytes % size == 0 &&
                value.bytes / size == static_cast<std::size_t>(*elements));
      }
    } else if constexpr (std::is_same_v<Value, std::vector<float>>) {
      require(elements_of(axes, field.shape) == std::ssize(value));
    }
    if (field.fault != nullptr) require(field.fault(owner).empty());
  });
}

void check(DumpMetadata& metadata) {
  DumpInfo& info = metadata.info;
  check_fields(info, Axes(info.shape));
  for (std::size_t i = 0; i < info.samples.size(); ++i) {
    SampleInfo& sample = info.samples[i];
    const Axes axes(info.shape, sample);
    check_fields(sample, axes);
    for (auto& [number, layer] : metadata.layers[i]) {
      require(number >= 0 && number < info.num_layers);
      require_known(layer.element_type);
      require_known(layer.output_type);
      check_fields(layer, axes);
    }
  }
}

}  // namespace

std::string encode(DumpMetadata metadata) {
  Encoder encoder;
  code(encoder, metadata);
  return std::move(encoder.bytes);
}

DumpMetadata decode(const std::string& bytes) {
  Decoder decoder(bytes);
  DumpMetadata metadata;
  code(decoder, metadata);
  if (!decoder.at_end()) throw std::runtime_error("too long");
  check(metadata);
  return metadata;
}

}  // namespace attest
