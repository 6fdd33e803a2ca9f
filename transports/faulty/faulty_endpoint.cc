// SPDX-License-Identifier: Apache-2.0
#include "transports/faulty/faulty_endpoint.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::core {
namespace {

/// What links and endpoint count together. Links may outlive the endpoint.
struct Progress {
  FaultPlan plan;
  std::atomic<std::int64_t> polls{0};
  std::int64_t sends = 0;                                          // post and poll come from one thread at a time
  std::vector<Completion> swallowed;                               // of dropped sends
  std::optional<std::pair<std::uint64_t, std::size_t>> truncated;  // token and whole length of the one under way
};

class FaultyLink final : public Link {
 public:
  FaultyLink(std::shared_ptr<Link> inner, std::shared_ptr<Progress> progress)
      : inner_(std::move(inner)),
        progress_(std::move(progress)),
        ready_at_(progress_->polls.load(std::memory_order_relaxed) + progress_->plan.ready_after_polls) {}

  LinkState state() const override {
    const LinkState state = inner_->state();
    return state == LinkState::ready && !is_due() ? LinkState::connecting : state;
  }
  Status status() const override { return inner_->status(); }
  /// Null before it is ready, so that code which does not wait is found out.
  const MappedView* mapped() const override { return is_due() ? inner_->mapped() : nullptr; }

  Status post_send(int lane, std::uint64_t token, const void* data, std::size_t bytes) override {
    if (inner_->state() == LinkState::failed) return inner_->status();
    const std::int64_t number = progress_->sends++;
    if (number == progress_->plan.drop_send) {
      progress_->swallowed.push_back({token, bytes, {}});
      return {};
    }
    if (number == progress_->plan.truncate_send) {
      progress_->truncated = {token, bytes};
      bytes = std::min(bytes, progress_->plan.truncate_to);
    }
    return inner_->post_send(lane, token, data, bytes);
  }
  Status post_recv(int lane, std::uint64_t token, void* data, std::size_t capacity) override {
    return inner_->post_recv(lane, token, data, capacity);
  }
  void abort(Status reason) override { inner_->abort(std::move(reason)); }

  const Link* inner() const { return inner_.get(); }

 private:
  bool is_due() const { return progress_->polls.load(std::memory_order_relaxed) >= ready_at_; }

  const std::shared_ptr<Link> inner_;
  const std::shared_ptr<Progress> progress_;
  const std::int64_t ready_at_;
};

class FaultyEndpoint final : public Endpoint {
 public:
  FaultyEndpoint(std::unique_ptr<Endpoint> inner, const FaultPlan& plan)
      : inner_(std::move(inner)), progress_(std::make_shared<Progress>()) {
    progress_->plan = plan;
  }

  std::string_view name() const override { return "faulty"; }
  Capabilities capabilities() const override { return inner_->capabilities(); }
  PeerAddress address() const override { return inner_->address(); }
  bool reaches(std::string_view address_bytes) const override { return inner_->reaches(address_bytes); }

  Result<std::shared_ptr<Link>> connect(PeerAddress peer) override {
    auto inner = inner_->connect(std::move(peer));  // takes the descriptors, also where we fail
    const std::lock_guard lock(mutex_);
    if (connects_++ < progress_->plan.fail_connects)
      return Status::error(TUTTI_UNAVAILABLE, "faulty: connect fails as planned");
    TUTTI_TRY(link, std::move(inner));
    links_.erase(std::remove_if(links_.begin(), links_.end(), [](const auto& weak) { return weak.expired(); }),
                 links_.end());
    for (const std::weak_ptr<FaultyLink>& weak : links_)
      if (const auto known = weak.lock(); known && known->inner() == link.get()) return std::shared_ptr<Link>(known);
    const auto faulty = std::make_shared<FaultyLink>(std::move(link), progress_);
    links_.push_back(faulty);
    return std::shared_ptr<Link>(faulty);
  }

  Status poll(std::vector<Completion>& completions) override {
    const std::int64_t now = progress_->polls.fetch_add(1, std::memory_order_relaxed) + 1;
    const FaultPlan& plan = progress_->plan;
    if (now == plan.abort_after_polls) abort_all();
    std::vector<Completion> fresh = std::exchange(progress_->swallowed, {});
    TUTTI_TRY(inner_->poll(fresh));
    for (Completion& completion : fresh) {
      if (progress_->truncated && completion.token == progress_->truncated->first) {
        completion.bytes = progress_->truncated->second;
        progress_->truncated.reset();
      }
      held_.push_back({now + plan.hold_completions, std::move(completion)});
    }
    for (; !held_.empty() && held_.front().due <= now; held_.pop_front())
      completions.push_back(std::move(held_.front().completion));
    return {};
  }

  Result<SharedBlock> allocate(std::size_t bytes) override {
    if (progress_->plan.refuse_allocate)
      return Status::error(TUTTI_UNAVAILABLE,
                           "faulty: allocating " + std::to_string(bytes) + " bytes fails as planned");
    return inner_->allocate(bytes);
  }
  void release(const SharedBlock& block) override { inner_->release(block); }

 private:
  struct Held {
    std::int64_t due;
    Completion completion;
  };

  void abort_all() {
    const std::lock_guard lock(mutex_);
    for (const std::weak_ptr<FaultyLink>& weak : links_)
      if (const auto link = weak.lock())
        link->abort(Status::error(TUTTI_PEER_LOST, "faulty: the link breaks as planned"));
  }

  const std::unique_ptr<Endpoint> inner_;
  const std::shared_ptr<Progress> progress_;
  std::deque<Held> held_;
  std::mutex mutex_;  // both below
  int connects_ = 0;
  std::vector<std::weak_ptr<FaultyLink>> links_;
};

}  // namespace

std::unique_ptr<Endpoint> make_faulty_endpoint(std::unique_ptr<Endpoint> inner, const FaultPlan& plan) {
  return std::make_unique<FaultyEndpoint>(std::move(inner), plan);
}

}  // namespace tutti::core
