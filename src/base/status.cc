// SPDX-License-Identifier: Apache-2.0
#include "src/base/status.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tutti::core {

namespace {
const std::string kEmpty;
}  // namespace

Status Status::error(tutti_code code, std::string message, int failing_rank) {
  Status status;
  status.detail_ = std::make_shared<Detail>(Detail{code, failing_rank, std::move(message), {}});
  return status;
}

Status Status::from_errno(int errno_value, std::string message, tutti_code code) {
  return error(code, std::move(message) + ": " + std::strerror(errno_value));
}

const std::string& Status::message() const { return detail_ ? detail_->message : kEmpty; }
const std::string& Status::remedy() const { return detail_ ? detail_->remedy : kEmpty; }

// Details are shared between copies, so changes are made on a copy.
Status Status::with_remedy(std::string remedy) && {
  if (!detail_) return std::move(*this);
  detail_ = std::make_shared<Detail>(*detail_);
  detail_->remedy = std::move(remedy);
  return std::move(*this);
}

Status Status::with_rank(int rank) && {
  if (!detail_) return std::move(*this);
  detail_ = std::make_shared<Detail>(*detail_);
  detail_->failing_rank = rank;
  return std::move(*this);
}

Status Status::with_context(const std::string& context) && {
  if (!detail_) return std::move(*this);
  detail_ = std::make_shared<Detail>(*detail_);
  detail_->message = context + ": " + detail_->message;
  return std::move(*this);
}

std::string Status::to_string() const {
  if (!detail_) return "ok";
  std::string text = std::string(code_name(detail_->code)) + ": " + detail_->message;
  if (!detail_->remedy.empty()) text += " (" + detail_->remedy + ")";
  return text;
}

const char* code_name(tutti_code code) {
  switch (code) {
    case TUTTI_OK: return "ok";
    case TUTTI_INVALID_ARGUMENT: return "invalid_argument";
    case TUTTI_UNSUPPORTED: return "unsupported";
    case TUTTI_UNAVAILABLE: return "unavailable";
    case TUTTI_PEER_LOST: return "peer_lost";
    case TUTTI_TIMEOUT: return "timeout";
    case TUTTI_ABORTED: return "aborted";
    case TUTTI_MISMATCH: return "mismatch";
    case TUTTI_INTERNAL: return "internal";
    case TUTTI_IN_PROGRESS: return "in_progress";
  }
  return "unknown";
}

void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "tutti: broken invariant %s at %s:%d; please report this\n", expression, file, line);
  std::abort();
}

}  // namespace tutti::core
