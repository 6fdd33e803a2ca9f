// SPDX-License-Identifier: Apache-2.0
#include "perf/common/options.h"

#include <getopt.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace tutti::perf {
namespace {

constexpr int kBadArguments = 255;

std::string benchmark_name(const std::string& table_name) {
  if (table_name == "float16") return "half";
  if (table_name == "float32") return "float";
  if (table_name == "float64") return "double";
  if (table_name == "float8_e4m3") return "f8e4m3";
  if (table_name == "float8_e5m2") return "f8e5m2";
  if (table_name == "boolean") return "bool";
  return table_name;
}

const option kLongOptions[] = {
    {"nthreads", required_argument, nullptr, 't'},
    {"ngpus", required_argument, nullptr, 'g'},
    {"minbytes", required_argument, nullptr, 'b'},
    {"maxbytes", required_argument, nullptr, 'e'},
    {"stepbytes", required_argument, nullptr, 'i'},
    {"stepfactor", required_argument, nullptr, 'f'},
    {"iters", required_argument, nullptr, 'n'},
    {"agg_iters", required_argument, nullptr, 'm'},
    {"warmup_iters", required_argument, nullptr, 'w'},
    {"run_cycles", required_argument, nullptr, 'N'},
    {"parallel_init", required_argument, nullptr, 'p'},
    {"check", required_argument, nullptr, 'c'},
    {"op", required_argument, nullptr, 'o'},
    {"datatype", required_argument, nullptr, 'd'},
    {"root", required_argument, nullptr, 'r'},
    {"blocking", required_argument, nullptr, 'z'},
    {"stream_null", required_argument, nullptr, 'y'},
    {"timeout", required_argument, nullptr, 'T'},
    {"cudagraph", required_argument, nullptr, 'G'},
    {"report_cputime", required_argument, nullptr, 'C'},
    {"report_timestamps", required_argument, nullptr, 'S'},
    {"output_file", required_argument, nullptr, 'J'},
    {"average", required_argument, nullptr, 'a'},
    {"local_register", required_argument, nullptr, 'R'},
    {"cta_policy", required_argument, nullptr, 'x'},
    {"device_implementation", required_argument, nullptr, 'D'},
    {"device_cta_count", required_argument, nullptr, 'V'},
    {"memory", required_argument, nullptr, 'M'},
    {"unalign", required_argument, nullptr, 'u'},
    {"per_iter_timing", required_argument, nullptr, 'I'},
    {"per_iter_skip", required_argument, nullptr, 'K'},
    {"help", no_argument, nullptr, 'h'},
    {"procs", required_argument, nullptr, 1000},
    {"explain", no_argument, nullptr, 1001},
    {"bind", required_argument, nullptr, 1002},
    {nullptr, 0, nullptr, 0},
};
constexpr char kShortOptions[] = "t:g:b:e:i:f:n:m:w:N:p:c:o:d:r:z:y:T:G:C:S:J:a:R:x:D:V:M:u:I:K:h";

/// The state of one parse: the first bad value wins.
class Parser {
 public:
  explicit Parser(ParsedOptions& parsed) : parsed_(parsed), options_(parsed.options) {}

  bool failed() const { return parsed_.exit.has_value(); }
  void fail(const std::string& text) {
    if (failed()) return;
    parsed_.error += text + "\n";
    parsed_.exit = kBadArguments;
  }

  uint64_t size(const char* name) {
    const std::optional<uint64_t> bytes = parse_size(optarg);
    if (!bytes) fail(std::string("invalid size specified for '") + name + "'");
    return bytes.value_or(0);
  }

  /// nccl-tests takes any text here and reads it as 0; a typo then measures something else than was asked for.
  int64_t integer(const char* name, int64_t low, int64_t high = std::numeric_limits<int>::max()) {
    char* end = nullptr;
    const long long value = std::strtoll(optarg, &end, 0);
    if (end == optarg || *end != '\0' || value < low || value > high) {
      fail(std::string("invalid value '") + optarg + "' for '" + name + "': an integer from " + std::to_string(low) +
           " to " + std::to_string(high) + " expected");
      return low;
    }
    return value;
  }
  int number(const char* name, int low, int high = std::numeric_limits<int>::max()) {
    return static_cast<int>(integer(name, low, high));
  }

  void without_effect(const char* letter) { options_.without_effect.emplace_back(letter); }

  void take(int letter);
  void finish();
  void take_type();
  void take_op();
  void take_bind();

 private:
  void take_gpu_option(int letter);
  void take_report_option(int letter);

  ParsedOptions& parsed_;
  Options& options_;
  int device_implementation_ = 0;
};

void Parser::take_type() {
  const std::string name = optarg;
  if (name == "all") {
    options_.types = all_types();
    return;
  }
  for (const NamedType& type : named_types())
    if (type.name == name) {
      options_.types = {type};
      return;
    }
  parsed_.output += "invalid type " + name + ", defaulting to float .. \n";
}

void Parser::take_op() {
  const std::string name = optarg;
  if (name == "all") {
    options_.ops = all_ops();
    return;
  }
  for (const NamedOp& op : named_ops())
    if (op.name == name) {
      options_.ops = {op};
      return;
    }
  parsed_.output += "invalid op " + name + ", defaulting to sum .. \n";
}

void Parser::take_bind() {
  const std::string value = optarg;
  if (value != "core" && value != "none") fail("invalid value '" + value + "' for 'bind': core or none expected");
  options_.bind = value != "none";
}

void Parser::take_gpu_option(int letter) {
  switch (letter) {
    case 'y':
      if (integer("stream_null", 0, 1) != 0) without_effect("-y");
      break;
    case 'G':
      options_.graph = number("cudagraph", 0);
      if (options_.graph != 0) without_effect("-G");
      break;
    case 'C':
      // There is no queue to fill: a blocking call returns with its result, host time is all the time.
      if (integer("report_cputime", 0, 1) != 0) without_effect("-C");
      break;
    case 'x':
      integer("cta_policy", 0, 2);
      without_effect("-x");
      break;
    case 'D':
      device_implementation_ = number("device_implementation", 0);
      if (device_implementation_ != 0) without_effect("-D");
      break;
    case 'V': {
      const int64_t count = integer("device_cta_count", std::numeric_limits<int>::min());
      if (count < 1 || count > 128) parsed_.error += "device_cta_count must be from 1 to 128, using 16\n";
      without_effect("-V");
      break;
    }
    default: break;
  }
}

void Parser::take_report_option(int letter) {
  switch (letter) {
    case 'S': options_.report_timestamps = integer("report_timestamps", 0, 1) != 0; break;
    case 'J': options_.json_file = optarg; break;
    case 'a': options_.average = number("average", 0, 3); break;
    case 'M': options_.memory_report = integer("memory", 0, 1) != 0; break;
    case 'I': {
      const int64_t value = integer("per_iter_timing", std::numeric_limits<int>::min());
      if (value != 0 && value != 1) parsed_.error += "per_iter_timing must be 0 or 1. Disabling.\n";
      options_.per_iteration = value == 1;
      break;
    }
    case 'K': options_.per_iteration_skip = number("per_iter_skip", std::numeric_limits<int>::min()); break;
    case 1001: options_.explain = true; break;
    default: break;
  }
}

void Parser::take(int letter) {
  switch (letter) {
    case 't':
      options_.threads = number("nthreads", 1, 4096);
      options_.threads_given = true;
      break;
    case 'g':
      options_.ranks_per_thread = number("ngpus", 1, 4096);
      options_.threads_given = true;
      break;
    case 'b': options_.min_bytes = size("minbytes"); break;
    case 'e': options_.max_bytes = size("maxbytes"); break;
    case 'i': options_.step_bytes = size("stepBytes"); break;
    case 'f': options_.step_factor = static_cast<uint64_t>(integer("stepfactor", 0)); break;
    case 'n': options_.iterations = number("iters", 1); break;
    case 'm': options_.aggregate = number("agg_iters", 1, 1 << 20); break;
    case 'w': options_.warmup = number("warmup_iters", 0); break;
    case 'N': options_.cycles = number("run_cycles", std::numeric_limits<int>::min()); break;
    case 'p': options_.parallel_init = integer("parallel_init", 0, 1) != 0; break;
    case 'c': options_.check = number("check", 0); break;
    case 'o': take_op(); break;
    case 'd': take_type(); break;
    case 'r': options_.root = std::string(optarg) == "all" ? -1 : number("root", -1); break;
    case 'z': options_.blocking = number("blocking", 0, 3); break;
    case 'T': options_.timeout_s = number("timeout", 0); break;
    case 'R': options_.local_register = number("local_register", 0, 2); break;
    case 'u': options_.unalign = number("unalign", 0, 1 << 20); break;
    case 1000: options_.processes = number("procs", 1, 4096); break;
    case 1002: take_bind(); break;
    default:
      take_gpu_option(letter);
      take_report_option(letter);
      break;
  }
}

void Parser::finish() {
  if (options_.min_bytes > options_.max_bytes)
    fail("invalid sizes for 'minbytes' and 'maxbytes': " + std::to_string(options_.min_bytes) + " > " +
         std::to_string(options_.max_bytes));
  if (options_.min_bytes == 0) fail("invalid size 0 for 'minbytes': sizes start at 1 byte (for example -b 8)");
  if (options_.step_factor <= 1 && options_.step_bytes == 0 && options_.min_bytes < options_.max_bytes)
    fail("invalid size 0 for 'stepBytes': the sweep would never end; give -i BYTES or -f FACTOR greater than 1");
  if (device_implementation_ > 0 && options_.local_register != 2)
    fail("device implementation (-D) needs symmetric memory registration (-R 2)");
  if (failed()) return;
  if (options_.per_iteration_skip != 0 && !options_.per_iteration) {
    parsed_.error += "per_iter_skip (-K) needs per_iter_timing (-I 1). Disabling.\n";
    options_.per_iteration_skip = 0;
  }
  if (options_.per_iteration_skip < 0 || options_.per_iteration_skip >= options_.iterations) {
    parsed_.error += "per_iter_skip must be from 0 to iters - 1. Disabling.\n";
    options_.per_iteration_skip = 0;
  }
}

}  // namespace

const std::vector<NamedType>& named_types() {
  static const std::vector<NamedType> types = {
#define X(name, ENUMERATOR, bytes, value) {benchmark_name(#name), TUTTI_##ENUMERATOR},
#include "tutti/dtypes.def"
#undef X
  };
  return types;
}

const std::vector<NamedOp>& named_ops() {
  static const std::vector<NamedOp> ops = {{"sum", TUTTI_SUM},   {"prod", TUTTI_PROD}, {"max", TUTTI_MAX},
                                           {"min", TUTTI_MIN},   {"avg", TUTTI_AVG},   {"mulsum", TUTTI_SUM, true},
                                           {"band", TUTTI_BAND}, {"bor", TUTTI_BOR},   {"bxor", TUTTI_BXOR}};
  return ops;
}

const std::vector<NamedType>& all_types() {
  static const std::vector<NamedType> types = [] {
    std::vector<NamedType> result = named_types();
    result.erase(
        std::remove_if(result.begin(), result.end(), [](const NamedType& type) { return type.type == TUTTI_BOOL; }),
        result.end());
    return result;
  }();
  return types;
}

const std::vector<NamedOp>& all_ops() {
  static const std::vector<NamedOp> ops = [] {
    std::vector<NamedOp> result = named_ops();
    result.erase(std::remove_if(result.begin(), result.end(), [](const NamedOp& op) { return op.op > TUTTI_AVG; }),
                 result.end());
    return result;
  }();
  return ops;
}

std::optional<uint64_t> parse_size(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !(number >= 0)) return std::nullopt;
  double unit = 1;
  switch (*end) {
    case '\0': break;
    case 'K':
    case 'k': unit = 1024.0; break;
    case 'M':
    case 'm': unit = 1024.0 * 1024; break;
    case 'G':
    case 'g': unit = 1024.0 * 1024 * 1024; break;
    default: return std::nullopt;
  }
  if (*end != '\0') {
    const std::string rest = end + 1;
    if (!rest.empty() && rest != "B" && rest != "iB") return std::nullopt;
  }
  const double bytes = number * unit;
  if (bytes >= 9.0e18) return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

ParsedOptions parse_options(int argc, char** argv) {
  ParsedOptions parsed;
  parsed.options.types = {{"float", TUTTI_FLOAT32}};
  parsed.options.ops = {{"sum", TUTTI_SUM}};
  Parser parser(parsed);
  const std::string program = argc > 0 ? argv[0] : "perf";
  optind = 0;  // glibc: start afresh, also in a second parse of one process
  while (!parser.failed()) {
    const int letter = getopt_long(argc, argv, kShortOptions, kLongOptions, nullptr);
    if (letter == -1) break;
    if (letter == 'h') {
      parsed.output += usage(program);
      parsed.exit = 0;
      return parsed;
    }
    if (letter == '?') {
      parsed.output += "invalid option '?'\n" + usage(program);
      parsed.exit = kBadArguments;
      return parsed;
    }
    parser.take(letter);
  }
  if (!parser.failed() && optind < argc) parser.fail(std::string("unexpected argument '") + argv[optind] + "'");
  parser.finish();
  return parsed;
}

std::string usage(const std::string& program) {
  return "USAGE: " + program + " [options]\n" +
         R"(ranks (processes of `tutti run -n N`; without it and without -t and -g this program starts --procs processes)
  -t,--nthreads N            threads per process (1)
  -g,--ngpus N               ranks per thread (1)
  --procs N                  local processes (2)
  --bind core|none           keep every thread with ranks on a CPU of its own, round and round (core)
sizes
  -b,--minbytes SIZE         first size, 8 or 1.5K or 64M or 1G (32M)
  -e,--maxbytes SIZE         last size (32M)
  -i,--stepbytes SIZE        add this between sizes (1M)
  -f,--stepfactor N          multiply by this between sizes; greater than 1 wins over -i (1)
what is run
  -d,--datatype TYPE         int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2
                             bool, all but bool: all (float)
  -o,--op OP                 sum prod max min avg mulsum band bor bxor, all but the last three: all (sum)
  -r,--root RANK             root of broadcast and its kin; -1 or all: each in turn (0)
  -n,--iters N               timed iterations (20)
  -m,--agg_iters N           calls per iteration, in one group (1)
  -w,--warmup_iters N        untimed calls per size (1)
  -N,--run_cycles N          repeat the sweep; 0: for ever (1)
  -p,--parallel_init 0|1     each thread creates its own ranks (0)
  -z,--blocking 0|1|2|3      1: barrier after each call; 3: barrier after each iteration, outside the clock (0)
  -R,--local_register 0|1|2  1, 2: buffers from tutti_alloc, registered (0)
  -u,--unalign N             move buffers up by N elements (0)
  -T,--timeout SECONDS       deadline of one operation, exit status 4 (0: the library's)
results
  -c,--check N               checks of every element per row and placement; a failure exits 7 (1)
  -a,--average 0|1|2|3       time over ranks: 0 rank 0, 1 mean, 2 min, 3 max (1)
  -I,--per_iter_timing 0|1   min, max, p99, cv% of iterations (0)
  -K,--per_iter_skip N       leave the first N iterations out of these (0)
  -S,--report_timestamps 0|1 time of day per row (0)
  -M,--memory 0|1            memory used (0)
  -J,--output_file FILE.json write the results as JSON too
  --explain                  columns for the algorithm that ran, its lanes, p10, p50, p99 of the call times
  -h,--help                  this text
accepted, no effect without CUDA
  -y,--stream_null  -G,--cudagraph  -C,--report_cputime  -x,--cta_policy  -D,--device_implementation
  -V,--device_cta_count
exit status: 0 fine, 255 bad arguments, 1 internal, 3 Tutti error, 4 timeout, 5 not available, 7 wrong data or slow
)";
}

}  // namespace tutti::perf
