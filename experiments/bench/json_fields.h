// Typed fields of a JSON object from an untrusted file. A refusal names file and place, what was found and expected.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace attest {

/// Functions throw InputError where a field is missing or of another kind. Fields that nobody asks for are ignored.
class JsonFields {
 public:
  /// `object` must be an object, and outlive this.
  JsonFields(std::string path, std::string place, const nlohmann::json& object);

  std::string text(const std::string& name) const;
  std::string text_or_null(const std::string& name) const;  ///< "": null
  std::string one_of(const std::string& name, const std::vector<std::string>& names) const;
  std::string one_of_or_null(const std::string& name, const std::vector<std::string>& names) const;
  bool flag(const std::string& name) const;
  std::int64_t whole(const std::string& name, std::int64_t least, std::int64_t most) const;
  std::uint64_t unsigned_whole(const std::string& name) const;
  double number(const std::string& name) const;                ///< at least 0
  double number_or_null(const std::string& name) const;        ///< at least 0; NaN: null
  double cosine_or_null(const std::string& name) const;        ///< from -1 to 1, with room for rounding; NaN: null
  std::vector<double> numbers(const std::string& name) const;  ///< each at least 0
  std::vector<std::string> texts(const std::string& name) const;
  JsonFields object(const std::string& name) const;
  bool is_null(const std::string& name) const;
  /// Calls `each` with the objects of a list.
  void objects(const std::string& name, const std::function<void(const JsonFields&)>& each) const;

  [[noreturn]] void refuse(const std::string& name, std::string_view expected) const;

 private:
  const nlohmann::json& at(const std::string& name, std::string_view expected) const;

  std::string path_, place_;
  const nlohmann::json* object_;
};

}  // namespace attest
