// Parsing of --device and --device-memory.
#include "analysis/layer/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dumps/base/error.h"
#include "tests/message_of.h"

namespace attest {
namespace {

TEST(DeviceMemory, IsAShareOrASize) {
  EXPECT_DOUBLE_EQ(parse_device_memory("80%").share, 0.8);
  EXPECT_EQ(parse_device_memory("80%").bytes, 0u);
  EXPECT_DOUBLE_EQ(parse_device_memory("12.5 %").share, 0.125);
  EXPECT_EQ(parse_device_memory("12GiB").bytes, std::uint64_t{12} << 30);
  EXPECT_EQ(parse_device_memory("1.5G").bytes, std::uint64_t{3} << 29);
  EXPECT_EQ(parse_device_memory("500 MB").bytes, 500000000u);
  EXPECT_EQ(parse_device_memory("4096").bytes, 4096u);
}

TEST(DeviceMemory, OtherTextIsAUsageError) {
  for (const char* text :
       {"", "%", "0%", "101%", "-1GiB", "12 apples", "nan", "inf", "1e300GiB", "0", "0.2", "80%%", "GiB"})
    EXPECT_THROW(parse_device_memory(text), UsageError) << text;
}

TEST(Device, TheCpuIsAlwaysThere) {
  EXPECT_EQ(resolve_device("cpu").kind, DeviceKind::cpu);
  EXPECT_NO_THROW(resolve_device("auto"));
  for (const char* text : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda1", "cuda:999", "cuda:1 "})
    EXPECT_THROW(resolve_device(text), UsageError) << text;
}

TEST(Device, ATextIsCheckedWithoutTheMachinesGpus) {
  for (const char* text : {"auto", "cpu", "cuda", "cuda:999", "cuda:0,1", "cuda:all"})
    EXPECT_NO_THROW(check_device_text(text)) << text;
  for (const char* text : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:all,0"})
    EXPECT_THROW(check_device_text(text), UsageError) << text;
}

const Gpu kOld{"P100", 6, 0};
VisibleGpus three_gpus() { return {.gpus = {{"A100", 8, 0}, kOld, {"H200", 9, 0}}}; }
VisibleGpus only(const Gpu& gpu) { return {.gpus = {gpu}}; }

TEST(Device, SeveralGpus) {
  EXPECT_EQ(resolve_device("auto", three_gpus()).gpus, (std::vector<int>{0}));
  EXPECT_EQ(resolve_device("cuda", three_gpus()).gpus, (std::vector<int>{0}));
  EXPECT_EQ(resolve_device("cuda:2", three_gpus()).gpus, (std::vector<int>{2}));
  EXPECT_EQ(resolve_device("cuda:2,0", three_gpus()).gpus, (std::vector<int>{2, 0}));
  EXPECT_EQ(resolve_device("cuda:2,0", three_gpus()).first_gpu(), 2);
  const Device all = resolve_device("cuda:all", three_gpus());
  EXPECT_EQ(all.gpus, (std::vector<int>{0, 2}));
  EXPECT_EQ(all.kind, DeviceKind::cuda);
  EXPECT_EQ(all.notice, "GPU 1 is not used: P100 has compute capability 6.0, the GPU study needs 8.0 or later");
  EXPECT_EQ(resolve_device("auto", only(kOld)).kind, DeviceKind::cpu);
}

TEST(Device, EveryGpuThatIsTooOldIsNamed) {
  const Device all = resolve_device("cuda:all", {.gpus = {kOld, {"A100", 8, 0}, {"V100", 7, 0}}});
  EXPECT_EQ(all.gpus, (std::vector<int>{1}));
  EXPECT_EQ(all.notice,
            "GPU 0 is not used: P100 has compute capability 6.0, the GPU study needs 8.0 or later; "
            "GPU 2 is not used: V100 has compute capability 7.0, the GPU study needs 8.0 or later");
}

TEST(Device, SaysWhichGpuIsMissingOrGivenTwice) {
  const auto said = [](const char* text, const VisibleGpus& visible) {
    return message_of<UsageError>([&] { resolve_device(text, visible); });
  };
  EXPECT_EQ(said("cuda:0,3", three_gpus()), "--device cuda:0,3: found 3 GPUs, counted from 0");
  EXPECT_EQ(said("cuda:1", only({"A100", 8, 0})), "--device cuda:1: found 1 GPU, number 0");
  EXPECT_EQ(said("cuda:0,0", three_gpus()), "--device cuda:0,0: GPU 0 is given twice");
  EXPECT_EQ(
      said("cuda:0,1", three_gpus()),
      "--device cuda:0,1: P100 has compute capability 6.0, the GPU study needs 8.0 or later; expected cpu or auto");
  EXPECT_EQ(said("cuda:all", {}), "--device cuda:all: no GPU was found; expected cpu or auto");
  EXPECT_EQ(said("cuda:all", only(kOld)),
            "--device cuda:all: P100 has compute capability 6.0, the GPU study needs 8.0 or later; expected cpu");
  for (const char* text : {"cuda:0,", "cuda:,0", "cuda:0,,2", "cuda:0 ,2", "cuda:0;2", "cuda:al", "cuda:all,0",
                           "cpu,cuda", "cuda:99999999999"})
    EXPECT_THAT(said(text, three_gpus()), ::testing::StartsWith("--device is '")) << text;
}

TEST(Device, SaysWhatTheRuntimeSaysWhereItCannotCountTheGpus) {
  const VisibleGpus none{.gpus = {}, .fault = "the CUDA runtime says 'driver too old'"};
  const Device chosen = resolve_device("auto", none);
  EXPECT_EQ(chosen.kind, DeviceKind::cpu);
  EXPECT_EQ(chosen.notice, "the CUDA runtime says 'driver too old'; the CPU is used");
  EXPECT_EQ(resolve_device("auto", VisibleGpus()).notice, "") << "a machine without a GPU";
  for (const std::string text : {"cuda", "cuda:1", "cuda:all"})
    EXPECT_EQ(message_of<UsageError>([&] { resolve_device(text, none); }),
              "--device " + text + ": the CUDA runtime says 'driver too old'; expected cpu or auto");
}

TEST(Device, SaysWhatTheRuntimeSaysOfGpusThatFail) {
  VisibleGpus two{.gpus = {kOld, {"A100", 8, 0}}, .fault = "the CUDA runtime says 'unknown error'"};
  EXPECT_EQ(resolve_device("auto", two).notice, "") << "one that works is used";
  EXPECT_EQ(resolve_device("cuda:all", two).notice,
            "GPU 0 is not used: P100 has compute capability 6.0, the GPU study needs 8.0 or later; "
            "no GPU from 2 on is used: the CUDA runtime says 'unknown error'");
  EXPECT_EQ(message_of<UsageError>([&] { resolve_device("cuda:2", two); }),
            "--device cuda:2: found 2 GPUs, counted from 0; the CUDA runtime says 'unknown error'");
  two.gpus.pop_back();
  EXPECT_EQ(resolve_device("auto", two).notice, "the CUDA runtime says 'unknown error'; the CPU is used");
}

}  // namespace
}  // namespace attest
