// Keeps what others write to standard error while it lives: Dawn, the Vulkan loader and drivers print what they try,
// also where all is well, and our own sentence is the one that counts. Nothing of ours may print meanwhile.
#pragma once

#include <string>

namespace sluice {

class HeldErrors {
 public:
  HeldErrors();
  ~HeldErrors() { release(); }
  HeldErrors(const HeldErrors&) = delete;
  HeldErrors& operator=(const HeldErrors&) = delete;

  // Ends the keeping, and gives what was written; "" where the system lent no place for it.
  std::string release();

 private:
  int kept_ = -1;    // a file in memory that stands in for standard error
  int errors_ = -1;  // standard error as it was
};

}  // namespace sluice
