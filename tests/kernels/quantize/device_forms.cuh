// Applies key and value forms to a layer element by element, and makes layers that are hard for quantisers.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/device/octet.cuh"
#include "kernels/device/octet_places.h"
#include "tests/kernels/device_rows.h"

namespace attest::test {

/// Keys and values with constant and zero channels, outliers, values halfway between codes, and ranges whose float32
/// division needs special care. In every other 128 tokens some tokens are constant or zero.
inline AttentionLayer awkward_layer(const Case& c, std::uint64_t seed = 1) {
  AttentionLayer layer = make_layer(c, seed);
  Random random(seed + 1000);
  const auto fill = [&](LayerBuffer& buffer, int channels) {
    std::vector<float> values(static_cast<std::size_t>(c.kv_heads * layer.num_tokens * channels));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int d = static_cast<int>(i % channels), token = static_cast<int>(i / channels % layer.num_tokens);
      const double normal = random.normal();
      double value = normal;
      if (d % 26 == 1) value = 0;
      if (d % 26 == 2) value = 1.25;
      if (d % 26 == 3) value = 20000 * normal;
      if (d % 26 == 4) value = 1e-6 * normal;
      if (d % 26 == 5) value = static_cast<double>(random.below(7)) / 2;
      if (d % 26 == 6) value = 3e-9 * static_cast<double>(random.below(3));
      if (d % 26 == 7 && token % 4 == 1 && c.type != ElementType::float16) value = 1e25 * normal;
      if (token / 128 % 2 == 1 && token % 7 == 3) value = 2.5;
      if (token / 128 % 2 == 1 && token % 7 == 5) value = 0;
      values[i] = static_cast<float>(c.type == ElementType::float16 ? std::clamp(value, -60000.0, 60000.0) : value);
    }
    buffer = rounded(c.type, values);
  };
  fill(layer.k, c.head_dim);
  fill(layer.v, c.value_dim);
  return layer;
}

/// One batch per origin, with all its keys; params is the index of the origin.
inline std::vector<RowBatch> batch_of_each_origin(const DeviceLayer& on) {
  std::vector<RowBatch> batches;
  for (int i = 0; i < on.rows.num_origins; ++i)
    batches.push_back({.first_row = 0, .num_rows = 0, .length = on.origins[i].length, .origin = i, .params = i});
  return batches;
}

/// Keys and residuals, each [batches, longest, dim].
struct FormedKeys {
  int longest = 0, dim = 0;
  std::vector<float> keys, residuals;

  std::size_t at(int batch, int token, int channel) const {
    return (static_cast<std::size_t>(batch) * longest + token) * dim + channel;
  }
  /// One channel of tokens [begin, end) of a batch.
  static Row column(const std::vector<float>& of, const FormedKeys& shape, int batch, int begin, int end, int channel) {
    Row out;
    for (int token = begin; token < end; ++token) out.push_back(of[shape.at(batch, token, channel)]);
    return out;
  }
  Row key_column(int batch, int begin, int end, int channel) const {
    return column(keys, *this, batch, begin, end, channel);
  }
  Row residual_column(int batch, int begin, int end, int channel) const {
    return column(residuals, *this, batch, begin, end, channel);
  }
  Row key(int batch, int token) const {
    return Row(keys.begin() + at(batch, token, 0), keys.begin() + at(batch, token, 0) + dim);
  }
};

/// One thread block per (token, batch).
template <class Form>
__global__ void form_keys_kernel(const RowBatch* batches, const KeyOrigin* origins, DeviceKeyValues kv, Form form,
                                 float* keys, float* residuals) {
  const RowBatch batch = batches[blockIdx.y];
  const int token = blockIdx.x, channel = static_cast<int>(threadIdx.x) * kOctet, dim = kv.head_dim;
  if (token >= batch.length) return;
  const KeyOrigin origin = origins[batch.origin];
  const std::int64_t index = static_cast<std::int64_t>(origin.kv_head) * kv.tokens + origin.first_key + token;
  float key[kOctet], residual[kOctet] = {};
  load_octet(kv.type, kv.keys, index * dim + channel, dim - channel, dim, key);
  form(KeyPlace{batch.params, token, index, channel}, key, residual);
  const std::int64_t at = (static_cast<std::int64_t>(blockIdx.y) * gridDim.x + token) * dim + channel;
  for (int i = 0; i < kOctet && channel + i < dim; ++i) keys[at + i] = key[i], residuals[at + i] = residual[i];
}

template <class Form>
FormedKeys formed_keys(const Form& form, const DeviceLayer& on, const std::vector<RowBatch>& batches, Gpu& gpu) {
  FormedKeys out{on.rows.max_length, on.kv.head_dim, {}, {}};
  const std::size_t elements = batches.size() * out.longest * out.dim;
  float *keys = gpu.arena.take<float>(elements), *residuals = gpu.arena.take<float>(elements);
  const dim3 grid(out.longest, static_cast<unsigned>(batches.size()));
  form_keys_kernel<<<grid, (out.dim + kOctet - 1) / kOctet, 0, gpu.stream>>>(gpu.upload(batches), on.rows.origins,
                                                                             on.kv, form, keys, residuals);
  ATTEST_CUDA_LAUNCHED(form_keys_kernel);
  out.keys = gpu.download(keys, elements);
  out.residuals = gpu.download(residuals, elements);
  return out;
}

/// One thread block per value.
template <class Form>
__global__ void form_values_kernel(DeviceKeyValues kv, Form form, float* values) {
  const int channel = static_cast<int>(threadIdx.x) * kOctet, dim = kv.value_dim;
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * dim + channel;
  float value[kOctet];
  load_octet(kv.type, kv.values, at, dim - channel, dim, value);
  form(ValuePlace{blockIdx.x, channel}, value);
  for (int i = 0; i < kOctet && channel + i < dim; ++i) values[at + i] = value[i];
}

/// [values on the device, Dv]
template <class Form>
std::vector<float> formed_values(const Form& form, const DeviceLayer& on, Gpu& gpu) {
  const std::size_t vectors = on.layer.shape.num_kv_heads * on.layer.num_tokens, elements = vectors * on.kv.value_dim;
  auto* values = gpu.arena.take<float>(elements);
  form_values_kernel<<<static_cast<unsigned>(vectors), (on.kv.value_dim + kOctet - 1) / kOctet, 0, gpu.stream>>>(
      on.kv, form, values);
  ATTEST_CUDA_LAUNCHED(form_values_kernel);
  return gpu.download(values, elements);
}

/// One channel of tokens [begin, end) of an origin.
inline Row plain_column(const DeviceLayer& on, int origin, int begin, int end, int channel) {
  const HeadData& data = on.heads[origin];
  Row out;
  for (int token = begin; token < end; ++token) out.push_back(data.keys[token * data.head.head_dim + channel]);
  return out;
}

}  // namespace attest::test
