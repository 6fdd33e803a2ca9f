// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <vector>

#include "tests/contract/transport_contract.h"
#include "transports/faulty/faulty_endpoint.h"
#include "transports/shm/arena.h"
#include "transports/shm/shm_endpoint.h"

namespace tutti::core::contract {

Result<std::unique_ptr<Endpoint>> make_faultless_shm() {
  TUTTI_TRY(inner, make_shm_endpoint());
  return make_faulty_endpoint(std::move(inner), {});
}

const TransportCase kShm{"shm", make_shm_endpoint}, kFaultlessShm{"faultless_shm", make_faultless_shm};
TUTTI_INSTANTIATE_TRANSPORT_CONTRACT(TransportContract, shm, kShm, kFaultlessShm);
TUTTI_INSTANTIATE_TRANSPORT_CONTRACT(MappedTransportContract, shm, kShm, kFaultlessShm);

namespace {

std::unique_ptr<Endpoint> make_shm() {
  auto made = make_shm_endpoint();
  EXPECT_TRUE(made.is_ok()) << made.status().to_string();
  return std::move(made).value();
}

/// A descriptor that is almost the arena of `peer`: its header, then changed by `damage`.
class ForgedArena {
 public:
  explicit ForgedArena(const Endpoint& peer) : address_(peer.address()) {
    const ssize_t got = pread(address_.descriptors.at(0), header_.data(), header_.size(), 0);
    EXPECT_EQ(got, static_cast<ssize_t>(header_.size()));
  }
  template <class T>
  void set(std::size_t offset, T value) {
    std::memcpy(header_.data() + offset, &value, sizeof(value));
  }
  PeerAddress make(std::uint64_t bytes = 2 << 20, int seals = F_SEAL_SHRINK) const {
    const int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
    const std::size_t written = std::min<std::size_t>(header_.size(), bytes);
    EXPECT_EQ(pwrite(fd, header_.data(), written, 0), static_cast<ssize_t>(written));
    EXPECT_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
    return {address_.bytes, {fd}};
  }

 private:
  PeerAddress address_;
  std::array<char, sizeof(shm::ArenaHeader)> header_{};
};

void expect_refused(Endpoint& endpoint, PeerAddress address, const std::string& text) {
  const int before = open_descriptors() - static_cast<int>(address.descriptors.size());
  const auto link = endpoint.connect(std::move(address));
  ASSERT_FALSE(link.is_ok()) << "expected: " << text;
  EXPECT_NE(link.status().to_string().find(text), std::string::npos) << link.status().to_string();
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Shm, a_forged_arena_that_is_right_in_everything_connects) {
  const auto endpoint = make_shm(), peer = make_shm();
  const auto link = endpoint->connect(ForgedArena(*peer).make());
  EXPECT_TRUE(link.is_ok()) << link.status().to_string();  // so that each refusal below has one cause
}

TEST(Shm, descriptors_that_are_no_arena_are_refused_by_name) {
  const auto endpoint = make_shm(), peer = make_shm();
  const std::string bytes = peer->address().bytes;
  expect_refused(*endpoint, {bytes, {}}, "came with 0 descriptors");
  expect_refused(*endpoint, {bytes, {open("/dev/null", O_RDWR | O_CLOEXEC)}}, "is not a memfd");
  expect_refused(*endpoint, {bytes, {open("/proc/self/exe", O_RDONLY | O_CLOEXEC)}}, "is not");
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  close(ends[1]);
  expect_refused(*endpoint, {bytes, {ends[0]}}, "is not a memfd");
}

TEST(Shm, arenas_that_could_shrink_or_are_too_small_are_refused) {
  const auto endpoint = make_shm(), peer = make_shm();
  const ForgedArena forged(*peer);
  expect_refused(*endpoint, forged.make(2 << 20, F_SEAL_GROW), "not sealed against shrinking");
  expect_refused(*endpoint, forged.make(0), "has 0 bytes");
  expect_refused(*endpoint, forged.make(32), "has 32 bytes");
  expect_refused(*endpoint, forged.make((2 << 20) + 4096), "no multiple of 2 MiB");
}

TEST(Shm, headers_that_say_something_else_are_refused) {
  const auto endpoint = make_shm(), peer = make_shm();
  const auto refuse = [&](const std::function<void(ForgedArena&)>& damage, const std::string& text) {
    ForgedArena forged(*peer);
    damage(forged);
    expect_refused(*endpoint, forged.make(), text);
  };
  refuse([](ForgedArena& f) { f.set(offsetof(shm::ArenaHeader, magic), std::uint64_t{7}); }, "wrong magic");
  refuse([](ForgedArena& f) { f.set(offsetof(shm::ArenaHeader, version), std::uint32_t{9}); }, "version 9");
  refuse([](ForgedArena& f) { f.set(offsetof(shm::ArenaHeader, process), std::uint64_t{7}); },
         "another process's arena");
  refuse([](ForgedArena& f) { f.set(offsetof(shm::ArenaHeader, boot), std::uint64_t{7}); }, "another process's arena");
  for (const std::uint64_t reserve :
       {std::uint64_t{0}, std::uint64_t{4096}, std::uint64_t{3} << 20, std::uint64_t{1} << 60})
    refuse([reserve](ForgedArena& f) { f.set(offsetof(shm::ArenaHeader, reserve), reserve); }, "claims a reserve");
}

TEST(Shm, addresses_of_other_versions_and_machines_say_so) {
  const auto endpoint = make_shm(), peer = make_shm();
  PeerAddress address = duplicate(peer->address());
  address.bytes[4] = 9;
  EXPECT_FALSE(endpoint->reaches(address.bytes));
  expect_refused(*endpoint, address, "version 9");
  address = duplicate(peer->address());
  address.bytes[8] = static_cast<char>(address.bytes[8] ^ 1);
  EXPECT_FALSE(endpoint->reaches(address.bytes));
  expect_refused(*endpoint, address, "another machine");
}

TEST(Shm, a_link_to_oneself_is_the_same_memory) {
  const auto endpoint = make_shm();
  const auto link = connect_ready(*endpoint, {endpoint->address().bytes, {}});
  EXPECT_EQ(link->mapped()->local, link->mapped()->remote);
}

TEST(Shm, an_idle_communicator_costs_no_more_than_it_asks_for) {
  const auto endpoint = make_shm();
  const int fd = endpoint->address().descriptors[0];
  const off_t before = lseek(fd, 0, SEEK_END);
  for (int i = 0; i < 25; ++i) ASSERT_TRUE(endpoint->allocate(64 << 10).is_ok());
  EXPECT_EQ(lseek(fd, 0, SEEK_END), before);
}

// 512 peers at 64 GiB each must fit the address space; here as many as the descriptors of a test allow.
TEST(Shm, many_peers_are_mapped_at_once) {
  const auto endpoint = make_shm();
  const auto peer = make_shm();
  std::vector<shm::Mapping> mappings;
  const std::uint64_t count = shm::kReserveBytes < (std::uint64_t{64} << 30) ? 100 : 512;
  for (std::uint64_t i = 0; i < count; ++i) {
    auto mapping = shm::map_reserve(peer->address().descriptors[0], shm::kReserveBytes);
    ASSERT_TRUE(mapping.is_ok()) << "peer " << i << ": " << mapping.status().to_string();
    mappings.push_back(std::move(mapping).value());
  }
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST(Shm, an_address_space_limit_halves_the_reserve) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = std::uint64_t{8} << 30;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  auto limited = make_shm_endpoint();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_TRUE(limited.is_ok()) << limited.status().to_string();
  const auto peer = make_shm();
  const auto link = connect_ready(*peer, duplicate((*limited)->address()));
  EXPECT_LT(link->mapped()->remote_bytes, shm::kReserveBytes);
  EXPECT_GE(link->mapped()->remote_bytes, shm::kLeastReserveBytes);
  EXPECT_TRUE((*limited)->allocate(1 << 20).is_ok());
}
#endif

}  // namespace
}  // namespace tutti::core::contract
