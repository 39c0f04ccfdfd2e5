#include "base/budget.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/mutex.h"

namespace sluice {

struct Budget::State {
  mutable Mutex mutex;
  std::array<std::optional<uint64_t>, kDomains> limits;
  std::array<std::array<uint64_t, kPurposes>, kDomains> held{};
  std::array<std::array<uint64_t, kPurposes>, kDomains> peaks{};

  // All of these are called with the mutex held.
  uint64_t used(Domain domain) const;
  std::string holders(Domain domain) const;
  Status take(Domain domain, Purpose purpose, uint64_t bytes);
};

uint64_t Budget::State::used(Domain domain) const {
  uint64_t sum = 0;
  for (const uint64_t bytes : held[static_cast<size_t>(domain)]) sum += bytes;
  return sum;
}

std::string Budget::State::holders(Domain domain) const {
  std::string text;
  for (int i = 0; i < kPurposes; ++i) {
    const uint64_t bytes = held[static_cast<size_t>(domain)][static_cast<size_t>(i)];
    if (bytes == 0) continue;
    text += cat(text.empty() ? "" : ", ", purpose_name(static_cast<Purpose>(i)), " ", format_bytes(bytes));
  }
  return text.empty() ? "nothing held" : text;
}

Status Budget::State::take(Domain domain, Purpose purpose, uint64_t bytes) {
  const uint64_t before = used(domain);
  const uint64_t limit = limits[static_cast<size_t>(domain)].value_or(SIZE_MAX);
  const uint64_t left = limit - std::min(limit, before);
  if (bytes > left) {
    return error(ErrorKind::out_of_memory, domain_name(domain), " memory: ", format_bytes(left), " left of ",
                 format_bytes(limit), " (", holders(domain), "): want ", format_bytes(bytes), " for ",
                 purpose_name(purpose));
  }
  uint64_t& line = held[static_cast<size_t>(domain)][static_cast<size_t>(purpose)];
  uint64_t& peak = peaks[static_cast<size_t>(domain)][static_cast<size_t>(purpose)];
  line += bytes;
  peak = std::max(peak, line);
  return {};
}

const char* domain_name(Domain domain) {
  static constexpr const char* kNames[kDomains] = {"host", "pinned", "device", "wasm heap", "disk"};
  return kNames[static_cast<size_t>(domain)];
}

const char* purpose_name(Purpose purpose) {
  static constexpr const char* kNames[kPurposes] = {"weights",     "packed weights", "state",  "snapshots",
                                                    "activations", "staging",        "reserve"};
  return kNames[static_cast<size_t>(purpose)];
}

Budget::Budget() : state_(std::make_shared<State>()) {}

void Budget::set_limit(Domain domain, uint64_t bytes) {
  const MutexLock lock(state_->mutex);
  state_->limits[static_cast<size_t>(domain)] = bytes;
}

Result<Reservation> Budget::reserve(Domain domain, Purpose purpose, uint64_t bytes) {
  const MutexLock lock(state_->mutex);
  TRY_STATUS(state_->take(domain, purpose, bytes));
  return Reservation(state_, domain, purpose, bytes);
}

uint64_t Budget::used(Domain domain) const {
  const MutexLock lock(state_->mutex);
  return state_->used(domain);
}

std::vector<BudgetLine> Budget::lines() const {
  const MutexLock lock(state_->mutex);
  std::vector<BudgetLine> lines;
  for (size_t d = 0; d < kDomains; ++d) {
    for (size_t p = 0; p < kPurposes; ++p) {
      if (state_->peaks[d][p] == 0) continue;
      lines.push_back({static_cast<Domain>(d), static_cast<Purpose>(p), state_->held[d][p], state_->peaks[d][p]});
    }
  }
  return lines;
}

std::string Budget::table() const {
  std::string text;
  for (const BudgetLine& line : lines()) {
    text += cat(domain_name(line.domain), " ", purpose_name(line.purpose), ": ", format_bytes(line.bytes), ", at most ",
                format_bytes(line.peak), "\n");
  }
  return text;
}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  release();
  state_ = std::move(other.state_);
  domain_ = other.domain_;
  purpose_ = other.purpose_;
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

Status Reservation::resize(uint64_t bytes) {
  CHECK(state_ != nullptr);
  const MutexLock lock(state_->mutex);
  if (bytes > bytes_) {
    TRY_STATUS(state_->take(domain_, purpose_, bytes - bytes_));
  } else {
    state_->held[static_cast<size_t>(domain_)][static_cast<size_t>(purpose_)] -= bytes_ - bytes;
  }
  bytes_ = bytes;
  return {};
}

void Reservation::release() {
  if (state_ == nullptr) return;
  const MutexLock lock(state_->mutex);
  state_->held[static_cast<size_t>(domain_)][static_cast<size_t>(purpose_)] -= std::exchange(bytes_, 0);
}

}  // namespace sluice
