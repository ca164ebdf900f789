// The file of the option settings_file: a recommendation, which gives KV heads of a model settings of their own.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/selectors/head_settings.h"

namespace attest {

class Json;  // json.h: not one for nvcc
class JsonPlace;

inline constexpr std::string_view kRecommendationFormat = "attest-recommendation";
inline constexpr int kRecommendationVersion = 1;

/// What a selector reads from a recommendation. The rest of it (the claim, the results that it rests on) is for
/// readers.
struct SettingsFile {
  std::string path;
  std::string model;                                         ///< empty: not said
  std::string selector;                                      ///< registered name; empty: not said
  std::vector<std::pair<std::string, std::string>> options;  ///< those that are recorded, perhaps none
  HeadSettings settings;
};

/// Throws InputError that names the file, the place in it, what it expected and what it found.
SettingsFile read_settings_file(const std::string& path);

/// The members `default` and `layers` of a recommendation, each of whose settings `form` reads. `bare_layers`: a layer
/// may be a setting alone. Throws InputError.
HeadSettings read_head_settings(const JsonPlace& document, const std::function<HeadSetting(const JsonPlace&)>& form,
                                bool bare_layers = false);
/// A number of at least 0, "inf" or "dense". Throws InputError.
HeadSetting read_head_setting(const JsonPlace& at);

/// Throws InputError if the file names a layer or a KV head that the model of `dump` does not have.
void check_heads(const SettingsFile& file, int num_layers, int num_kv_heads, std::string_view dump);

/// The members `default` and `layers` of a recommendation. A setting is a number, "inf" or "dense", or has the form
/// that `form` gives it, where settings are no plain numbers.
Json head_settings_json(const HeadSettings& settings);
Json head_settings_json(const HeadSettings& settings, const std::function<Json(const HeadSetting&)>& form);

}  // namespace attest
