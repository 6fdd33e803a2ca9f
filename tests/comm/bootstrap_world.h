// SPDX-License-Identifier: Apache-2.0
// A rendezvous in virtual time: one root, any members and strangers, and connections whose bytes arrive in pieces and
// in an order that a seed decides. One step is one event at one party.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/random.h"
#include "src/comm/bootstrap_protocol.h"

namespace tutti::core::test {

struct MemberPlan {
  int rank = 0, ranks = 0;  ///< ranks 0: as many as the root says
  int process = 0;
  std::uint64_t start_ns = 0, deadline_ns = 60'000'000'000;
  std::uint16_t version = kProtocolVersion;
  bool wrong_secret = false;
  std::string agreed = "slice_bytes=256K\n";
  int descriptors = 1;
};

struct WorldPlan {
  std::uint64_t seed = 0;
  int ranks = 2;
  MemberPlan root;  ///< rank 0
  std::vector<MemberPlan> members;
  int strangers = 0;      ///< connections that send garbage, play hellos back or say nothing
  int victim = -1;        ///< index into members, or -1 none, or kRootVictim: killed ...
  long victim_step = -1;  ///< ... before this step
};
constexpr int kRootVictim = -2;

class World {
 public:
  explicit World(const WorldPlan& plan);
  /// Until everybody alive has a verdict. False: too many steps.
  bool run();

  long steps() const { return step_; }
  std::uint64_t now() const { return now_; }
  bool root_alive() const { return root_ != nullptr; }
  bool member_alive(std::size_t i) const { return members_[i].protocol != nullptr; }
  const RootProtocol& root() const { return *root_; }
  const MemberProtocol& member(std::size_t i) const { return *members_[i].protocol; }
  /// Everybody and everything on its way goes.
  void abandon();
  /// Descriptors made by this world that somebody still holds.
  long descriptors_held() const;

 private:
  struct Chunk {
    std::string bytes;
    std::vector<DescriptorPtr> descriptors;
  };
  struct Pipe {
    std::deque<Chunk> to_root, to_far;
    bool accepted = false, root_closed = false, far_closed = false, root_saw_end = false, far_saw_end = false;
    int member = -1;  // -1: a stranger
  };
  struct Member {
    MemberPlan plan;
    std::unique_ptr<MemberProtocol> protocol;
    ConnectionId pipe = 0;
  };
  struct Event {
    enum class Kind { attempt, accept, to_root, to_far, root_end, far_end, stranger } kind;
    std::size_t index = 0;  // member
    ConnectionId pipe = 0;
  };

  ProtocolSettings settings(const MemberPlan& plan);
  DescriptorPtr make_descriptor();
  Nonce nonce();
  std::vector<Event> possible_events() const;
  void happen(const Event& event);
  void attempt(std::size_t index);
  Chunk take(std::deque<Chunk>& queue, std::size_t most);
  void apply_root_actions();
  void apply_member_actions(Member& member);
  void stranger();
  void kill(int victim);
  void advance_time();
  bool all_done() const;

  WorldPlan plan_;
  Random random_;
  std::uint64_t now_ = 0;
  long step_ = 0;
  int strangers_left_;
  std::unique_ptr<RootProtocol> root_;
  std::vector<Member> members_;
  std::map<ConnectionId, Pipe> pipes_;
  ConnectionId last_pipe_ = 0;
  std::vector<std::weak_ptr<Descriptor>> made_;
};

}  // namespace tutti::core::test
