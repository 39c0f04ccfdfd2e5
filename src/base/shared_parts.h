// Parts of some work that threads take from each other's hands while they run a loop of their pool.
//
// A part is one index. A loop's pieces need what the parts compute; so each thread takes parts until none is left, goes
// on with its piece, and then waits only for parts that other threads are at.
//
// The atomics are in the source file, because a page's module has atomic instructions only where threads meet
// (CMakeLists.txt).
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
