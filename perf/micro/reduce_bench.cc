// SPDX-License-Identifier: Apache-2.0
// Reduction kernels: payload GB/s (10^9 bytes of one operand per second) by type, operator, sources, bytes and target.
//
//   build/bin/micro_reduce                                            the standard table, best target
//   build/bin/micro_reduce --benchmark_filter='float32/sum/2/.*'      a part of it
//   build/bin/micro_reduce --all_targets                              every target of this CPU
//
// The destination is a buffer of its own, sources stay in the cache that their size allows: 4 KiB x (sources + 1) in
// L1, 64 KiB in L2, 1 MiB in L3, 32 MiB in memory.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "src/reduce/reduce.h"

namespace tutti::core {
namespace {

struct Variant {
  tutti_dtype type;
  tutti_op op;
  int source_count;
  std::size_t bytes;
  SimdTarget target;
};

struct AlignedDelete {
  void operator()(char* memory) const { ::operator delete[](memory, std::align_val_t{4096}); }
};
using Buffer = std::unique_ptr<char[], AlignedDelete>;

// 0x3c3c...: about 0.01 in bfloat16, float32 and float64, 1.06 in float16, 1.5 in
// e4m3, 1 in e5m2; normal, and so are products of a few.
Buffer make_buffer(std::size_t bytes) {
  Buffer buffer(static_cast<char*>(::operator new[](bytes, std::align_val_t{4096})));
  std::memset(buffer.get(), 0x3c, bytes);
  return buffer;
}

void run_kernel(benchmark::State& state, const Variant& variant) {
  std::vector<Buffer> buffers;
  std::vector<const void*> sources;
  for (int k = 0; k < variant.source_count; ++k) {
    // Staggered by five cache lines: page-aligned operands would share L1 sets and alias the store, as real ones rarely
    // do.
    const std::size_t stagger = static_cast<std::size_t>(k + 1) * 320;
    buffers.push_back(make_buffer(variant.bytes + stagger));
    sources.push_back(buffers.back().get() + stagger);
  }
  const Buffer destination = make_buffer(variant.bytes);
  const bool average = variant.op == TUTTI_AVG;
  const ReduceArgs args{.destination = destination.get(),
                        .sources = sources.data(),
                        .source_count = variant.source_count,
                        .count = variant.bytes / dtype_bytes(variant.type),
                        .raw_source = average ? 0 : -1,
                        .scale = 0.5,
                        .divisor = average ? 3u : 0u,
                        .final = average};
  const ReduceKernel kernel = find_reduce_kernel(variant.type, variant.op, variant.target);
  for (auto _ : state) {
    kernel(args);
    benchmark::ClobberMemory();
  }
  state.counters["payload"] =
      benchmark::Counter(static_cast<double>(variant.bytes), benchmark::Counter::kIsIterationInvariantRate);
}

void register_variants(SimdTarget target) {
  constexpr std::size_t kSizes[] = {64, 4 << 10, 64 << 10, 1 << 20, 32 << 20};
  for (int type = 0; type < TUTTI_DTYPE_COUNT; ++type)
    for (int op = 0; op < TUTTI_OP_COUNT; ++op)
      for (int source_count : {1, 2, 3, 4, 8})
        for (std::size_t bytes : kSizes) {
          const Variant variant{static_cast<tutti_dtype>(type), static_cast<tutti_op>(op), source_count, bytes, target};
          if (find_reduce_kernel(variant.type, variant.op, target) == nullptr) continue;
          std::string name = std::string(dtype_name(variant.type)) + "/" + std::string(op_name(variant.op)) + "/" +
                             std::to_string(source_count) + "/" + std::to_string(bytes) + "/" +
                             simd_target_name(target);
          benchmark::RegisterBenchmark(name.c_str(),
                                       [variant](benchmark::State& state) { run_kernel(state, variant); });
        }
}

}  // namespace
}  // namespace tutti::core

int main(int argc, char** argv) {
  using tutti::core::SimdTarget;
  bool all_targets = false;
  char min_time[] = "--benchmark_min_time=0.02";  // the table has 2125 rows; a later argument overrides this
  std::vector<char*> arguments = {argv[0], min_time};
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--all_targets") == 0)
      all_targets = true;
    else
      arguments.push_back(argv[i]);
  }
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  const SimdTarget best = tutti::core::best_simd_target();
  for (SimdTarget target : {SimdTarget::scalar, SimdTarget::sse4, SimdTarget::avx2, SimdTarget::avx512})
    if (target == best || (all_targets && target < best)) tutti::core::register_variants(target);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
