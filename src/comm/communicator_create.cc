// SPDX-License-Identifier: Apache-2.0
// Birth and end of communicators.
#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>

#include "src/base/log.h"
#include "src/base/random.h"
#include "src/comm/communicator.h"
#include "src/comm/cost_cache.h"

namespace tutti::core {

namespace {

constexpr std::uint64_t kFirstEpoch = 1;

/// What a member tells the others besides its process.
struct Payload {
  std::uint64_t control_offset;
  CpuMask cpus;
  std::uint64_t selection;  ///< selection_hash of this rank's library
  // Rank 0's ends with its cost table as text.
};

Result<Config> make_config(const tutti_config* config, const Config* parent) {
  Config result;
  if (parent) {
    result = *parent;
  } else {
    TUTTI_TRY(from_environment, Config::from_environment());
    result = std::move(from_environment);
  }
  if (config && config->struct_size >= sizeof(tutti_config) && config->settings)
    TUTTI_TRY(result.overlay_text(config->settings));
  return result;
}

std::string hexadecimal(const unsigned char* bytes, std::size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

Status check_config(const tutti_config* config) {
  if (!config || config->struct_size >= sizeof(tutti_config)) return {};
  return Status::error(TUTTI_INVALID_ARGUMENT, "tutti_config::struct_size is " + std::to_string(config->struct_size))
      .with_remedy("set it to sizeof(tutti_config), here " + std::to_string(sizeof(tutti_config)));
}

Result<SharedBlock> make_control_page(Process& process, std::uint64_t member_id, int ranks) {
  process.sweep();
  TUTTI_TRY(block, process.endpoint().allocate(ControlPage::bytes_for(ranks)));
  reinterpret_cast<ControlPage*>(block.pointer)->member_id.store(member_id, std::memory_order_relaxed);
  return block;
}

/// The control page that a peer says it has, checked before it is believed.
Result<PeerEnd> find_control_page(const Link& link, std::uint64_t offset, int peer, int ranks) {
  const MappedView* view = link.mapped();
  if (!view)
    return Status::error(TUTTI_UNAVAILABLE,
                         "the memory of rank " + std::to_string(peer) + " is not mapped: " + link.status().to_string(),
                         peer);
  const std::size_t bytes = ControlPage::bytes_for(ranks);
  if (offset % kLineStride != 0 || offset >= view->remote_bytes || bytes > view->remote_bytes - offset)
    return Status::error(TUTTI_INTERNAL, "rank " + std::to_string(peer) + " names a control page outside its memory",
                         peer);
  return PeerEnd{reinterpret_cast<ControlPage*>(view->remote + offset), *view};
}

/// Memory of an ended communicator. A peer may read our outboxes, and store credit into them, until it leaves too; a
/// stopped one even after an abort.
class EndedCommunicator final : public Limbo {
 public:
  /// `blocks`: the control page first, then what else peers may know of.
  EndedCommunicator(Process& process, std::vector<SharedBlock> blocks, std::unique_ptr<ChannelSet> channels,
                    std::vector<Member> members)
      : process_(process), blocks_(std::move(blocks)), channels_(std::move(channels)), members_(std::move(members)) {}
  ~EndedCommunicator() override {
    channels_.reset();
    for (const SharedBlock& block : blocks_) process_.endpoint().release(block);
  }
  bool free_now(const Watcher& watcher) const override {
    auto* page = reinterpret_cast<ControlPage*>(blocks_.front().pointer);
    const int ranks = static_cast<int>(members_.size());
    for (int r = 0; r < ranks; ++r)
      if (page->left(r, ranks).load(std::memory_order_acquire) == 0 &&
          !watcher.is_lost(members_[static_cast<std::size_t>(r)].process))
        return false;
    return true;
  }

 private:
  Process& process_;
  std::vector<SharedBlock> blocks_;
  std::unique_ptr<ChannelSet> channels_;
  std::vector<Member> members_;  // keeps the links
};

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(const UniqueIdBytes& id, int rank, int ranks,
                                                           const tutti_config* config) {
  if (ranks < 1)
    return Status::error(TUTTI_INVALID_ARGUMENT, "ranks is " + std::to_string(ranks)).with_remedy("at least 1");
  if (rank < 0 || rank >= ranks)
    return Status::error(TUTTI_INVALID_ARGUMENT, "rank is " + std::to_string(rank))
        .with_remedy("0.." + std::to_string(ranks - 1));
  TUTTI_TRY(check_config(config));
  CommunicatorParts parts;
  TUTTI_TRY(settings, make_config(config, nullptr));
  parts.config = std::move(settings);
  const std::string job = hexadecimal(id.data(), 16);
  TUTTI_TRY(process, Process::get(parts.config, job));
  parts.process = process;
  parts.rank = rank;
  parts.name = config && config->name ? config->name : "comm-" + job.substr(0, 8);
  parts.id = hash_text(std::string_view(reinterpret_cast<const char*>(id.data()), 48));
  TUTTI_TRY(member_random, make_unique_id());

  JoinRequest request;
  request.id = id;
  request.rank = rank;
  request.ranks = ranks;
  request.name = parts.name;
  request.deadline_ns = static_cast<std::uint64_t>(monotonic_ns() + parts.config.init_timeout_ns());
  Introduction& self = request.self;
  self.process = process->id();
  self.pid = static_cast<std::int32_t>(::getpid());
  std::memcpy(&self.member_id, member_random.data(), sizeof self.member_id);
  self.member_id |= 1;
  self.agreed = parts.config.agreed_text() + ";";
  std::replace(self.agreed.begin(), self.agreed.end(), ';', '\n');
  self.address = process->endpoint().address();
  CostTable cost;
  if (rank == 0) {
    // Before the others are let in, so that they sleep meanwhile.
    TUTTI_TRY(found, process->cost_table(parts.config));
    cost = std::move(found);
  }
  TUTTI_TRY(control, make_control_page(*process, self.member_id, ranks));
  parts.control = control;
  const Payload payload{control.offset, process->cpus(), selection_hash(ranks)};
  self.payload.assign(reinterpret_cast<const char*>(&payload), sizeof payload);
  if (rank == 0) self.payload += format_cost_table(cost);

  auto joined = join(std::move(request));
  if (!joined.is_ok()) {
    // No peer knows of the page unless all know of it.
    process->endpoint().release(control);
    return joined.status();
  }
  TUTTI_TRY(assemble(parts, joined->members));
  process->watcher().add(std::move(joined->connections));
  return std::make_unique<Communicator>(std::move(parts));
}

/// Links and control pages of all members.
Status Communicator::assemble(CommunicatorParts& parts, std::vector<Introduction>& introductions) {
  std::map<ProcessId, PeerAddress> addresses;  // one rank of each process brought the descriptors
  for (Introduction& introduction : introductions) {
    PeerAddress& address = addresses[introduction.process];
    if (address.bytes.empty() || !introduction.address.descriptors.empty()) address = std::move(introduction.address);
    introduction.address = {};
  }
  PeerAddress self = parts.process->endpoint().address();
  self.descriptors.clear();  // borrowed; one's own memory needs none
  addresses[parts.process->id()] = std::move(self);
  std::map<ProcessId, std::shared_ptr<Link>> links;
  Status status;
  for (auto& [process, address] : addresses) {
    auto connected = parts.process->endpoint().connect(std::move(address));
    if (connected.is_ok()) {
      links[process] = std::move(*connected);
      continue;
    }
    const auto culprit = std::find_if(introductions.begin(), introductions.end(),
                                      [&id = process](const Introduction& member) { return member.process == id; });
    const int rank = static_cast<int>(culprit - introductions.begin());
    if (status.is_ok())
      status = Status(connected.status()).with_context("rank " + std::to_string(rank)).with_rank(rank);
  }
  TUTTI_TRY(status);
  const int ranks = static_cast<int>(introductions.size());
  std::uint64_t selection = 0;  // rank 0's
  for (int r = 0; r < ranks; ++r) {
    const Introduction& introduction = introductions[static_cast<std::size_t>(r)];
    const auto& link = links[introduction.process];
    Payload payload{};
    if (introduction.payload.size() < sizeof payload)
      return Status::error(TUTTI_INTERNAL, "rank " + std::to_string(r) + " introduced itself in another format", r);
    std::memcpy(&payload, introduction.payload.data(), sizeof payload);
    if (r == 0) {
      auto cost = parse_cost_table(introduction.payload.substr(sizeof payload), CostTableUse::named);
      if (!cost.is_ok()) return Status(cost.status()).with_context("the cost table of rank 0").with_rank(0);
      parts.cost = std::move(*cost);
      selection = payload.selection;
    }
    TUTTI_TRY(compare_selection(selection, payload.selection, r));
    TUTTI_TRY(end, find_control_page(*link, payload.control_offset, r, ranks));
    parts.ends.push_back(end);
    parts.members.push_back({introduction.member_id, introduction.process, introduction.pid, payload.cpus, link});
  }
  return {};
}

Result<std::unique_ptr<Communicator>> Communicator::split(int color, int key, const tutti_config* config) {
  TUTTI_TRY(check_config(config));
  struct Card {
    std::int32_t color, key;
    std::uint64_t member_id, control_offset, agreed, cost;
  };
  std::vector<Card> cards(members_.size());
  CommunicatorParts parts;
  TUTTI_TRY(settings, make_config(config, &config_));
  parts.config = std::move(settings);
  parts.process = process_;
  TUTTI_TRY(member_random, make_unique_id());
  parts.cost = inherited_cost_table(parts.config, cost_table_);
  Card own{color, key, 0, 0, hash_text(parts.config.agreed_text()), parts.cost.hash()};
  std::memcpy(&own.member_id, member_random.data(), sizeof own.member_id);
  own.member_id |= 1;
  // The page is as large as the largest group can be, since its size is not known before the exchange.
  if (color >= 0) {
    TUTTI_TRY(control, make_control_page(*process_, own.member_id, ranks()));
    parts.control = control;
    own.control_offset = control.offset;
  }
  const std::uint64_t number = splits_++;
  Call exchange;
  exchange.what = TUTTI_ALL_GATHER;
  exchange.count = sizeof(Card);
  exchange.in = &own;
  exchange.out = cards.data();
  exchange.timeout_s = static_cast<double>(config_.init_timeout_ns()) / 1e9;
  Status exchanged = run(exchange);
  if (!exchanged.is_ok()) {
    // A peer may have the offset already and write there.
    if (color >= 0) abandoned_.push_back(parts.control);
    return std::move(exchanged).with_context("split of communicator \"" + name_ + "\"");
  }
  if (color < 0) return std::unique_ptr<Communicator>();

  std::vector<int> group;
  // Every member of the group sees the same cards, so all of them refuse.
  for (int r = 0; r < ranks(); ++r)
    if (cards[static_cast<std::size_t>(r)].color == color) group.push_back(r);
  std::stable_sort(group.begin(), group.end(), [&](int a, int b) {
    return cards[static_cast<std::size_t>(a)].key < cards[static_cast<std::size_t>(b)].key;
  });
  parts.id = hash_combine(hash_combine(id_, number + 1), static_cast<std::uint64_t>(color));
  parts.name =
      config && config->name ? config->name : name_ + ".split" + std::to_string(number) + "." + std::to_string(color);
  for (std::size_t i = 0; i < group.size(); ++i) {
    const int r = group[i];
    const Member& member = members_[static_cast<std::size_t>(r)];
    const Card& card = cards[static_cast<std::size_t>(r)];
    auto end = find_control_page(*member.link, card.control_offset, static_cast<int>(i), ranks());
    const Card& first = cards[static_cast<std::size_t>(group.front())];
    if (end.is_ok() && card.agreed != first.agreed)
      end = Status::error(TUTTI_MISMATCH,
                          "split of communicator \"" + name_ + "\": the settings of rank " + std::to_string(r) +
                              " differ from those of rank " + std::to_string(group.front()),
                          r)
                .with_remedy("the knobs marked agreed in docs/knobs.md must be equal on all ranks of a group");
    if (Status cost = compare_cost(first.cost, group.front(), card.cost, r); end.is_ok() && !cost.is_ok())
      end = std::move(cost).with_context("split of communicator \"" + name_ + "\"");
    if (!end.is_ok()) {
      abandoned_.push_back(parts.control);
      return end.status();
    }
    parts.ends.push_back(*end);
    parts.members.push_back({card.member_id, member.process, member.pid, member.cpus, member.link});
    if (r == rank_) parts.rank = static_cast<int>(i);
  }
  return std::make_unique<Communicator>(std::move(parts));
}

int count_cores(const std::vector<Member>& members) {
  int count = 0;
  for (std::size_t word = 0; word < CpuMask{}.size(); ++word) {
    std::uint64_t all = 0;
    for (const Member& member : members) all |= member.cpus[word];
    count += std::popcount(all);
  }
  return std::max(1, count);
}

Communicator::Communicator(CommunicatorParts parts)
    : process_(parts.process),
      config_(std::move(parts.config)),
      name_(std::move(parts.name)),
      id_(parts.id),
      rank_(parts.rank),
      members_(std::move(parts.members)),
      cores_(count_cores(members_)),
      control_block_(parts.control),
      control_(reinterpret_cast<ControlPage*>(parts.control.pointer)),
      channel_set_(std::make_unique<ChannelSet>(process_->endpoint(), process_->arena(), rank_, std::move(parts.ends),
                                                &process_->fifos())),
      channels_(*channel_set_),
      cost_table_(std::move(parts.cost)),
      selector_(ranks(), shared_memory_cost(cost_table_, ranks(), cores_),
                static_cast<Reproducible>(config_.reproducible_index())),
      plans_(Placement{rank_, ranks(), {}}),
      clock_(tick_clock()),
      policy_(WaitPolicy::make(config_.spin_us(), ranks(), cores_)),
      epoch_bits_(kFirstEpoch << 48),
      timeout_ticks_(clock_.from_ns(config_.timeout_ns())),
      compare_ticks_(clock_.from_ns(1'000'000)),
      fused_(rank_, ranks()) {
  policy_.short_slices = policy_.crowded && config_.short_slices();
  if (policy_.crowded) control_->sleeping.fetch_or(kCrowded, std::memory_order_relaxed);
  point_to_point_ =
      PointToPoint::make(channels_, epoch_bits_, config_.fifo_bytes(),
                         {[](void* self, Operation* operation, Status status) {
                            static_cast<Communicator*>(self)->finish_point_to_point(operation, std::move(status));
                          },
                          this});
  if (config_.recorder()) {
    recorder_ = process_->recorder().acquire(id_, name_, rank_, ranks());
  } else {
    private_recorder_ = std::make_unique<RecorderSlot>();
    recorder_ = private_recorder_.get();
  }
  process_->attach(this);
  // Whoever died before attach() was not reported to this communicator.
  for (const Member& member : members_)
    if (process_->watcher().is_lost(member.process)) process_lost(member.process, "connection closed");
  TUTTI_LOG(info, rank_, "communicator up", {"name", name_}, {"ranks", ranks()},
            {"link", std::string(selector_.cost().kind)});
}

Communicator::~Communicator() {
  process_->engine().deactivate(this);
  process_->detach(this);
  process_->operators().forget(*this);
  while (!try_drive()) sched_yield();  // a waiter on another thread leaves at its next look
  const Status ended = Status::error(TUTTI_ABORTED, "communicator \"" + name_ + "\" was destroyed by rank " +
                                                        std::to_string(rank_) + " before the operation finished");
  end_everything(ended);
  // Threads that waited inside find their operations done and leave.
  SendChannel::ring(*control_);
  while (inside_.load(std::memory_order_acquire) != 0 || issuing_.test_and_set(std::memory_order_acquire))
    sched_yield();
  say_goodbye();
  if (!private_recorder_) process_->recorder().release(recorder_);
  std::free(scratch_);
  point_to_point_.reset();
  abandoned_.insert(abandoned_.begin(), control_block_);
  process_->retire(std::make_unique<EndedCommunicator>(*process_, std::move(abandoned_), std::move(channel_set_),
                                                       std::move(members_)));
}

void Communicator::say_goodbye() {
  std::lock_guard lock(error_mutex_);
  if (gone_) return;
  gone_ = true;
  for (int r = 0; r < ranks(); ++r) {
    ControlPage& page = *channels_.peer(r).control;
    // A peer asleep looks again within a millisecond; after this store nothing of its memory is touched.
    page.left(rank_, ranks()).store(1, std::memory_order_release);
  }
}

void Communicator::leave_at_exit() {
  constexpr std::int64_t kPatienceNs = 1'000'000'000;  // a driver holds its token for far less
  hook_.store(nullptr, std::memory_order_release);
  const std::int64_t give_up = monotonic_ns() + kPatienceNs;
  bool driving = try_drive();
  for (; !driving && monotonic_ns() < give_up; driving = try_drive()) sched_yield();
  if (driving) {
    {
      std::lock_guard lock(error_mutex_);
      if (error_.is_ok())
        error_ = Status::error(TUTTI_ABORTED,
                               "rank " + std::to_string(rank_) + " of communicator \"" + name_ + "\" is exiting");
      failed_.store(true, std::memory_order_release);
    }
    end_everything(status());
  }
  say_goodbye();
  if (driving) stop_driving();
}

std::string Communicator::explain(tutti_collective what, std::uint64_t bytes) {
  const std::string_view forced = forced_row(config_, what);
  std::string text = selector_.explain(what, bytes, forced);
  // How the row would be run: the very numbers of a call of that size.
  Call call;
  call.what = what;
  call.peer = is_rooted(what) ? 0 : -1;
  call.count = has_blocks(what) ? bytes / static_cast<std::uint64_t>(ranks()) : bytes;
  const std::vector<std::uint64_t> equal(static_cast<std::size_t>(ranks()), call.count);
  if (is_variable(what)) {
    call.blocks.counts = call.received.counts = equal.data();
    call.count = total_count(call.blocks, ranks());
  }
  while (!try_drive()) sched_yield();  // plans and scratch belong to the driver, who never blocks
  CallEntry entry;
  if (!current_ && fill_entry(entry, call).is_ok())
    text += "  lanes " + std::to_string(entry.bindings.streams) + ", slices " + std::to_string(entry.bindings.slices) +
            " of at most " + std::to_string(entry.bindings.slice) + " bytes of a chunk\n";
  stop_driving();
  return text;
}

void Communicator::set_event_hook(void (*hook)(const tutti_event*, void*), void* argument) {
  // Whoever drives reads the two one after the other.
  while (!try_drive()) sched_yield();
  hook_argument_.store(argument, std::memory_order_release);
  hook_.store(hook, std::memory_order_release);
  stop_driving();
}

}  // namespace tutti::core
