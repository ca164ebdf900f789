// Files and folders as one source of arrays.
#include "dumps/import/tensor_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "dumps/base/error.h"
#include "tests/dumps/import/array_files.h"
#include "tests/dumps/scratch_folder.h"

namespace attest {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

std::vector<std::string> names(const TensorSource& source) {
  std::vector<std::string> names;
  for (const SourceTensor& tensor : source.tensors()) names.push_back(tensor.name);
  return names;
}

/// A file with one float32 array of one element.
std::string one_tensor(std::string_view name, std::string_view four_bytes) {
  return safetensors(R"({")" + std::string(name) + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                     four_bytes);
}

std::string read_all(TensorSource& source) {
  std::string all;
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    std::string bytes(4, '?');
    source.read(i, 0, std::as_writable_bytes(std::span(bytes)));
    all += bytes + " ";
  }
  return all;
}

std::string refusal(const std::string& path) {
  return message_of<InputError>([&] { open_tensor_source(path); });
}

TEST(TensorSource, a_folder_is_its_files_together) {
  const ScratchFolder folder;
  folder.write("b.safetensors", one_tensor("y", "yyyy"));
  folder.write("a.safetensors", one_tensor("x", "xxxx"));
  folder.write("c.npz", zip({{.name = "z.npy", .content = npy(npy_dict("<f4", "(1,)"), "zzzz")}}));
  folder.write("notes.txt", "no arrays");
  const auto source = open_tensor_source(folder.file(""));
  EXPECT_THAT(names(*source), ElementsAre("x", "y", "z"));
  EXPECT_EQ(read_all(*source), "xxxx yyyy zzzz ");
}

TEST(TensorSource, names_that_collide_are_told_apart_by_their_files) {
  const ScratchFolder folder;
  folder.write("layer_0.safetensors", one_tensor("q", "aaaa"));
  folder.write("layer_1.safetensors", one_tensor("q", "bbbb"));
  const auto source = open_tensor_source(folder.file(""));
  EXPECT_THAT(names(*source), ElementsAre("layer_0/q", "layer_1/q"));
  EXPECT_EQ(read_all(*source), "aaaa bbbb ");
}

TEST(TensorSource, an_index_says_which_files_count) {
  const ScratchFolder folder;
  folder.write("model-1.safetensors", one_tensor("x", "xxxx"));
  folder.write("model-2.safetensors", one_tensor("y", "yyyy"));
  folder.write("old.safetensors", one_tensor("x", "oooo"));
  folder.write("model.safetensors.index.json",
               R"({"metadata":{},"weight_map":{"x":"model-1.safetensors","y":"model-2.safetensors"}})");
  EXPECT_THAT(names(*open_tensor_source(folder.file(""))), UnorderedElementsAre("x", "y"));
}

TEST(TensorSource, an_index_must_be_sound_and_stay_in_its_folder) {
  const auto with_index = [](std::string_view json) {
    const ScratchFolder folder;
    const std::string index = folder.write("model.safetensors.index.json", json);
    const std::string message = refusal(folder.file(""));
    return message.starts_with(index) ? message.substr(index.size()) : "elsewhere: " + message;
  };
  EXPECT_EQ(with_index("{"), ": expected a JSON object with an object 'weight_map', found none");
  EXPECT_EQ(with_index("[]"), ": expected a JSON object with an object 'weight_map', found none");
  EXPECT_EQ(with_index(R"({"weight_map":{"x":1}})"), ": expected file names in 'weight_map', found another type");
  for (const std::string name : {"../x.safetensors", "/etc/passwd", "a/b", "..", ".", ""})
    EXPECT_EQ(with_index(R"({"weight_map":{"x":")" + name + R"("}})"),
              ": expected a file name in 'weight_map', found '" + name + "'");
  EXPECT_THAT(with_index(R"({"weight_map":{"x":"absent.safetensors"}})"),
              testing::HasSubstr("absent.safetensors: cannot be opened (No such file or directory)"));
}

TEST(TensorSource, what_is_no_array_file_is_refused_with_a_hint) {
  const ScratchFolder folder;
  const auto complaint = [&](std::string_view bytes) {
    const std::string path = folder.write("x", bytes);
    return refusal(path).substr(path.size());
  };
  EXPECT_EQ(complaint(""), ": expected safetensors or npz, found neither");
  EXPECT_EQ(complaint("hello, world"), ": expected safetensors or npz, found neither");
  EXPECT_EQ(complaint("\x89HDF\r\n\x1a\n"), ": expected safetensors or npz, found HDF5 (a dump needs no import)");
  EXPECT_EQ(complaint(npy(npy_dict("<f4", "(1,)"), "1234")),
            ": expected safetensors or npz, found a single NumPy array (numpy.savez holds several)");
}

TEST(TensorSource, what_cannot_be_read_is_refused_and_never_waited_for) {
  const ScratchFolder folder;
  EXPECT_EQ(refusal(folder.file("absent")), folder.file("absent") + ": cannot be opened (No such file or directory)");
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal(folder.file("pipe")), folder.file("pipe") + ": expected a file, found something else");
  const ScratchFolder empty;
  EXPECT_EQ(refusal(empty.file("")), empty.file("") + ": expected *.safetensors or *.npz files, found none");
}

}  // namespace
}  // namespace attest
