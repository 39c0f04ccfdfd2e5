// The memory budget. Every large piece of memory is reserved here before it is allocated. So --memory holds, and a
// model that does not fit fails at load with a list of all reservations.
//
// A Budget belongs to the process; devices and engines share it. It counts and does not allocate. Pages of mapped files
// belong to the system's page cache. They are listed, but count against the limit only on request, because the system
// may drop them and read them again. Several threads may use a Budget.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace sluice {

// The place of memory: a kind, and for devices the device's number.
class Domain {
 public:
  enum class Kind : uint8_t { host, pinned, device, wasm_heap, disk };

  constexpr Domain() = default;  // host
  static const Domain host, pinned, wasm_heap, disk;
  // The memory of device `number`, the first being 0.
  static constexpr Domain device(uint32_t number = 0) { return {Kind::device, number}; }

  constexpr Kind kind() const { return kind_; }
  constexpr uint32_t number() const { return number_; }  // the device's number; 0 for other kinds
  constexpr auto operator<=>(const Domain&) const = default;

 private:
  constexpr Domain(Kind kind, uint32_t number) : kind_(kind), number_(number) {}

  Kind kind_ = Kind::host;
  uint32_t number_ = 0;
};
inline constexpr Domain Domain::host{Kind::host, 0};
inline constexpr Domain Domain::pinned{Kind::pinned, 0};
inline constexpr Domain Domain::wasm_heap{Kind::wasm_heap, 0};
inline constexpr Domain Domain::disk{Kind::disk, 0};
// "host", "wasm heap"; "device" for device 0, "device 1" for device 1.
std::string domain_name(Domain domain);

enum class Purpose : uint8_t {
  weights,
  mapped_weights,  // weights that steps read directly in the mapped file
  packed_weights,
  adapters,
  state,
  snapshots,
  activations,
  staging,
  reserve,  // memory that is not reserved here: the program, its libraries, small allocations
};
inline constexpr int kPurposes = 9;
const char* purpose_name(Purpose purpose);

struct MemoryLine {
  Domain domain{};
  Purpose purpose{};
  uint64_t bytes = 0;
};

struct BudgetLine {
  Domain domain{};
  Purpose purpose{};
  uint64_t bytes = 0;
  uint64_t peak = 0;  // the largest value of this line so far
};

class Reservation;

class Budget {
 public:
  Budget();

  // A domain without a limit is only counted. A limit below the bytes that are held stops further reservations.
  void set_limit(Domain domain, uint64_t bytes);
  // Sets whether mapped weights count against the limit. By default they do not.
  void count_mapped(Domain domain, bool counted);
  // Sets the size of the reserve. This cannot fail, because the reserve is memory in use already.
  void set_reserve(Domain domain, uint64_t bytes);
  // Fails with out_of_memory and one sentence: the wanted bytes, the bytes left, and the bytes of each purpose.
  Result<Reservation> reserve(Domain domain, Purpose purpose, uint64_t bytes);
  // Checks, without reserving, whether there is room for all of `wanted`. The error lists every line of the full
  // domain.
  Status has_room(const std::vector<MemoryLine>& wanted) const;

  uint64_t used(Domain domain) const;     // bytes that count
  uint64_t left(Domain domain) const;     // UINT64_MAX without a limit
  std::vector<BudgetLine> lines() const;  // all lines that ever held something
  std::string table() const;              // lines() as text, one a line
  struct State;

 private:
  std::shared_ptr<State> state_;
};

// Reserved bytes, returned on destruction. It may outlive its Budget.
class Reservation {
 public:
  Reservation() = default;  // holds nothing
  Reservation(Reservation&& other) noexcept
      : state_(std::move(other.state_)),
        domain_(other.domain_),
        purpose_(other.purpose_),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { release(); }

  uint64_t bytes() const { return bytes_; }
  // Grows or shrinks. If growing fails, nothing has changed.
  Status resize(uint64_t bytes);
  void release();

 private:
  friend class Budget;
  Reservation(std::shared_ptr<Budget::State> state, Domain domain, Purpose purpose, uint64_t bytes)
      : state_(std::move(state)), domain_(domain), purpose_(purpose), bytes_(bytes) {}

  std::shared_ptr<Budget::State> state_;
  Domain domain_{};
  Purpose purpose_{};
  uint64_t bytes_ = 0;
};

}  // namespace sluice
