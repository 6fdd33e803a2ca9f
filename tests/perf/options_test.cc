// SPDX-License-Identifier: Apache-2.0
#include "perf/common/options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "perf/common/element.h"

namespace tutti::perf {
namespace {

ParsedOptions parse(std::vector<std::string> words) {
  words.insert(words.begin(), "all_reduce_perf");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return parse_options(static_cast<int>(words.size()), arguments.data());
}

TEST(Options, defaults_are_those_of_nccl_tests) {
  const ParsedOptions parsed = parse({});
  ASSERT_FALSE(parsed.exit);
  const Options& options = parsed.options;
  EXPECT_EQ(options.threads, 1);
  EXPECT_EQ(options.ranks_per_thread, 1);
  EXPECT_EQ(options.min_bytes, 33554432u);
  EXPECT_EQ(options.max_bytes, 33554432u);
  EXPECT_EQ(options.step_bytes, 1048576u);
  EXPECT_EQ(options.step_factor, 1u);
  EXPECT_EQ(options.iterations, 20);
  EXPECT_EQ(options.aggregate, 1);
  EXPECT_EQ(options.warmup, 1);
  EXPECT_EQ(options.cycles, 1);
  EXPECT_EQ(options.check, 1);
  EXPECT_EQ(options.average, 1);
  ASSERT_EQ(options.ops.size(), 1u);
  EXPECT_EQ(options.ops[0].name, "sum");
  ASSERT_EQ(options.types.size(), 1u);
  EXPECT_EQ(options.types[0].name, "float");
  EXPECT_EQ(options.processes, 2);
  EXPECT_FALSE(options.threads_given);
}

TEST(Options, short_and_long_names_mean_the_same) {
  const ParsedOptions small = parse({"-t", "2",  "-g", "3",  "-b", "8",  "-e",  "1K", "-f",   "2",  "-n", "5",  "-m",
                                     "4",  "-w", "7",  "-c", "2",  "-o", "max", "-d", "half", "-r", "1",  "-z", "3"});
  const ParsedOptions large = parse({"--nthreads",
                                     "2",
                                     "--ngpus",
                                     "3",
                                     "--minbytes",
                                     "8",
                                     "--maxbytes=1K",
                                     "--stepfactor",
                                     "2",
                                     "--iters",
                                     "5",
                                     "--agg_iters",
                                     "4",
                                     "--warmup_iters",
                                     "7",
                                     "--check",
                                     "2",
                                     "--op",
                                     "max",
                                     "--datatype",
                                     "half",
                                     "--root",
                                     "1",
                                     "--blocking",
                                     "3"});
  for (const ParsedOptions& parsed : {small, large}) {
    ASSERT_FALSE(parsed.exit) << parsed.error;
    const Options& options = parsed.options;
    EXPECT_EQ(options.threads, 2);
    EXPECT_EQ(options.ranks_per_thread, 3);
    EXPECT_TRUE(options.threads_given);
    EXPECT_EQ(options.min_bytes, 8u);
    EXPECT_EQ(options.max_bytes, 1024u);
    EXPECT_EQ(options.step_factor, 2u);
    EXPECT_EQ(options.iterations, 5);
    EXPECT_EQ(options.aggregate, 4);
    EXPECT_EQ(options.warmup, 7);
    EXPECT_EQ(options.check, 2);
    EXPECT_EQ(options.ops[0].op, TUTTI_MAX);
    EXPECT_EQ(options.types[0].type, TUTTI_FLOAT16);
    EXPECT_EQ(options.root, 1);
    EXPECT_EQ(options.blocking, 3);
  }
}

TEST(Options, sizes) {
  EXPECT_EQ(parse_size("4"), 4u);
  EXPECT_EQ(parse_size("1.5K"), 1536u);
  EXPECT_EQ(parse_size("64m"), 67108864u);
  EXPECT_EQ(parse_size("2G"), 2147483648u);
  EXPECT_EQ(parse_size("2GiB"), 2147483648u);
  for (const char* wrong : {"", "x", "4T", "4KX", "-1", "nan", "1e30"}) EXPECT_FALSE(parse_size(wrong)) << wrong;
}

TEST(Options, integers_are_read_as_c_does) {
  EXPECT_EQ(parse({"-n", "0x10"}).options.iterations, 16);
  EXPECT_EQ(parse({"-n", "010"}).options.iterations, 8);
}

TEST(Options, all_types_and_ops_in_order) {
  const Options options = parse({"-d", "all", "-o", "all"}).options;
  std::string types, ops;
  for (const NamedType& type : options.types) types += type.name + " ";
  for (const NamedOp& op : options.ops) ops += op.name + " ";
  EXPECT_EQ(types, "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 ");
  EXPECT_EQ(ops, "sum prod max min avg mulsum ");
}

TEST(Options, unknown_type_or_op_falls_back_with_a_line) {
  const ParsedOptions parsed = parse({"-d", "quad", "-o", "xor"});
  EXPECT_FALSE(parsed.exit);
  EXPECT_EQ(parsed.output, "invalid type quad, defaulting to float .. \ninvalid op xor, defaulting to sum .. \n");
  EXPECT_EQ(parsed.options.types[0].name, "float");
  EXPECT_EQ(parsed.options.ops[0].name, "sum");
}

TEST(Options, what_nccl_tests_lacks_is_known_by_name) {
  EXPECT_EQ(parse({"-d", "bool"}).options.types[0].type, TUTTI_BOOL);
  EXPECT_EQ(parse({"-o", "band"}).options.ops[0].op, TUTTI_BAND);
  EXPECT_EQ(parse({"-o", "bor"}).options.ops[0].op, TUTTI_BOR);
  EXPECT_EQ(parse({"-o", "bxor"}).options.ops[0].op, TUTTI_BXOR);
  const NamedOp mulsum = parse({"-o", "mulsum"}).options.ops[0];
  EXPECT_EQ(mulsum.op, TUTTI_SUM);
  EXPECT_TRUE(mulsum.premultiplied);
}

TEST(Options, pairs_that_mean_nothing) {
  std::string pairs;
  for (const NamedType& type : named_types())
    for (const NamedOp& op : named_ops())
      if (!is_reducible(type.type, op.op, op.premultiplied)) pairs += type.name + " " + op.name + ", ";
  EXPECT_EQ(pairs,
            "half band, half bor, half bxor, float band, float bor, float bxor, double band, double bor, double bxor, "
            "bfloat16 band, bfloat16 bor, bfloat16 bxor, f8e4m3 band, f8e4m3 bor, f8e4m3 bxor, f8e5m2 band, f8e5m2 "
            "bor, f8e5m2 bxor, bool avg, bool mulsum, ");
}

struct Refusal {
  std::vector<std::string> words;
  const char* text;
};

TEST(Options, bad_arguments_exit_255_and_say_why) {
  const std::vector<Refusal> refusals = {
      {{"-b", "4T"}, "invalid size specified for 'minbytes'\n"},
      {{"-e", "x"}, "invalid size specified for 'maxbytes'\n"},
      {{"-i", "x"}, "invalid size specified for 'stepBytes'\n"},
      {{"-b", "8", "-e", "4"}, "invalid sizes for 'minbytes' and 'maxbytes': 8 > 4\n"},
      {{"-b", "0"}, "invalid size 0 for 'minbytes': sizes start at 1 byte (for example -b 8)\n"},
      {{"-b", "8", "-i", "0"},
       "invalid size 0 for 'stepBytes': the sweep would never end; give -i BYTES or -f FACTOR greater than 1\n"},
      {{"-n", "many"}, "invalid value 'many' for 'iters': an integer from 1 to 2147483647 expected\n"},
      {{"-n", "0"}, "invalid value '0' for 'iters': an integer from 1 to 2147483647 expected\n"},
      {{"-t", "0"}, "invalid value '0' for 'nthreads': an integer from 1 to 4096 expected\n"},
      {{"--procs", "0"}, "invalid value '0' for 'procs': an integer from 1 to 4096 expected\n"},
      {{"--bind", "socket"}, "invalid value 'socket' for 'bind': core or none expected\n"},
      {{"-D", "1"}, "device implementation (-D) needs symmetric memory registration (-R 2)\n"},
      {{"stray"}, "unexpected argument 'stray'\n"},
  };
  for (const Refusal& refusal : refusals) {
    const ParsedOptions parsed = parse(refusal.words);
    EXPECT_EQ(parsed.exit, 255) << refusal.text;
    EXPECT_EQ(parsed.error, refusal.text);
  }
}

TEST(Options, unknown_option_shows_the_usage_and_exits_255) {
  testing::internal::CaptureStderr();
  const ParsedOptions parsed = parse({"--bogus"});
  EXPECT_NE(testing::internal::GetCapturedStderr().find("--bogus"), std::string::npos);
  EXPECT_EQ(parsed.exit, 255);
  EXPECT_EQ(parsed.output.rfind("invalid option '?'\nUSAGE: all_reduce_perf", 0), 0u);
}

TEST(Options, help_exits_0) {
  const ParsedOptions parsed = parse({"-h"});
  EXPECT_EQ(parsed.exit, 0);
  EXPECT_EQ(parsed.output.rfind("USAGE: ", 0), 0u);
}

TEST(Options, gpu_options_are_accepted_and_remembered) {
  const ParsedOptions parsed = parse({"-G", "3", "-y", "1", "-C", "1", "-x", "1", "-V", "4", "-D", "2", "-R", "2"});
  ASSERT_FALSE(parsed.exit) << parsed.error;
  EXPECT_EQ(parsed.options.without_effect, (std::vector<std::string>{"-G", "-y", "-C", "-x", "-V", "-D"}));
  EXPECT_TRUE(parse({"-G", "0", "-y", "0"}).options.without_effect.empty());
}

TEST(Options, inconsistent_iteration_options_are_disabled_with_a_line) {
  const ParsedOptions skip_alone = parse({"-K", "3"});
  EXPECT_EQ(skip_alone.options.per_iteration_skip, 0);
  EXPECT_NE(skip_alone.error.find("Disabling."), std::string::npos);
  const ParsedOptions skip_all = parse({"-I", "1", "-n", "5", "-K", "5"});
  EXPECT_EQ(skip_all.options.per_iteration_skip, 0);
  EXPECT_NE(skip_all.error.find("Disabling."), std::string::npos);
  const ParsedOptions neither = parse({"-I", "2"});
  EXPECT_FALSE(neither.options.per_iteration);
  EXPECT_NE(neither.error.find("Disabling."), std::string::npos);
  const ParsedOptions fine = parse({"-I", "1", "-n", "5", "-K", "4"});
  EXPECT_TRUE(fine.options.per_iteration);
  EXPECT_EQ(fine.options.per_iteration_skip, 4);
  EXPECT_EQ(fine.error, "");
}

TEST(Options, binding) {
  EXPECT_TRUE(parse({}).options.bind);
  EXPECT_TRUE(parse({"--bind", "core"}).options.bind);
  EXPECT_FALSE(parse({"--bind", "none"}).options.bind);
}

TEST(Options, every_root) {
  EXPECT_EQ(parse({"-r", "-1"}).options.root, -1);
  EXPECT_EQ(parse({"-r", "all"}).options.root, -1);
}

}  // namespace
}  // namespace tutti::perf
