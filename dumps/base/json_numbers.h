// Values that JSON does not have, in the forms that our documents give them.
#pragma once

#include <cmath>
#include <string>

#include "dumps/base/json.h"

namespace attest {

/// Null unless it is finite.
inline Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

/// NaN is null, infinities are the texts "inf" and "-inf".
inline Json number_or_text(double value) {
  return std::isinf(value) ? Json(value > 0 ? "inf" : "-inf") : finite_or_null(value);
}

/// A list, whose elements `form` makes.
template <class Values>
Json list_of_numbers(const Values& values, Json (*form)(double) = number_or_text) {
  Json list = Json::array();
  for (const double value : values) list.push_back(form(value));
  return list;
}

/// Null if it is empty.
inline Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace attest
