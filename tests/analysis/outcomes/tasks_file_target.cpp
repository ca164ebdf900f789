// Tasks files, their reader, and what joins them with results.
#include <array>

#include "analysis/outcomes/answer_table.h"
#include "analysis/outcomes/outcome_join.h"
#include "analysis/outcomes/tasks_file.h"
#include "tests/dumps/hdf5_edit.h"
#include "tests/dumps/scratch_folder.h"
#include "tests/fuzz/fuzz_study.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/hdf5_mutation.h"

namespace attest::fuzz {
namespace {

using test::Edit;

void write_texts(const Edit& edit, const std::string& object, const std::vector<const char*>& texts,
                 const std::vector<hsize_t>& shape) {
  const test::Handle type = test::own(H5Tcopy(H5T_C_S1));
  test::done(H5Tset_size(type.get(), H5T_VARIABLE));
  edit.dataset(object, type.get(), shape, texts.data());
}

/// In HDF5's earliest format, as h5py writes it.
std::string tasks_seed(const ScratchFolder& folder) {
  constexpr hsize_t kPrompts = 2, kRuns = 4;
  const std::string path = folder.file("seed.h5");
  {
    const hdf5::Lock lock;
    test::own(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  }
  {
    const Edit edit(path);
    edit.text("/", "format", "attest-tasks");
    edit.integer("/", "format_version", 1);
    edit.text("/", "model", "m");
    edit.text("/", "manifest", "{}");
    edit.integer("/", "num_layers", 2);
    for (const char* group : {"/prompts", "/runs", "/outcomes"}) edit.group(group);
    for (const char* name : {"/prompts/task", "/prompts/answer"}) write_texts(edit, name, {"kv", "mk"}, {kPrompts});
    write_texts(edit, "/prompts/name", {"kv-0", "mk-0"}, {kPrompts});
    edit.integers("/prompts/num_tokens", {kPrompts}, {900, 1000});
    write_texts(edit, "/runs/label", {"dense", "ffd", "ffd", "quest"}, {kRuns});
    write_texts(edit, "/runs/selector", {"exact", "ffd", "ffd", "quest"}, {kRuns});
    write_texts(edit, "/runs/options", {"{}", "{\"gqa\": \"union\"}", "{}", "{}"}, {kRuns});
    write_texts(edit, "/runs/setting_kind", {"none", "delta", "delta", "budget"}, {kRuns});
    const std::array settings{0.0, 1.0, 5.0, 25.0};
    edit.dataset("/runs/setting", H5T_NATIVE_DOUBLE, {kRuns}, settings.data());
    const std::array<std::uint8_t, kRuns> percents{0, 0, 0, 1};
    edit.dataset("/runs/setting_percent", H5T_NATIVE_UINT8, {kRuns}, percents.data());
    write_texts(edit, "/runs/setting_label", {"", "1", "5", "25%"}, {kRuns});
    const std::array<std::uint8_t, kPrompts * kRuns> scores{1, 0, 1, 2, 1, 1, 0, 0};
    for (const char* name : {"/outcomes/exact", "/outcomes/contains", "/outcomes/prefix"})
      edit.dataset(name, H5T_NATIVE_UINT8, {kPrompts, kRuns}, scores.data());
    write_texts(edit, "/outcomes/answer", {"a", "b", "c", "d", "e", "f", "g", "h"}, {kPrompts, kRuns});
    edit.zeros("/outcomes/kept_ratio", H5T_NATIVE_FLOAT, {kPrompts, kRuns});
    edit.zeros("/outcomes/num_tokens", H5T_NATIVE_INT32, {kPrompts, kRuns});
  }
  return bytes_of_file(path);
}

class TasksTarget : public FuzzTarget {
 public:
  std::string make(RandomStream& random) override { return mutated_hdf5(folder_.file("made.h5"), seed_, random); }

  Outcome read(const std::string& input) override {
    const std::string path = folder_.write("t.h5", input);
    std::vector<TasksFile> files;
    const Outcome outcome = outcome_of(path, [&] { files.push_back(read_tasks_file(path)); });
    if (outcome == Outcome::refused) return outcome;
    require(is_tasks_file(path), "a tasks file that is none");
    const TasksFile& file = files.front();
    for (const std::vector<Score>& scores : file.scores)
      require(scores.size() == file.prompts.size() * file.runs.size(), "a score for each answer");
    require(file.runs.front().is_dense(), "the first run is dense");
    require(answer_table(file).rows.size() == file.runs.size(), "a row for each run");
    outcome_of(path, [&] { join_answers({}, files); });  // no results: nothing in common
    return outcome;
  }

 private:
  ScratchFolder folder_;
  const std::string seed_ = tasks_seed(folder_);
};

}  // namespace

const TargetInfo kTasksTarget{"tasks", ".h5", 400, [] { return std::unique_ptr<FuzzTarget>(new TasksTarget); }};

}  // namespace attest::fuzz
