// Writes the fields of a dump's file, sample or layer (dump_fields.h) into a group. For dump_writer.cpp.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dumps/base/error.h"
#include "dumps/format/dump_fields.h"
#include "dumps/hdf5/writer.h"

namespace attest {

/// Writes the fields of Owner as attributes and data sets of a group, and refuses those that break the format's rules.
template <class Owner>
class FieldWriter {
 public:
  /// `object` names the group in messages: "dump.h5: /samples/s". `group` may be created after check().
  FieldWriter(const hdf5::FileWriter& file, const hdf5::Handle& group, std::string object, const Owner& owner,
              Axes axes)
      : file_(file), group_(group), object_(std::move(object)), owner_(owner), axes_(axes) {}

  void write() const {
    for_each_field(owner_, [&](const F& field, const auto& value) { write(field, value); });
  }
  void check() const {
    for_each_field(owner_, [&](const F& field, const auto& value) {
      if (field.optional && is_absent(value)) return;
      const bool is_attribute = *field.shape == '\0';
      fail_for(is_attribute ? "" : field.name, fault_of_value(field, value));
      if (field.fault != nullptr) fail_for(is_attribute ? "" : field.name, field.fault(owner_));
    });
  }

 private:
  using F = Field<Owner>;

  void fail_for(std::string_view data_set, const std::string& fault) const {
    if (!fault.empty())
      throw UsageError(fmt::format("{}{}{}: {}", object_, data_set.empty() ? "" : "/", data_set, fault));
  }

  template <class T>
  static bool is_absent(const std::vector<T>& values) {
    return values.empty();
  }
  static bool is_absent(const std::string& text) { return text.empty(); }
  static bool is_absent(const std::optional<std::int64_t>& value) { return !value; }
  static bool is_absent(const OnDemand&) { return true; }
  static bool is_absent(const TensorLocation&) { return true; }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  static bool is_absent(Number value) { return value == 0; }

  std::string fault_of_value(const F& field, double value) const { return fault_of_attribute(field.name, value); }
  std::string fault_of_value(const F& field, std::int64_t value) const {
    const bool by_axis = *field.range.max_axis != '\0';
    return fault_of_attribute(field.name, value, field.range.min,
                              by_axis ? axes_.at(field.range.max_axis) : field.range.max);
  }
  std::string fault_of_value(const F& field, int value) const { return fault_of_value(field, std::int64_t{value}); }
  std::string fault_of_value(const F& field, const std::optional<std::int64_t>& value) const {
    return fault_of_value(field, *value);
  }
  std::string fault_of_value(const F& field, const std::vector<float>& values) const {
    const hdf5::Extent shape = extent_of(field);
    const hsize_t expected = std::accumulate(shape.begin(), shape.end(), hsize_t{1}, std::multiplies<>());
    return values.size() == expected
               ? ""
               : fmt::format("has {} values, expected {} ({})", values.size(), expected, Axes::meaning(field.shape));
  }
  static std::string fault_of_value(const F&, const auto&) { return {}; }

  hdf5::Extent extent_of(const F& field) const {
    const std::vector<std::int64_t> sizes = axes_.sizes(field.shape);
    return {sizes.begin(), sizes.end()};
  }
  void write(const F& field, const std::vector<std::int64_t>& values) const {
    file_.write_dataset<std::int64_t>(group_, field.name, values, {values.size()});
  }
  void write(const F& field, const std::vector<float>& values) const {
    if (!values.empty()) file_.write_dataset<float>(group_, field.name, values, extent_of(field));
  }
  void write(const F& field, const std::vector<std::string>& values) const {
    if (!values.empty()) file_.write_dataset(group_, field.name, values);
  }
  void write(const F& field, const std::vector<TokenSpan>& spans) const {
    std::vector<std::int64_t> bounds;
    for (const TokenSpan& span : spans) bounds.insert(bounds.end(), {span.begin, span.end});
    if (!spans.empty()) file_.write_dataset<std::int64_t>(group_, field.name, bounds, {spans.size(), 2});
  }
  void write(const F& field, const std::optional<std::int64_t>& value) const {
    if (value) file_.write_attribute(group_, field.name, *value);
  }
  void write(const F&, const OnDemand&) const {}        // by write_array()
  void write(const F&, const TensorLocation&) const {}  // by begin_layer()
  void write(const F& field, const auto& value) const {
    if (!field.optional || !is_absent(value)) file_.write_attribute(group_, field.name, value);
  }

  const hdf5::FileWriter& file_;
  const hdf5::Handle& group_;
  std::string object_;
  const Owner& owner_;
  Axes axes_;
};

}  // namespace attest
