// The list of formats. To add one, add its name here; its file defines kv_NAME, and a CUDA file of the same stem
// cuda_kv_NAME.
#pragma once

#define ATTEST_KV_FORMATS(one)                                                                               \
  one(fp8_e4m3) one(fp8_e5m2) one(nvfp4) one(nvfp4_4over6) one(q8_0) one(q5_1) one(q5_0) one(q4_1) one(q4_0) \
      one(turboquant4) one(turboquant3) one(int4_token_head) one(fp8_ds_mla)

namespace attest {

struct KvRows;
struct DeviceKvRows;

#define ATTEST_DECLARE(name) void cuda_kv_##name(const KvRows& rows, const DeviceKvRows& on_device);
ATTEST_KV_FORMATS(ATTEST_DECLARE)
#undef ATTEST_DECLARE

}  // namespace attest
