// RequestMemory: the host's memory that requests may take while they are read, and for the inputs of towers until the
// answer has ended. It is one part of the budget, reserved before the server listens: so requests of strangers keep
// within --memory, and never wait for what the engine would have to forget first. What a connection holds, such as the
// text of a request, is counted by the HTTP server.
//
// Several threads may use it. It outlives its leases.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/budget.h"
#include "base/result.h"
#include "engine/plan/tower_room.h"

namespace sluice {

// Of the inputs and rows of the largest picture or sound.
uint64_t largest_input_bytes(std::span<const TowerRoom> towers);
// What requests may take where the host's memory is bounded by `bound` bytes: a sixteenth of it or less. With pictures,
// of which the largest has inputs of `input_bytes`, an eighth or less.
uint64_t text_request_bytes(uint64_t bound);
uint64_t media_request_bytes(uint64_t bound, uint64_t input_bytes);
// What the connections of the HTTP server may hold there: a sixteenth or less.
uint64_t connection_memory_bytes(uint64_t bound);

class RequestMemory {
 public:
  // Half of what the budget has left where it has no room for `bytes`.
  RequestMemory(Budget& budget, uint64_t bytes);
  // Before its first lease.
  void grow(uint64_t bytes);

  uint64_t bytes() const { return whole_.bytes(); }
  uint64_t used() const { return parts_.used(Domain::host); }

 private:
  friend class MemoryLease;
  Budget* budget_;
  Reservation whole_;
  Budget parts_;
};

// What one request holds. It is returned on destruction.
class MemoryLease {
 public:
  MemoryLease() = default;                                          // counts nothing
  explicit MemoryLease(RequestMemory* memory) : memory_(memory) {}  // null: likewise

  // Before memory is allocated, or after it was freed. More than requests may ever take is unsupported; what others
  // hold now is out_of_memory. Errors begin with `where`, and then nothing has changed.
  Status resize(uint64_t bytes, const std::string& where);
  uint64_t bytes() const { return held_.bytes(); }

 private:
  RequestMemory* memory_ = nullptr;
  Reservation held_;
};

}  // namespace sluice
