// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/bootstrap_world.h"

#include <algorithm>

namespace tutti::core::test {

namespace {
constexpr long kMaxSteps = 200'000;
constexpr int kFirstFakeNumber = 1 << 20;  // no descriptor of this process has such a number
}  // namespace

World::World(const WorldPlan& plan) : plan_(plan), random_(plan.seed), strangers_left_(plan.strangers) {
  root_ = std::make_unique<RootProtocol>(settings(plan_.root), [this]() -> Result<DescriptorPair> {
    return DescriptorPair(make_descriptor(), make_descriptor());
  });
  for (const MemberPlan& member : plan_.members)
    members_.push_back({member, std::make_unique<MemberProtocol>(settings(member)), 0});
}

DescriptorPtr World::make_descriptor() {
  auto descriptor = std::make_shared<Descriptor>(kFirstFakeNumber + static_cast<int>(made_.size()), false);
  made_.push_back(descriptor);
  return descriptor;
}

void World::abandon() {
  root_.reset();
  members_.clear();
  pipes_.clear();
}

long World::descriptors_held() const {
  return std::count_if(made_.begin(), made_.end(), [](const auto& descriptor) { return !descriptor.expired(); });
}

ProtocolSettings World::settings(const MemberPlan& plan) {
  ProtocolSettings settings;
  settings.identity.job.fill(7);
  settings.identity.secret.fill(plan.wrong_secret ? 1 : 2);
  settings.identity.min_version = settings.identity.max_version = plan.version;
  settings.rank = plan.rank;
  settings.ranks = plan.ranks != 0 ? plan.ranks : plan_.ranks;
  settings.name = "world";
  settings.self.process.fill(static_cast<unsigned char>(plan.process));
  settings.self.pid = 1000 + plan.process;
  settings.self.member_id = static_cast<std::uint64_t>(plan.rank) + 1;
  settings.self.agreed = plan.agreed;
  settings.self.payload = "rank " + std::to_string(plan.rank);
  for (int i = 0; i < plan.descriptors; ++i) settings.descriptors.push_back(make_descriptor());
  settings.start_ns = plan.start_ns;
  settings.deadline_ns = plan.deadline_ns;
  return settings;
}

Nonce World::nonce() {
  Nonce nonce;
  for (unsigned char& byte : nonce) byte = static_cast<unsigned char>(random_());
  return nonce;
}

std::vector<World::Event> World::possible_events() const {
  using Kind = Event::Kind;
  std::vector<Event> events;
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (members_[i].protocol && !members_[i].protocol->finished() && members_[i].protocol->wants_connection(now_))
      events.push_back({Kind::attempt, i, 0});
  const bool listening = root_ && !root_->finished();
  if (strangers_left_ > 0 && listening) events.push_back({Kind::stranger, 0, 0});
  for (const auto& [id, pipe] : pipes_) {
    if (!pipe.accepted && listening && root_->has_room(now_)) events.push_back({Kind::accept, 0, id});
    if (pipe.accepted && listening && !pipe.root_closed) {
      if (!pipe.to_root.empty() && root_->want(id) > 0) events.push_back({Kind::to_root, 0, id});
      if (pipe.to_root.empty() && pipe.far_closed && !pipe.root_saw_end) events.push_back({Kind::root_end, 0, id});
    }
    if (pipe.member < 0 || pipe.far_closed) continue;
    const Member& member = members_[static_cast<std::size_t>(pipe.member)];
    if (!pipe.to_far.empty() && member.protocol->want() > 0) events.push_back({Kind::to_far, 0, id});
    if (pipe.to_far.empty() && pipe.root_closed && !pipe.far_saw_end && !member.protocol->finished())
      events.push_back({Kind::far_end, 0, id});
  }
  return events;
}

World::Chunk World::take(std::deque<Chunk>& queue, std::size_t most) {
  // As the kernel does: descriptors come with the first byte beside which they were sent.
  Chunk& front = queue.front();
  const std::size_t bytes = 1 + random_.below(std::min(most, front.bytes.size()));
  Chunk taken{front.bytes.substr(0, bytes), std::exchange(front.descriptors, {})};
  front.bytes.erase(0, bytes);
  if (front.bytes.empty()) queue.pop_front();
  return taken;
}

void World::happen(const Event& event) {
  using Kind = Event::Kind;
  if (event.kind == Kind::attempt) return attempt(event.index);
  if (event.kind == Kind::stranger) return stranger();
  Pipe& pipe = pipes_.at(event.pipe);
  Member* member = pipe.member < 0 ? nullptr : &members_[static_cast<std::size_t>(pipe.member)];
  if (event.kind == Kind::accept) {
    pipe.accepted = true;
    root_->connected(event.pipe, nonce(), "peer of pipe " + std::to_string(event.pipe), now_);
  } else if (event.kind == Kind::to_root) {
    const bool takes = root_->takes_descriptors(event.pipe);
    Chunk chunk = take(pipe.to_root, root_->want(event.pipe));
    if (!takes) chunk.descriptors.clear();
    root_->received(event.pipe, chunk.bytes, std::move(chunk.descriptors), now_);
  } else if (event.kind == Kind::root_end) {
    pipe.root_saw_end = true;
    root_->closed(event.pipe, now_);
  } else if (event.kind == Kind::to_far) {
    const bool takes = member->protocol->takes_descriptors();
    Chunk chunk = take(pipe.to_far, member->protocol->want());
    if (!takes) chunk.descriptors.clear();
    member->protocol->received(chunk.bytes, std::move(chunk.descriptors), now_);
    apply_member_actions(*member);
  } else if (event.kind == Kind::far_end) {
    pipe.far_saw_end = pipe.far_closed = true;
    member->protocol->closed(now_);
    apply_member_actions(*member);
  }
  apply_root_actions();
}

void World::attempt(std::size_t index) {
  Member& member = members_[index];
  if (!root_ || root_->finished()) {
    using Refusal = MemberProtocol::Refusal;
    member.protocol->not_connected(root_ ? Refusal::nobody : Refusal::nobody_left, now_);
  } else if (random_.below(10) == 0) {
    member.protocol->not_connected(MemberProtocol::Refusal::busy, now_);  // the listener's queue is full
  } else {
    member.pipe = ++last_pipe_;
    pipes_[member.pipe].member = static_cast<int>(index);
    member.protocol->connected(nonce(), "root", now_);
  }
  apply_member_actions(member);
}

void World::apply_root_actions() {
  if (!root_) return;
  for (ProtocolAction& action : root_->take_actions()) {
    if (action.kind == ProtocolAction::Kind::log) continue;
    Pipe& pipe = pipes_.at(action.connection);
    if (action.kind == ProtocolAction::Kind::close)
      pipe.root_closed = true;
    else if (!pipe.far_closed && !pipe.root_closed)
      pipe.to_far.push_back({*action.bytes, std::move(action.descriptors)});
  }
}

void World::apply_member_actions(Member& member) {
  for (ProtocolAction& action : member.protocol->take_actions()) {
    Pipe& pipe = pipes_[member.pipe];
    if (action.kind == ProtocolAction::Kind::close)
      pipe.far_closed = true;
    else if (!pipe.root_closed)
      pipe.to_root.push_back({*action.bytes, std::move(action.descriptors)});
  }
}

void World::stranger() {
  --strangers_left_;
  Pipe& pipe = pipes_[++last_pipe_];
  std::string bytes;
  const auto kind = random_.below(4);
  if (kind == 0) {  // garbage
    for (std::uint64_t i = random_.below(300); i > 0; --i) bytes.push_back(static_cast<char>(random_()));
  } else if (kind == 1) {  // a right hello, then a wrong proof
    HandshakeIdentity identity = settings(plan_.root).identity;
    identity.nonce = nonce();
    bytes = Handshake(identity).hello() + std::string(32, 'x');
  } else if (kind == 2) {  // half a hello, and silence
    HandshakeIdentity identity = settings(plan_.root).identity;
    bytes = Handshake(identity).hello().substr(0, random_.below(128));
  }
  if (!bytes.empty()) pipe.to_root.push_back({std::move(bytes), {make_descriptor()}});
  pipe.far_closed = random_.below(2) == 0;
}

void World::kill(int victim) {
  if (victim == kRootVictim) {
    root_.reset();
    for (auto& [id, pipe] : pipes_) pipe.root_closed = true;
    return;
  }
  Member& member = members_[static_cast<std::size_t>(victim)];
  member.protocol.reset();
  if (member.pipe != 0) pipes_[member.pipe].far_closed = true;
}

// Nothing more happens now: on to the next instant at which somebody has something to do.
void World::advance_time() {
  std::uint64_t next = UINT64_MAX;
  if (root_ && !root_->finished()) next = std::min(next, root_->next_tick(now_));
  for (const Member& member : members_)
    if (member.protocol && !member.protocol->finished()) next = std::min(next, member.protocol->next_tick());
  now_ = std::max(now_ + 1, next);
}

bool World::all_done() const {
  if (root_ && !root_->finished()) return false;
  return std::all_of(members_.begin(), members_.end(),
                     [](const Member& member) { return !member.protocol || member.protocol->finished(); });
}

bool World::run() {
  for (; step_ < kMaxSteps; ++step_) {
    if (step_ == plan_.victim_step) kill(plan_.victim);
    if (all_done()) return true;
    const std::vector<Event> events = possible_events();
    if (events.empty())
      advance_time();
    else
      happen(events[random_.below(events.size())]);
    now_ += random_.below(20'000);  // up to 20 us
    if (root_ && !root_->finished() && now_ >= root_->next_tick(now_)) root_->tick(now_);
    apply_root_actions();
    for (Member& member : members_) {
      if (!member.protocol || member.protocol->finished() || now_ < member.protocol->next_tick()) continue;
      member.protocol->tick(now_);
      apply_member_actions(member);
    }
  }
  return false;
}

}  // namespace tutti::core::test
