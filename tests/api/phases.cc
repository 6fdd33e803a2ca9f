// SPDX-License-Identifier: Apache-2.0
#include "tests/api/phases.h"

#include <algorithm>

namespace api_test {

namespace {

using tutti::Communicator;
using tutti::Status;

/// Sum of (rank + round) over all ranks in every element, or the library said ok too early.
Status checked_all_reduce(Communicator& comm, std::span<int> data, std::uint64_t round) {
  const int base = static_cast<int>(round % 1000);
  std::fill(data.begin(), data.end(), base + comm.rank());
  const Status status = comm.all_reduce(data);
  if (!status) return status;
  const int expected = comm.ranks() * base + comm.ranks() * (comm.ranks() - 1) / 2;
  const auto wrong = std::find_if(data.begin(), data.end(), [=](int x) { return x != expected; });
  EXPECT_EQ(wrong - data.begin(), static_cast<std::ptrdiff_t>(data.size()))
      << "rank " << comm.rank() << " was told ok: wrong data in round " << round << ": " << *wrong << ", expected "
      << expected;
  return status;
}

Status checked_exchange(Communicator& comm, std::vector<int>& in, std::vector<int>& out, std::uint64_t round) {
  const int next = (comm.rank() + 1) % comm.ranks();
  const int previous = (comm.rank() + comm.ranks() - 1) % comm.ranks();
  const int base = static_cast<int>(round % 1000) * 100;
  std::fill(out.begin(), out.end(), base + comm.rank());
  auto send = comm.async().send(out, next);
  if (!send.is_ok()) return send.status();
  const Status received = comm.recv(in, previous);
  const Status sent = send->wait();
  if (!received) return received;
  if (!sent) return sent;
  EXPECT_EQ(std::count(in.begin(), in.end(), base + previous), static_cast<std::ptrdiff_t>(in.size()))
      << "rank " << comm.rank() << " was told ok: wrong message in round " << round;
  return received;
}

/// Split, one operation in the child, destroy; for `destroy` several children at once, so that most of the time goes
/// into their end.
Status checked_split(Communicator& comm, int children, std::uint64_t round) {
  std::vector<Communicator> made;
  for (int i = 0; i < children; ++i) {
    auto child = comm.split(0, comm.rank());
    if (!child.is_ok()) return child.status();
    made.push_back(std::move(*child));
  }
  std::vector<int> data(4);
  for (Communicator& child : made) {
    const Status status = checked_all_reduce(child, data, round);
    if (!status) return status;
  }
  return {};
}

}  // namespace

const char* name_of(Phase phase) {
  static const char* const kNames[] = {"init",       "line",           "slots", "fifo",
                                       "registered", "point_to_point", "split", "destroy"};
  return kNames[static_cast<int>(phase)];
}

std::string operation_of(Phase phase) {
  if (phase == Phase::point_to_point) return "";                    // send or recv
  if (phase == Phase::split || phase == Phase::destroy) return "";  // split, or all_reduce in the child
  return "all_reduce";
}

Status run_phase(Communicator& comm, Phase phase, Board& board, std::uint64_t rounds) {
  std::atomic<std::uint64_t>& counter = board.counter[comm.rank()];
  std::vector<int> data, out;
  tutti::Buffer<int> memory;
  tutti::Registration registration;
  switch (phase) {
    case Phase::line: data.resize(2); break;
    case Phase::slots: data.resize(900); break;
    case Phase::fifo: data.resize(1 << 18); break;
    case Phase::point_to_point:
      data.resize(3000);
      out.resize(3000);
      break;
    case Phase::registered:
      memory = tutti::Buffer<int>::make(1 << 20).value();
      registration = comm.register_buffer(memory).value();
      break;
    default: break;
  }
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Status status;
    if (phase == Phase::registered)
      status = checked_all_reduce(comm, std::span(memory.data(), memory.size()), round);
    else if (phase == Phase::point_to_point)
      status = checked_exchange(comm, data, out, round);
    else if (phase == Phase::split || phase == Phase::destroy)
      status = checked_split(comm, phase == Phase::split ? 1 : 4, round);
    else
      status = checked_all_reduce(comm, data, round);
    if (!status) return status;
    counter = round + 1;
  }
  return {};
}

}  // namespace api_test
