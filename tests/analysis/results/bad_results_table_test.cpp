// Malformed results files by the table: every attribute and data set, each with every wrong kind of content.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/results/results_file.h"
#include "dumps/base/error.h"
#include "tests/analysis/results/small_study.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest::test {
namespace {

using Change = std::function<void(const Edit&)>;

class BadResultsTable : public ::testing::Test {
 protected:
  BadResultsTable() {
    write_small_study(folder_.file("good.h5"));
    good_ = bytes_of_file(folder_.file("good.h5"));
  }

  /// The sentence about the good file after `change`, without the file's name.
  std::string sentence(const Change& change) {
    const std::string path = folder_.write("r.h5", good_);
    change(Edit(path));
    return refusal_of_file<InputError>(path, [&] { ResultsFile{path}; });
  }

  void expect(const std::string& expected, const Change& change) { EXPECT_EQ(sentence(change), expected); }

  ScratchFolder folder_;
  std::string good_;
};

const std::string kDump = "/dumps/0", kSample = "/dumps/0/samples/s", kSelector = kSample + "/zeta";

TEST_F(BadResultsTable, CountsOfEveryWrongKind) {
  const std::pair<std::string, std::string> counts[]{{kDump, "num_layers"},
                                                     {kDump, "num_query_heads"},
                                                     {kDump, "num_kv_heads"},
                                                     {kDump, "head_dim"},
                                                     {kDump, "value_dim"},
                                                     {kSample, "num_tokens"},
                                                     {"/dumps/1/samples/s", "num_tokens"}};
  for (const auto& [object, name] : counts) {
    const std::string begin = object + ": attribute '" + name + "' is ";
    const std::string end = ", expected an integer from 1 to 2147483647";
    expect(begin + "missing" + end, [&](const Edit& e) { e.remove_attribute(object, name); });
    expect(begin + "0" + end, [&](const Edit& e) { e.integer(object, name, 0); });
    expect(begin + "-1" + end, [&](const Edit& e) { e.integer(object, name, -1); });
    expect(begin + "4611686018427387904" + end, [&](const Edit& e) { e.integer(object, name, std::int64_t{1} << 62); });
    expect(begin + "1.5" + end, [&](const Edit& e) { e.number(object, name, 1.5); });
    expect(begin + "inf" + end, [&](const Edit& e) { e.number(object, name, HUGE_VAL); });
    expect(begin + "a string" + end, [&](const Edit& e) { e.text(object, name, "4"); });
    const std::int64_t values[]{4, 4, 4};
    expect(begin + "an array of 3 values" + end,
           [&](const Edit& e) { e.attribute(object, name, H5T_NATIVE_INT64, values, {3}); });
  }
}

TEST_F(BadResultsTable, TextsOfEveryWrongKind) {
  const std::pair<std::string, std::string> texts[]{
      {"/", "manifest"},       {kDump, "path"},        {kDump, "model"},      {kSample, "task"},
      {kSelector, "selector"}, {kSelector, "setting"}, {kSelector, "options"}};
  for (const auto& [object, name] : texts) {
    const std::string begin = object + ": attribute '" + name + "' ";
    expect(begin + "is missing, expected a string", [&](const Edit& e) { e.remove_attribute(object, name); });
    expect(begin + "is an integer, expected a string", [&](const Edit& e) { e.integer(object, name, 3); });
    expect(begin + "is an array of 2 values, expected a string", [&](const Edit& e) {
      e.texts(object, name, {"a", "b"});
    });
  }
}

TEST_F(BadResultsTable, PartsThatAreMissingOrOfAnotherKind) {
  for (const std::string name : {"layers", "query_positions", "scores"})
    expect(kSample + ": '" + name + "' is missing", [&](const Edit& e) { e.remove(kSample + "/" + name); });
  for (const std::string name : {"settings", "setting_labels", "dense", "done"}) {
    const std::string object = kSelector + "/" + name;
    expect(kSelector + ": '" + name + "' is missing", [&](const Edit& e) { e.remove(object); });
    expect(object + ": is not a data set, expected one", [&](const Edit& e) {
      e.remove(object);
      e.group(object);
    });
  }
  for (const std::string& object :
       {std::string("/dumps"), kDump, kDump + "/samples", kSample, kSelector, kSample + "/scores"})
    expect(object + ": is not a group, expected one", [&](const Edit& e) {
      e.remove(object);
      e.zeros(object, H5T_IEEE_F32LE, {1});
    });
}

TEST_F(BadResultsTable, ShapesAndTypes) {
  const std::string metric = kSelector + "/recall", shape = ", expected [3, 2, 4, 3] (layer, query, head, setting)";
  expect(metric + ": has the shape []" + shape, [&](const Edit& e) { e.zeros(metric, H5T_IEEE_F32LE, {}); });
  expect(metric + ": has the shape [3, 2, 4]" + shape, [&](const Edit& e) {
    e.zeros(metric, H5T_IEEE_F32LE, {3, 2, 4});
    e.texts(metric, "DIMENSION_LABELS", {"layer", "query", "head", "setting"});
  });
  expect(metric + ": has the shape [0, 2, 4, 3]" + shape, [&](const Edit& e) {
    e.zeros(metric, H5T_IEEE_F32LE, {0, 2, 4, 3});
  });
  expect(metric + ": has the shape [3, 2, 3, 4]" + shape, [&](const Edit& e) {
    e.zeros(metric, H5T_IEEE_F32LE, {3, 2, 3, 4});
  });
  const std::string types = ", expected little-endian float16, bfloat16 or float32", has = ": has elements of type ";
  for (const auto& [type, name] :
       {std::pair(H5T_STD_I32LE, "little-endian integer of 32 bits"),
        std::pair(H5T_IEEE_F32BE, "big-endian float of 32 bits (8 of exponent, 23 of mantissa)"),
        std::pair(H5T_C_S1, "string"), std::pair(H5T_STD_REF_OBJ, "reference")})
    expect(metric + has + name + types, [&](const Edit& e) { e.zeros(metric, type, {3, 2, 4, 3}); });
  expect(metric + ": does not hold float32 values", [&](const Edit& e) {
    e.zeros(metric, float_type(5, 10, 15).get(), {3, 2, 4, 3});
  });
  for (const std::string name : {"dense", "done"}) {
    const std::string flags = kSelector + "/" + name;
    expect(flags + ": has the shape [3, 1], expected [3] (layers)", [&](const Edit& e) {
      e.zeros(flags, H5T_STD_U8LE, {3, 1});
    });
    expect(flags + has + "little-endian float of 64 bits (11 of exponent, 52 of mantissa), expected integers",
           [&](const Edit& e) { e.zeros(flags, H5T_IEEE_F64LE, {3}); });
    for (const std::int64_t value : {2, 256, -1})
      expect(flags + ": [1] is " + std::to_string(value) + ", expected 0 or 1", [&](const Edit& e) {
        e.integers(flags, {3}, {1, value, 0});
      });
  }
  const std::string labels = kSelector + "/setting_labels";
  expect(labels + ": has the shape [2], expected [3] (settings)",
         [&](const Edit& e) { e.zeros(labels, H5T_C_S1, {2}); });
  expect(labels + has + "little-endian integer of 64 bits, expected strings", [&](const Edit& e) {
    e.integers(labels, {3}, {1, 2, 3});
  });
}

TEST_F(BadResultsTable, NumbersThatDoNotAscend) {
  const std::pair<std::vector<std::int64_t>, std::string> layers[]{
      {{0, 2, 6}, "[2] is 6"}, {{0, 0, 2}, "[1] is 0"}, {{-1, 2, 5}, "[0] is -1"}, {{5, 2, 0}, "[1] is 2"}};
  for (const auto& [values, found] : layers)
    expect(kSample + "/layers: " + found + ", expected ascending numbers from 0 to 5",
           [&](const Edit& e) { e.integers(kSample + "/layers", {3}, values); });
  for (const std::string name : {"layers", "query_positions"}) {
    const std::string object = kSample + "/" + name;
    expect(object + ": is not a list of numbers", [&](const Edit& e) { e.integers(object, {0}, {}); });
    expect(object + ": is not a list of numbers", [&](const Edit& e) { e.integers(object, {1, 2}, {1, 2}); });
    expect(object + ": has elements of type string, expected integers",
           [&](const Edit& e) { e.zeros(object, H5T_C_S1, {2}); });
  }
  expect(kSample + "/query_positions: [1] is 17, expected ascending numbers from 0 to 39", [&](const Edit& e) {
    e.integers(kSample + "/query_positions", {2}, {17, 17});
  });
}

TEST_F(BadResultsTable, Links) {
  const std::string metric = kSelector + "/recall", elsewhere = "' is a link into another file, which is not followed";
  expect(kSelector + ": 'recall" + elsewhere, [&](const Edit& e) {
    e.remove(metric);
    e.external_link("other.h5", "/x", metric);
  });
  expect("/: 'dumps" + elsewhere, [&](const Edit& e) {
    e.remove("/dumps");
    e.external_link("other.h5", "/dumps", "/dumps");
  });
  expect(kDump + "/samples/loop: attribute 'task' is missing, expected a string", [&](const Edit& e) {
    done(H5Lcreate_hard(e.file(), "/dumps", e.file(), (kDump + "/samples/loop").c_str(), H5P_DEFAULT, H5P_DEFAULT));
  });
  for (const auto& [target, at] : {std::pair("/nowhere", kSelector + "/extra"), std::pair("a", kSample + "/a")}) {
    const std::string found = sentence([&, to = target, place = at](const Edit& e) { e.soft_link(to, place); });
    const std::size_t slash = at.rfind('/');
    EXPECT_TRUE(
        found.starts_with(at.substr(0, slash) + ": '" + at.substr(slash + 1) + "' is a soft link that leads nowhere"))
        << found;
  }
}

TEST_F(BadResultsTable, Storage) {
  const std::string metric = kSelector + "/recall";
  const auto stored = [&](const std::function<void(hid_t)>& set, const void* values = nullptr) {
    return [&, set, values](const Edit& e) {
      const Handle properties = own(H5Pcreate(H5P_DATASET_CREATE));
      set(properties.get());
      e.dataset(metric, H5T_IEEE_F32LE, {3, 2, 4, 3}, values, properties.get());
    };
  };
  const hsize_t chunk[]{1, 2, 4, 3};
  expect(metric + ": its values were never written", stored([](hid_t) {}));
  expect(metric + ": its values lie in another file, expected them in this one",
         stored([](hid_t p) { done(H5Pset_external(p, "other.bin", 0, H5F_UNLIMITED)); }));
  expect(metric + ": is a virtual data set, expected its values in this file", stored([](hid_t p) {
           const hsize_t extents[]{3, 2, 4, 3};
           const Handle space = own(H5Screate_simple(4, extents, nullptr));
           done(H5Pset_virtual(p, space.get(), "other.h5", "/x", space.get()));
         }));
  const std::vector<float> values(72, 0.5f);
  expect(metric + ": needs the filter 5 (nbit), which is not available; expected gzip, shuffle or fletcher32",
         stored(
             [&](hid_t p) {
               done(H5Pset_chunk(p, 4, chunk));
               done(H5Pset_nbit(p));
             },
             values.data()));
  expect(metric + ": 0 of its 3 chunks were written, expected all", stored([&](hid_t p) {
           done(H5Pset_chunk(p, 4, chunk));
           done(H5Pset_deflate(p, 1));
         }));
}

TEST_F(BadResultsTable, SettingsThatNoCommandLineHas) {
  expect("selector 'zeta': its setting is 'gamma', expected none, delta, budget, p or factor",
         [&](const Edit& e) { e.text(kSelector, "setting", "gamma"); });
  const std::string uneven = "': not the same selectors, settings and lambdas as in the first sample of the file";
  for (const auto& [name, other] : {std::pair{"selector", "other"}, {"options", "{\"other\": 1}"}})
    expect("sample 't' and selector 'zeta" + uneven,
           [&](const Edit& e) { e.text("/dumps/0/samples/t/zeta", name, other); });
  expect("sample 't' and selector 'zeta" + uneven,
         [&](const Edit& e) { e.text("/dumps/0/samples/t/zeta", "setting", "factor"); });
  expect("sample 't' and selector 'zeta" + uneven, [&](const Edit& e) {
    const double settings[]{7, 5, 1.25};
    e.dataset("/dumps/0/samples/t/zeta/settings", H5T_NATIVE_DOUBLE, {3}, settings);
  });
}

}  // namespace
}  // namespace attest::test
