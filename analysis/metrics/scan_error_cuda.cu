// Scan error metrics and Pearson's r on the device: one thread block per row, one pass over estimate and scores. To
// avoid cancellation, one element of the row is subtracted from all. Eight tokens are summed in float32, these sums in
// double.
#include "analysis/metrics/ratio.cuh"
#include "analysis/metrics/rows_cuda.h"
#include "analysis/metrics/scan_error.h"
#include "kernels/device/block_reduce.cuh"
#include "kernels/device/cuda_check.h"
#include "kernels/device/not_defined.cuh"
#include "kernels/device/octet.cuh"

namespace attest {
namespace {

constexpr int kScanErrorThreads = 512;
constexpr int kLambdas = 8, kFewLambdas = 4;  // counted in one pass

/// Outputs, [N, Hq] each; the tails [N, Hq, M].
struct ScanErrorArrays {
  float *pearson, *mean, *std, *max, *tail, *lower_tail;
};

struct Sums {
  double a = 0, b = 0, aa = 0, bb = 0, ab = 0, e = 0, ee = 0;
  float max = 0, min_a, max_a, min_b, max_b;
};

__device__ void reduce(Sums& s, double* doubles, float* floats) {
  block_reduce_each(doubles, Plus{}, s.a, s.b, s.aa, s.bb, s.ab, s.e, s.ee);
  block_reduce_each(floats, Larger{}, s.max, s.max_a, s.max_b);
  block_reduce_each(floats, Smaller{}, s.min_a, s.min_b);
}

/// Calls pair(estimate, exact) for the thread's tokens of a row, eight neighbours at a time, and end_of_eight() after
/// each eight.
template <class Pair, class EndOfEight>
__device__ void for_pairs(const float* estimates, const float* exacts, int count, Pair&& pair,
                          EndOfEight&& end_of_eight) {
  float next_a[8], next_b[8];  // on their way while eight pairs are added
  const auto load = [&](int j) {
    if (j + 8 > count) return;
    load_floats(estimates + j, next_a);
    load_floats(exacts + j, next_b);
  };
  const int first = static_cast<int>(threadIdx.x) * 8;
  load(first);
  for (int j = first; j < count; j += kScanErrorThreads * 8) {
    if (j + 8 <= count) {
      float a[8], b[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) a[i] = next_a[i], b[i] = next_b[i];
      load(j + kScanErrorThreads * 8);
#pragma unroll
      for (int i = 0; i < 8; ++i) pair(a[i], b[i]);
    } else {
#pragma unroll 1
      for (int i = j; i < count; ++i) pair(estimates[i], exacts[i]);
    }
    end_of_eight();
  }
}

/// Counts the errors with |e| >= lambda and those with e <= -lambda, for kCount lambdas.
template <int kCount>
struct Tails {
  float lambda[kCount];
  // Low 16 bits: errors with |e| >= lambda. High 16 bits: those of them with e <= 0. A thread has less than 2^16
  // tokens.
  std::uint32_t counts[kCount] = {};

  __device__ Tails(const double* lambdas, int num_lambdas, int first) {
#pragma unroll
    for (int m = 0; m < kCount; ++m) lambda[m] = first + m < num_lambdas ? __double2float_ru(lambdas[first + m]) : 0;
  }
  __device__ void add(float e) {
    const std::uint32_t one = e <= 0 ? 0x10001u : 1u;
#pragma unroll
    for (int m = 0; m < kCount; ++m) counts[m] += fabsf(e) >= lambda[m] ? one : 0;
  }
  __device__ void write(int count, std::int64_t cell, int num_lambdas, int first, int* shared,
                        const ScanErrorArrays& out) {
#pragma unroll
    for (int m = 0; m < kCount; ++m) {
      const int tail = block_reduce(static_cast<int>(counts[m] & 0xFFFFu), shared, Plus{}),
                lower_tail = block_reduce(static_cast<int>(counts[m] >> 16), shared, Plus{});
      if (threadIdx.x != 0 || first + m >= num_lambdas) continue;
      const std::int64_t at = cell * num_lambdas + first + m;
      out.tail[at] = ratio(tail, count);
      out.lower_tail[at] = ratio(lower_tail, count);
    }
  }
};

/// Moments, Pearson's r, and the tails of the first kCount lambdas.
template <int kCount>
__global__ void __launch_bounds__(kScanErrorThreads)
    estimate_moments_kernel(DeviceRows rows, const float* estimates, const float* exacts, const int* covered,
                            const double* lambdas, int num_lambdas, ScanErrorArrays out) {
  __shared__ double doubles[32];
  __shared__ float floats[32];
  __shared__ int ints[32];
  const int row = blockIdx.x, count = covered[row], cell = rows.cell[row];
  const float *estimate = estimates + row * rows.stride, *exact = exacts + row * rows.stride;
  // The middle token is the origin of the sums; the first token's score is often far from all others.
  const float middle = count > 0 ? estimate[count / 2] : 0;
  const float a0 = middle * 0 == 0 ? middle : 0, b0 = count > 0 ? exact[count / 2] : 0, e0 = a0 - b0;
  Tails<kCount> tails(lambdas, num_lambdas, 0);
  Sums s;
  s.min_a = s.max_a = a0;
  s.min_b = s.max_b = b0;
  float a = 0, b = 0, aa = 0, bb = 0, ab = 0, e = 0, ee = 0;  // of eight tokens
  const auto add = [&](float x, float y) {
    const float da = x - a0, db = y - b0, error = x - y, de = error - e0;
    a += da, b += db, aa += da * da, bb += db * db, ab += da * db, e += de, ee += de * de;
    s.max = fmaxf(s.max, fabsf(error));
    s.min_a = fminf(s.min_a, x), s.max_a = fmaxf(s.max_a, x);
    s.min_b = fminf(s.min_b, y), s.max_b = fmaxf(s.max_b, y);
    tails.add(error);
  };
  for_pairs(estimate, exact, count, add, [&] {
    s.a += a, s.b += b, s.aa += aa, s.bb += bb, s.ab += ab, s.e += e, s.ee += ee;
    a = b = aa = bb = ab = e = ee = 0;
  });
  if (out.tail != nullptr) tails.write(count, cell, num_lambdas, 0, ints, out);
  reduce(s, doubles, floats);
  if (threadIdx.x != 0) return;
  const double n = count, xx = fmax(0.0, s.aa - s.a * s.a / n), yy = fmax(0.0, s.bb - s.b * s.b / n),
               xy = s.ab - s.a * s.b / n;
  // Differences below 1e-23 have no square in float32.
  const bool constant = s.min_a == s.max_a || s.min_b == s.max_b || xx == 0 || yy == 0;
  const double mean = s.e / n;
  const bool finite = s.max * 0 == 0;
  out.pearson[cell] =
      count == 0 || constant || !finite ? not_defined() : static_cast<float>(xy / (sqrt(xx) * sqrt(yy)));
  if (out.mean == nullptr) return;
  out.mean[cell] = count == 0 ? not_defined() : static_cast<float>(e0 + mean);
  out.std[cell] = count == 0 || !finite ? not_defined() : static_cast<float>(sqrt(fmax(0.0, s.ee / n - mean * mean)));
  out.max[cell] = count == 0 ? not_defined() : s.max;
}

/// Tails of lambdas [first, first + kLambdas).
__global__ void __launch_bounds__(kScanErrorThreads)
    tails_kernel(DeviceRows rows, const float* estimates, const float* exacts, const int* covered,
                 const double* lambdas, int num_lambdas, int first, ScanErrorArrays out) {
  __shared__ int shared[32];
  const int row = blockIdx.x, count = covered[row];
  Tails<kLambdas> tails(lambdas, num_lambdas, first);
  for_pairs(
      estimates + row * rows.stride, exacts + row * rows.stride, count, [&](float x, float y) { tails.add(x - y); },
      [] {});
  tails.write(count, rows.cell[row], num_lambdas, first, shared, out);
}

}  // namespace

void cuda_scan_error(const CudaSelectorRows& rows, const CudaCells& cells) {
  const CudaChunk& chunk = rows.chunk();
  const CudaSelection& selection = *rows.selection;
  const StageClock::Stage stage(*rows.exact->clock, "scan error", chunk.stream, 8 * row_tokens(chunk));
  const ScanErrorArrays out{.pearson = cells.of("pearson"),
                            .mean = cells.of("scan_error_mean"),
                            .std = cells.of("scan_error_std"),
                            .max = cells.of("scan_error_max"),
                            .tail = cells.of("scan_error_tail"),
                            .lower_tail = cells.of("scan_error_lower_tail")};
  const double* lambdas = chunk.upload(*rows.lambdas);
  const int num_lambdas = static_cast<int>(rows.lambdas->size()), num_rows = chunk.rows.num_rows;
  const bool few = out.tail == nullptr || num_lambdas <= kFewLambdas;
  const auto moments = few ? estimate_moments_kernel<kFewLambdas> : estimate_moments_kernel<kLambdas>;
  moments<<<num_rows, kScanErrorThreads, 0, chunk.stream>>>(chunk.rows, selection.estimate, chunk.exact,
                                                            selection.covered.device, lambdas, num_lambdas, out);
  ATTEST_CUDA_LAUNCHED(estimate_moments_kernel);
  for (int first = kLambdas; out.tail != nullptr && first < num_lambdas; first += kLambdas) {
    tails_kernel<<<num_rows, kScanErrorThreads, 0, chunk.stream>>>(
        chunk.rows, selection.estimate, chunk.exact, selection.covered.device, lambdas, num_lambdas, first, out);
    ATTEST_CUDA_LAUNCHED(tails_kernel);
  }
}

}  // namespace attest
