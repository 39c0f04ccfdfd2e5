#include "base/budget.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/mutex.h"

namespace sluice {

struct Budget::State {
  mutable Mutex mutex;
  std::array<std::optional<uint64_t>, kDomains> limits;
  std::array<bool, kDomains> counts_mapped{};
  std::array<std::array<uint64_t, kPurposes>, kDomains> held{};
  std::array<std::array<uint64_t, kPurposes>, kDomains> peaks{};

  // All of these are called with the mutex held.
  bool counts(Domain domain, Purpose purpose) const {
    return purpose != Purpose::mapped_weights || counts_mapped[static_cast<size_t>(domain)];
  }
  uint64_t limit(Domain domain) const { return limits[static_cast<size_t>(domain)].value_or(UINT64_MAX); }
  uint64_t used(Domain domain) const;
  uint64_t left(Domain domain) const { return limit(domain) - std::min(limit(domain), used(domain)); }
  std::string holders(Domain domain) const;
  std::string shortage(Domain domain) const;  // the sentence up to what was wanted
  Status take(Domain domain, Purpose purpose, uint64_t bytes);
};

uint64_t Budget::State::used(Domain domain) const {
  uint64_t sum = 0;
  for (size_t i = 0; i < kPurposes; ++i)
    if (counts(domain, static_cast<Purpose>(i))) sum += held[static_cast<size_t>(domain)][i];
  return sum;
}

std::string Budget::State::holders(Domain domain) const {
  std::string text;
  for (int i = 0; i < kPurposes; ++i) {
    const uint64_t bytes = held[static_cast<size_t>(domain)][static_cast<size_t>(i)];
    if (bytes == 0 || !counts(domain, static_cast<Purpose>(i))) continue;
    text += cat(text.empty() ? "" : ", ", purpose_name(static_cast<Purpose>(i)), " ", format_bytes(bytes));
  }
  return text.empty() ? "nothing held" : text;
}

std::string Budget::State::shortage(Domain domain) const {
  return cat(domain_name(domain), " memory: ", format_bytes(left(domain)), " left of ", format_bytes(limit(domain)),
             " (", holders(domain), "): want ");
}

Status Budget::State::take(Domain domain, Purpose purpose, uint64_t bytes) {
  if (counts(domain, purpose) && bytes > left(domain))
    return error(ErrorKind::out_of_memory, shortage(domain), format_bytes(bytes), " for ", purpose_name(purpose));
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
  static constexpr const char* kNames[kPurposes] = {"weights",   "mapped weights", "packed weights", "state",
                                                    "snapshots", "activations",    "staging",        "reserve"};
  return kNames[static_cast<size_t>(purpose)];
}

Budget::Budget() : state_(std::make_shared<State>()) {}

void Budget::set_limit(Domain domain, uint64_t bytes) {
  const MutexLock lock(state_->mutex);
  state_->limits[static_cast<size_t>(domain)] = bytes;
}

void Budget::count_mapped(Domain domain, bool counted) {
  const MutexLock lock(state_->mutex);
  state_->counts_mapped[static_cast<size_t>(domain)] = counted;
}

void Budget::set_reserve(Domain domain, uint64_t bytes) {
  const MutexLock lock(state_->mutex);
  const auto line = static_cast<size_t>(Purpose::reserve);
  uint64_t& peak = state_->peaks[static_cast<size_t>(domain)][line];
  state_->held[static_cast<size_t>(domain)][line] = bytes;
  peak = std::max(peak, bytes);
}

Result<Reservation> Budget::reserve(Domain domain, Purpose purpose, uint64_t bytes) {
  const MutexLock lock(state_->mutex);
  TRY_STATUS(state_->take(domain, purpose, bytes));
  return Reservation(state_, domain, purpose, bytes);
}

Status Budget::has_room(const std::vector<MemoryLine>& wanted) const {
  const MutexLock lock(state_->mutex);
  std::array<uint64_t, kDomains> sums{};
  for (const MemoryLine& line : wanted)
    if (state_->counts(line.domain, line.purpose)) sums[static_cast<size_t>(line.domain)] += line.bytes;
  for (size_t d = 0; d < kDomains; ++d) {
    const auto domain = static_cast<Domain>(d);
    if (sums[d] <= state_->left(domain)) continue;
    std::string parts;
    for (const MemoryLine& line : wanted) {
      if (line.domain != domain || line.bytes == 0 || !state_->counts(domain, line.purpose)) continue;
      parts += cat(parts.empty() ? "" : ", ", format_bytes(line.bytes), " for ", purpose_name(line.purpose));
    }
    const bool several = parts.find(',') != std::string::npos;
    return error(ErrorKind::out_of_memory, state_->shortage(domain), several ? format_bytes(sums[d]) + ", of it " : "",
                 parts);
  }
  return {};
}

uint64_t Budget::left(Domain domain) const {
  const MutexLock lock(state_->mutex);
  return state_->left(domain);
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
  if (bytes > bytes_)
    TRY_STATUS(state_->take(domain_, purpose_, bytes - bytes_));
  else
    state_->held[static_cast<size_t>(domain_)][static_cast<size_t>(purpose_)] -= bytes_ - bytes;
  bytes_ = bytes;
  return {};
}

void Reservation::release() {
  if (state_ == nullptr) return;
  const MutexLock lock(state_->mutex);
  state_->held[static_cast<size_t>(domain_)][static_cast<size_t>(purpose_)] -= std::exchange(bytes_, 0);
}

}  // namespace sluice
