#include "base/budget.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/mutex.h"

namespace sluice {

struct Budget::State {
  mutable Mutex mutex;
  struct Account {
    uint64_t limit = UINT64_MAX;
    bool counts_mapped = false;
    std::array<uint64_t, kPurposes> held{}, peaks{};
  };
  std::map<Domain, Account> accounts;  // of every domain that was named in a call

  // The caller of these functions holds the mutex.
  const Account& account(Domain domain) const;
  bool counts(Domain domain, Purpose purpose) const {
    return purpose != Purpose::mapped_weights || account(domain).counts_mapped;
  }
  uint64_t limit(Domain domain) const { return account(domain).limit; }
  uint64_t used(Domain domain) const;
  uint64_t left(Domain domain) const { return limit(domain) - std::min(limit(domain), used(domain)); }
  std::string holders(Domain domain) const;
  std::string shortage(Domain domain) const;  // the beginning of the error, without the wanted bytes
  Status take(Domain domain, Purpose purpose, uint64_t bytes);
};

const Budget::State::Account& Budget::State::account(Domain domain) const {
  static const Account none;
  const auto found = accounts.find(domain);
  return found == accounts.end() ? none : found->second;
}

uint64_t Budget::State::used(Domain domain) const {
  uint64_t sum = 0;
  for (size_t i = 0; i < kPurposes; ++i)
    if (counts(domain, static_cast<Purpose>(i))) sum += account(domain).held[i];
  return sum;
}

std::string Budget::State::holders(Domain domain) const {
  std::string text;
  for (int i = 0; i < kPurposes; ++i) {
    const uint64_t bytes = account(domain).held[static_cast<size_t>(i)];
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
  uint64_t& line = accounts[domain].held[static_cast<size_t>(purpose)];
  uint64_t& peak = accounts[domain].peaks[static_cast<size_t>(purpose)];
  line += bytes;
  peak = std::max(peak, line);
  return {};
}

std::string domain_name(Domain domain) {
  static constexpr const char* kNames[] = {"host", "pinned", "device", "wasm heap", "disk"};
  const char* kind = kNames[static_cast<size_t>(domain.kind())];
  return domain.number() == 0 ? kind : cat(kind, " ", domain.number());
}

const char* purpose_name(Purpose purpose) {
  static constexpr const char* kNames[kPurposes] = {"weights",     "mapped weights", "packed weights",
                                                    "adapters",    "state",          "snapshots",
                                                    "activations", "staging",        "reserve"};
  return kNames[static_cast<size_t>(purpose)];
}

Budget::Budget() : state_(std::make_shared<State>()) {}

void Budget::set_limit(Domain domain, uint64_t bytes) {
  const MutexLock lock(state_->mutex);
  state_->accounts[domain].limit = bytes;
}

void Budget::count_mapped(Domain domain, bool counted) {
  const MutexLock lock(state_->mutex);
  state_->accounts[domain].counts_mapped = counted;
}

void Budget::set_reserve(Domain domain, uint64_t bytes) {
  const MutexLock lock(state_->mutex);
  const auto line = static_cast<size_t>(Purpose::reserve);
  State::Account& account = state_->accounts[domain];
  uint64_t& peak = account.peaks[line];
  account.held[line] = bytes;
  peak = std::max(peak, bytes);
}

Result<Reservation> Budget::reserve(Domain domain, Purpose purpose, uint64_t bytes) {
  const MutexLock lock(state_->mutex);
  TRY_STATUS(state_->take(domain, purpose, bytes));
  return Reservation(state_, domain, purpose, bytes);
}

Status Budget::has_room(const std::vector<MemoryLine>& wanted) const {
  const MutexLock lock(state_->mutex);
  std::map<Domain, uint64_t> sums;
  for (const MemoryLine& line : wanted)
    if (state_->counts(line.domain, line.purpose)) sums[line.domain] += line.bytes;
  for (const auto& [domain, sum] : sums) {
    if (sum <= state_->left(domain)) continue;
    std::string parts;
    for (const MemoryLine& line : wanted) {
      if (line.domain != domain || line.bytes == 0 || !state_->counts(domain, line.purpose)) continue;
      parts += cat(parts.empty() ? "" : ", ", format_bytes(line.bytes), " for ", purpose_name(line.purpose));
    }
    const bool several = parts.find(',') != std::string::npos;
    return error(ErrorKind::out_of_memory, state_->shortage(domain), several ? format_bytes(sum) + ", of it " : "",
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
  for (const auto& [domain, account] : state_->accounts)
    for (size_t p = 0; p < kPurposes; ++p)
      if (account.peaks[p] > 0) lines.push_back({domain, static_cast<Purpose>(p), account.held[p], account.peaks[p]});
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
    state_->accounts[domain_].held[static_cast<size_t>(purpose_)] -= bytes_ - bytes;
  bytes_ = bytes;
  return {};
}

void Reservation::release() {
  if (state_ == nullptr) return;
  const MutexLock lock(state_->mutex);
  state_->accounts[domain_].held[static_cast<size_t>(purpose_)] -= std::exchange(bytes_, 0);
}

}  // namespace sluice
