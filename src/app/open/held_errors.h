// Holds back everything written to standard error while it lives. Dawn, the Vulkan loader and drivers print what they
// try, even if all is well; our own sentence is the one that counts. Our own code must not print meanwhile.
#pragma once

#include <string>

namespace sluice {

class HeldErrors {
 public:
  HeldErrors();
  ~HeldErrors() { release(); }
  HeldErrors(const HeldErrors&) = delete;
  HeldErrors& operator=(const HeldErrors&) = delete;

  // Ends the holding and returns the text; "" if the system gave no place for it.
  std::string release();

 private:
  int kept_ = -1;    // a file in memory that stands in for standard error
  int errors_ = -1;  // standard error as it was
};

}  // namespace sluice
