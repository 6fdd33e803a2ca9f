// SPDX-License-Identifier: Apache-2.0
// The transport contract: what every way of moving bytes between two processes promises. One folder per transport,
// registered in transports/registry.cc, proved by the suite in tests/contract/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace tutti::core {

struct Capabilities {
  bool mapped = false;    ///< load/store reaches the peer's memory: Link::mapped() is not null
  bool messages = false;  ///< post_send / post_recv work
};

/// A piece of this endpoint's memory that peers can reach. `offset` names it on the wire.
struct SharedBlock {
  std::uint64_t offset = 0;
  std::byte* pointer = nullptr;
  std::size_t bytes = 0;
};

/// Both ends of a mapped link: a block of the peer at offset o is at remote + o; stores there become visible in program
/// order as acquire/release atomics say. Valid as long as the Link.
struct MappedView {
  std::byte* local = nullptr;
  std::byte* remote = nullptr;
  std::uint64_t remote_bytes = 0;  ///< offsets at or above this are malformed: check before use
};

/// How one process makes itself reachable: opaque bytes, and open descriptors that travel beside them (SCM_RIGHTS).
/// Descriptors are borrowed on export, owned on import.
struct PeerAddress {
  std::string bytes;
  std::vector<int> descriptors;
};

struct Completion {
  std::uint64_t token = 0;  ///< of the post call
  std::size_t bytes = 0;    ///< moved
  Status status;
};

enum class LinkState : std::uint8_t { connecting, ready, failed };

/// One process pair, shared by all communicators between the two. No member function blocks. Post and poll from one
/// thread at a time; abort and state from any.
class Link {
 public:
  virtual ~Link() = default;
  virtual LinkState state() const = 0;
  virtual Status status() const = 0;  ///< why it failed; ok otherwise
  virtual const MappedView* mapped() const = 0;
  /// Message links only (Capabilities::messages); else unsupported. Buffers must live until the completion arrives from
  /// Endpoint::poll. Messages of one lane arrive in order; lanes do not wait for each other. Zero bytes are a message
  /// too. One that is longer than `capacity` completes the receive with an error, nothing is written beyond.
  virtual Status post_send(int lane, std::uint64_t token, const void* data, std::size_t bytes) = 0;
  virtual Status post_recv(int lane, std::uint64_t token, void* data, std::size_t capacity) = 0;
  /// Ends the link: state() is failed with `reason` from now on; posted operations complete with it.
  virtual void abort(Status reason) = 0;
};

/// One transport in one process.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  virtual std::string_view name() const = 0;
  virtual Capabilities capabilities() const = 0;
  virtual PeerAddress address() const = 0;
  /// Symmetric test on a peer's address bytes: can the two reach each other? Never an error.
  virtual bool reaches(std::string_view address_bytes) const = 0;
  /// Starts connecting; both sides call it; poll drives connecting -> ready | failed. Calling again for a process
  /// already connected returns the same link. Takes the descriptors of `peer`.
  virtual Result<std::shared_ptr<Link>> connect(PeerAddress peer) = 0;
  /// Moves everything forward; appends what finished. Cheap when there is nothing to do.
  virtual Status poll(std::vector<Completion>& completions) = 0;
  /// Zeroed, touched memory reachable by peers, 128-byte aligned (2 MiB and more: huge pages where the kernel can). May
  /// take milliseconds: never on a hot path. Thread-safe. Errors: unavailable (memory), unsupported (not mapped).
  virtual Result<SharedBlock> allocate(std::size_t bytes) = 0;
  virtual void release(const SharedBlock& block) = 0;
};

struct TransportRow {
  std::string_view name;
  /// Viability is a state, not a crash: an endpoint that cannot work on this machine is a Status with the reason.
  Result<std::unique_ptr<Endpoint>> (*make)();
};

}  // namespace tutti::core
