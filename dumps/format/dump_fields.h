// The fields of the dump format, one row each: reader, codec, writer, `attest inspect` and the document (../README.md)
// follow these tables. A new field is a row here, a member in ../dump_info.h or ../attention_layer.h (none for an
// array that is read on demand), and the row that the document prints.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "dumps/dump_info.h"

namespace attest {

/// Sizes of the axes that shapes name; -1: not known yet.
class Axes {
 public:
  Axes() = default;
  explicit Axes(const AttentionShape& shape);
  Axes(const AttentionShape& shape, const SampleTokens& sample);

  /// Throws std::logic_error for a symbol that is none of the format's.
  std::int64_t& at(std::string_view symbol);
  std::int64_t at(std::string_view symbol) const;
  /// The sizes of "[Hkv, T, D]", -1 for an axis that is not known yet.
  std::vector<std::int64_t> sizes(std::string_view shape) const;
  /// "num_kv_heads, num_tokens, head_dim" for "[Hkv, T, D]".
  static std::string meaning(std::string_view shape);

 private:
  std::array<std::int64_t, 8> sizes_{-1, -1, -1, -1, -1, -1, -1, -1};
};

/// The symbols in "[Hkv, T, D]"; a number such as "2" counts as one.
std::vector<std::string_view> axis_symbols(std::string_view shape);

/// An array whose name alone is kept in `arrays` of its sample or layer.
struct OnDemand {
  bool operator==(const OnDemand&) const = default;
};

/// Where a field is kept: a member of Owner (DumpInfo, SampleInfo, LayerInfo), or of DumpInfo's shape.
template <class Owner>
using FieldPlace =
    std::variant<OnDemand, int AttentionShape::*, int Owner::*, std::int64_t Owner::*,
                 std::optional<std::int64_t> Owner::*, double Owner::*, std::string Owner::*,
                 std::vector<std::int64_t> Owner::*, std::vector<TokenSpan> Owner::*, std::vector<std::string> Owner::*,
                 std::vector<float> Owner::*, TensorLocation Owner::*>;

/// Bounds of an integer attribute.
struct IntegerRange {
  std::int64_t min = 1, max = kLargestCount;
  const char* max_axis = "";  ///< the axis whose size is the upper bound instead
};

template <class Owner>
struct Field {
  const char* name;
  const char* type;   ///< "int", "double", "string"; of a data set its elements: "int32"; "": any ElementType
  const char* shape;  ///< of a data set, "[Hkv, T, D]"; "": an attribute
  bool optional;
  FieldPlace<Owner> place;
  const char* meaning;                           ///< for the document
  const char* label = "";                        ///< what inspect's text has before the value, or for an array
  IntegerRange range = {};                       ///< of an integer
  std::string (*fault)(const Owner&) = nullptr;  ///< breach of a rule that concerns the value; "": none
};

std::span<const Field<DumpInfo>> fields_of(const DumpInfo&);
std::span<const Field<SampleInfo>> fields_of(const SampleInfo&);
std::span<const Field<LayerInfo>> fields_of(const LayerInfo&);

/// Calls visit(field, value) for a field of `owner`, a DumpInfo, SampleInfo or LayerInfo; `value` is the member or an
/// OnDemand.
template <class Owner, class Field, class Visit>
void visit_field(Owner& owner, const Field& field, Visit visit) {
  const auto visit_place = [&](auto place) {
    if constexpr (std::is_same_v<decltype(place), OnDemand>) {
      visit(field, place);
    } else if constexpr (std::is_same_v<decltype(place), int AttentionShape::*>) {
      if constexpr (requires { owner.shape; }) visit(field, owner.shape.*place);
    } else {
      visit(field, owner.*place);
    }
  };
  std::visit(visit_place, field.place);
}

/// Calls visit(field, value) for all fields of `owner`.
template <class Owner, class Visit>
void for_each_field(Owner& owner, Visit visit) {
  for (const auto& field : fields_of(owner)) visit_field(owner, field, visit);
}

/// What is wrong with an integer or a real attribute of that value; "": nothing. A real one is a factor of the scores.
std::string fault_of_attribute(const char* name, std::int64_t value, std::int64_t min, std::int64_t max);
std::string fault_of_attribute(const char* name, double value);

}  // namespace attest
