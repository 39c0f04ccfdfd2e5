// While an object of this type lives, everything written to standard error is held back. Dawn, the Vulkan loader and
// drivers print there even if they succeed, and errors are reported by Sluice itself. No code of Sluice may print
// meanwhile.
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
