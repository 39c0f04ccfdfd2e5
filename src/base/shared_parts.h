// Work that must be done before a loop's pieces can end, shared among the threads that compute these pieces.
//
// The work is divided into parts, each an index. A thread that begins a piece takes parts until none is left. It then
// computes its piece. Before it uses what the parts have computed, it waits for the parts that other threads have
// taken.
//
// The source file has the atomics. A page's module has atomic instructions in a few source files only (CMakeLists.txt).
#pragma once

#include <cstddef>
#include <memory>

namespace sluice {

class SharedParts {
 public:
  SharedParts();
  ~SharedParts();
  SharedParts(const SharedParts&) = delete;
  SharedParts& operator=(const SharedParts&) = delete;

  // Offers the parts [0, count), none of them taken. Call it while no thread takes or waits.
  void offer(size_t count);

  // Calls body(part) for parts that nobody has taken yet, until there are none.
  template <class Body>
  void take(const Body& body) {
    for (size_t part = 0; next(part); end()) body(part);
  }

  // Returns when all parts are computed. Fails a CHECK if a thread that has taken one has died.
  void wait();

 private:
  struct State;

  bool next(size_t& part);  // false: none is left
  void end();               // of a part that next() gave

  std::unique_ptr<State> state_;
};

}  // namespace sluice
