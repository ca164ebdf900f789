// A valid small dump that each test breaks in one place, and the reader's error.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "dumps/base/error.h"
#include "dumps/format/dump_reader.h"
#include "tests/dumps/format/small_dump.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/message_of.h"

namespace attest::test {

inline const std::string kFirst = "/samples/first";
inline const std::string kLayer = "/samples/first/layers/2";  // float16, window 16

class BadDumpTest : public ::testing::Test {
 protected:
  /// The error of opening `path_`, without the file's name at its start, which every error must have.
  std::string error() const {
    return refusal_of_file<InputError>(path_, [&] { DumpReader reader(path_); });
  }

  std::string error_after(const std::function<void(const Edit&)>& change) const {
    write_small_dump(path_, {.overwrite = true});
    change(Edit(path_));
    return error();
  }

  ScratchFolder folder_;
  std::string path_ = folder_.file("dump.h5");
  Handle half_ = float_type(5, 10, 15);
};

}  // namespace attest::test
