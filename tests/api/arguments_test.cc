// SPDX-License-Identifier: Apache-2.0
// Bad arguments and a bad environment: the text names the parameter, its value, and what is allowed; nothing is harmed.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <thread>

#include "tests/api/harness.h"

namespace api_test {
namespace {

using tutti::Code;
using tutti::Communicator;
using tutti::DataType;
using tutti::Op;
using tutti::Status;

struct Row {
  const char* name;
  Status (*call)(Communicator&);
  std::vector<std::string> parts;  ///< of the text
  Code code = Code::invalid_argument;
};

constexpr DataType kFloat = DataType::float32;
float input[64], output[256];

tutti_call sized_call() {
  tutti_call call{};
  call.struct_size = sizeof call;
  return call;
}

Status with_timeout(Communicator& comm, double seconds) {
  tutti_call call = sized_call();
  call.timeout_s = seconds;
  return Status::from_c(tutti_barrier(comm.handle(), &call, nullptr));
}

/// All on rank 0 of 2; none may reach the other rank.
const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {"all_reduce_in", [](Communicator& c) { return c.all_reduce(nullptr, output, 4, kFloat); }, {"in", "NULL"}},
      {"all_reduce_out", [](Communicator& c) { return c.all_reduce(input, nullptr, 4, kFloat); }, {"out", "NULL"}},
      {"all_gather_out", [](Communicator& c) { return c.all_gather(input, nullptr, 4, kFloat); }, {"out", "NULL"}},
      {"reduce_scatter_in",
       [](Communicator& c) { return c.reduce_scatter(nullptr, output, 4, kFloat); },
       {"in", "NULL"}},
      {"broadcast_in", [](Communicator& c) { return c.broadcast(nullptr, output, 4, kFloat, 0); }, {"in", "NULL"}},
      {"broadcast_out", [](Communicator& c) { return c.broadcast(input, nullptr, 4, kFloat, 0); }, {"out", "NULL"}},
      {"send_in", [](Communicator& c) { return c.send(nullptr, 4, kFloat, 1); }, {"in", "NULL"}},
      {"recv_out", [](Communicator& c) { return c.recv(nullptr, 4, kFloat, 1); }, {"out", "NULL"}},
      {"dtype",
       [](Communicator& c) { return c.all_reduce(input, output, 4, static_cast<DataType>(13)); },
       {"type", "13", "dtypes.def"}},
      {"op",
       [](Communicator& c) { return c.all_reduce(input, output, 4, kFloat, static_cast<Op>(8)); },
       {"op", "8", "TUTTI_BXOR"}},
      {"bool_average",
       [](Communicator& c) { return c.all_reduce(input, output, 4, DataType::boolean, Op::avg); },
       {"avg", "boolean", "not supported"},
       Code::unsupported},
      {"bits_of_a_float",
       [](Communicator& c) { return c.all_reduce(input, output, 4, DataType::float8_e4m3, Op::bxor); },
       {"bxor", "float8_e4m3", "not supported"},
       Code::unsupported},
      {"root_high", [](Communicator& c) { return c.broadcast(input, output, 4, kFloat, 2); }, {"root", "2", "0..1"}},
      {"root_low", [](Communicator& c) { return c.broadcast(input, output, 4, kFloat, -1); }, {"root", "-1", "0..1"}},
      {"send_peer", [](Communicator& c) { return c.send(input, 4, kFloat, 5); }, {"peer", "5", "0..1"}},
      {"send_to_any", [](Communicator& c) { return c.send(input, 4, kFloat, -1); }, {"peer", "-1", "0..1"}},
      {"recv_peer", [](Communicator& c) { return c.recv(output, 4, kFloat, 2); }, {"peer", "2", "0..1"}},
      {"recv_peer_low", [](Communicator& c) { return c.recv(output, 4, kFloat, -7); }, {"peer", "-7", "0..1"}},
      {"count_overflow",
       [](Communicator& c) { return c.all_reduce(input, output, std::uint64_t{1} << 62, kFloat); },
       {"count", "4611686018427387904"}},
      {"count_overflow_by_ranks",
       [](Communicator& c) { return c.all_gather(input, output, std::uint64_t{1} << 61, kFloat); },
       {"count", "2305843009213693952"}},
      {"overlap", [](Communicator& c) { return c.all_reduce(output, output + 1, 4, kFloat); }, {"overlap"}},
      {"overlap_gather", [](Communicator& c) { return c.all_gather(output + 4, output, 4, kFloat); }, {"overlap"}},
      {"overlap_scatter", [](Communicator& c) { return c.reduce_scatter(output, output + 4, 4, kFloat); }, {"overlap"}},
      {"blocks_that_the_result_is_written_into",
       [](Communicator& c) {
         const std::uint64_t counts[] = {4, 4}, displacements[] = {0, 2};
         return c.reduce_scatter_v(output, output, {counts, displacements}, kFloat);
       },
       {"displacements[1]", "2", "block of rank 0", "in place"}},
      {"algorithm",
       [](Communicator& c) { return c.all_reduce(input, output, 4, kFloat, Op::sum, {.algorithm = "rnig"}); },
       {"rnig", "ring", "recursive_doubling"}},
      {"algorithm_of_another_collective",
       [](Communicator& c) { return c.broadcast(input, output, 4, kFloat, 0, {.algorithm = "two_shot"}); },
       {"two_shot", "chain"}},
      {"timeout_negative", [](Communicator& c) { return with_timeout(c, -2.5); }, {"timeout_s", "-2.5"}},
      {"timeout_nan", [](Communicator& c) { return with_timeout(c, std::nan("")); }, {"timeout_s", "nan"}},
      {"call_struct_size",
       [](Communicator& c) {
         tutti_call call{};
         call.struct_size = 1;
         return Status::from_c(tutti_barrier(c.handle(), &call, nullptr));
       },
       {"struct_size", "1"}},
      {"split_settings",
       [](Communicator& c) { return c.split(-1, 0, {.settings = "timeout=soon"}).status(); },
       {"timeout", "soon"}},
      {"explain_collective",
       [](Communicator& c) { return c.explain(tutti::Collective::send, 8).status(); },
       {"what", "5"}},
      {"register_null", [](Communicator& c) { return c.register_buffer(nullptr, 8).status(); }, {"pointer", "NULL"}},
      {"work_null", [](Communicator&) { return Status::from_c(tutti_work_wait(nullptr, 1)); }, {"work", "NULL"}},
      {"test_null", [](Communicator&) { return Status::from_c(tutti_work_test(nullptr)); }, {"work", "NULL"}},
      {"comm_null",
       [](Communicator&) { return Status::from_c(tutti_barrier(nullptr, nullptr, nullptr)); },
       {"comm", "NULL"}},
      {"free_of_foreign_memory", [](Communicator&) { return Status::from_c(tutti_free(input)); }, {"pointer"}},
  };
  return kRows;
}

TEST(Arguments, each_bad_one_is_named_with_its_value_and_what_is_allowed) {
  spawn(2, [](Communicator& comm) {
    if (comm.rank() == 0)
      for (const Row& row : rows()) {
        const Status status = row.call(comm);
        EXPECT_EQ(status.code(), row.code) << row.name << ": " << to_string(status);
        for (const std::string& part : row.parts)
          EXPECT_NE(status.text().find(part), std::string::npos)
              << row.name << ": no '" << part << "' in: " << status.text();
      }
    // A refused call is no operation: the numbering is as on the rank that made none.
    EXPECT_STATUS_OK(comm.status());
    std::vector<float> data(4, 1);
    EXPECT_STATUS_OK(comm.all_reduce(data));
    EXPECT_EQ(data, std::vector<float>(4, 2));
  });
}

struct CreateRow {
  const char* name;
  int rank, ranks;
  const char* settings;
  std::vector<std::string> parts;
};

TEST(Arguments, of_create_are_checked_before_anybody_is_waited_for) {
  const auto id = tutti::UniqueId::create().value();
  const std::vector<CreateRow> table = {
      {"rank_high", 4, 4, "", {"rank", "4", "0..3"}},
      {"rank_low", -1, 4, "", {"rank", "-1", "0..3"}},
      {"ranks_zero", 0, 0, "", {"ranks", "0"}},
      {"unknown_setting", 0, 2, "timeuot=3s", {"timeuot", "timeout"}},
      {"bad_value", 0, 2, "lanes=99", {"lanes", "99", "1..8"}},
      {"no_number", 0, 2, "slice_bytes=big", {"slice_bytes", "big"}},
      {"no_value", 0, 2, "lanes", {"lanes"}},
  };
  for (const CreateRow& row : table) {
    const std::int64_t begin = now_ns();
    const auto comm = Communicator::create(id, row.rank, row.ranks, {.settings = row.settings});
    EXPECT_LT(now_ns() - begin, 5'000'000'000) << row.name;
    EXPECT_EQ(comm.code(), Code::invalid_argument) << row.name << ": " << to_string(comm.status());
    for (const std::string& part : row.parts)
      EXPECT_NE(comm.text().find(part), std::string::npos) << row.name << ": no '" << part << "' in: " << comm.text();
  }
  tutti_comm* handle = nullptr;
  EXPECT_EQ(tutti_comm_create(nullptr, 0, 1, nullptr, &handle), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_comm_create(&id.raw, 0, 1, nullptr, nullptr), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(handle, nullptr);
}

TEST(Arguments, of_an_empty_communicator) {
  Communicator nobody;
  EXPECT_FALSE(static_cast<bool>(nobody));
  std::vector<float> data(4);
  EXPECT_EQ(nobody.all_reduce(data).code(), Code::invalid_argument);
  EXPECT_EQ(nobody.async().barrier().code(), Code::invalid_argument);
  EXPECT_EQ(nobody.split(0).code(), Code::invalid_argument);
  EXPECT_EQ(nobody.status().code(), Code::invalid_argument);
  EXPECT_EQ(nobody.abort().code(), Code::invalid_argument);
  EXPECT_EQ(nobody.explain(tutti::Collective::barrier, 0).code(), Code::invalid_argument);
  EXPECT_EQ(nobody.set_event_hook([](const tutti_event&) {}).code(), Code::invalid_argument);
  EXPECT_LT(nobody.rank(), 0);
  EXPECT_LE(nobody.ranks(), 0);
}

TEST(Environment, missing_and_malformed_values_are_named) {
  for (const char* name : {"RANK", "WORLD_SIZE", "TUTTI_UNIQUE_ID", "TUTTI_RANK", "TUTTI_WORLD_SIZE"}) unsetenv(name);
  const auto expect = [](Code code, const std::vector<std::string>& parts) {
    const auto comm = Communicator::from_environment();
    EXPECT_EQ(comm.code(), code) << to_string(comm.status());
    for (const std::string& part : parts)
      EXPECT_NE(comm.text().find(part), std::string::npos) << "no '" << part << "' in: " << comm.text();
  };
  expect(Code::unavailable, {"tutti run"});
  setenv("TUTTI_UNIQUE_ID", "xyz", 1);
  setenv("RANK", "0", 1);
  setenv("WORLD_SIZE", "1", 1);
  expect(Code::invalid_argument, {"TUTTI_UNIQUE_ID"});
  EXPECT_EQ(tutti::UniqueId::from_environment().code(), Code::invalid_argument);
  std::string digits;
  const auto id = tutti::UniqueId::create().value();
  for (const unsigned char byte : id.raw.bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", byte);
    digits += two;
  }
  setenv("TUTTI_UNIQUE_ID", digits.c_str(), 1);
  const auto read = tutti::UniqueId::from_environment();
  ASSERT_STATUS_OK(read.status());
  EXPECT_TRUE(std::equal(std::begin(id.raw.bytes), std::end(id.raw.bytes), read->raw.bytes));
  setenv("RANK", "one", 1);
  expect(Code::invalid_argument, {"RANK", "one"});
  setenv("RANK", "3", 1);
  expect(Code::invalid_argument, {"RANK", "3"});
  setenv("RANK", "0", 1);
  auto comm = Communicator::from_environment({.name = "launched"});
  ASSERT_STATUS_OK(comm.status());
  EXPECT_STREQ(comm->name(), "launched");
  EXPECT_STATUS_OK(comm->barrier());
  for (const char* name : {"RANK", "WORLD_SIZE", "TUTTI_UNIQUE_ID"}) unsetenv(name);
}

// Two threads inside one communicator at once: the second one is told, the first one is not harmed.
TEST(Threads, two_inside_one_communicator_are_detected) {
  std::atomic<bool> inside{false}, detected{false};
  spawn(2, [&](Communicator& comm) {
    if (comm.rank() == 1) {
      ASSERT_TRUE(eventually([&] { return detected.load(); }));
      ASSERT_STATUS_OK(comm.barrier());
      return;
    }
    // Begins within the call that rank 1 keeps from ending.
    ASSERT_STATUS_OK(comm.set_event_hook([&](const tutti_event&) { inside = true; }));
    std::thread second([&] {
      ASSERT_TRUE(eventually([&] { return inside.load(); }));
      std::vector<float> data(4);
      for (const Status& status : {comm.all_reduce(data), comm.async().all_reduce(data).status()}) {
        EXPECT_EQ(status.code(), Code::invalid_argument) << to_string(status);
        EXPECT_NE(status.text().find("two threads"), std::string::npos) << status.text();
      }
      detected = true;
    });
    EXPECT_STATUS_OK(comm.barrier());
    second.join();
    ASSERT_STATUS_OK(comm.set_event_hook(nullptr));
  });
}

TEST(Version, of_the_library_is_the_headers) {
  EXPECT_EQ(tutti::version(), TUTTI_VERSION_MAJOR * 10000 + TUTTI_VERSION_MINOR * 100 + TUTTI_VERSION_PATCH);
}

TEST(Names, of_codes_and_types) {
  EXPECT_STREQ(tutti::name(Code::peer_lost), "peer_lost");
  EXPECT_STREQ(tutti::name(DataType::bfloat16), "bfloat16");
  EXPECT_EQ(tutti::bytes_of(DataType::float64), 8u);
  EXPECT_EQ(tutti_dtype_bytes(static_cast<tutti_dtype>(13)), 0u);
  EXPECT_EQ(tutti_dtype_name(static_cast<tutti_dtype>(13)), nullptr);
  EXPECT_NE(tutti_code_name(static_cast<tutti_code>(15)), nullptr);
}

}  // namespace
}  // namespace api_test
