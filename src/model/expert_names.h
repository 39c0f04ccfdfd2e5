// Tensor names in which '*' stands for an expert's number: such a checkpoint has one tensor for each expert.
#pragma once

#include <cstdint>
#include <string>

#include "base/text.h"

namespace sluice {

inline bool is_of_each_expert(const std::string& name) { return name.find('*') != std::string::npos; }

// The name with the expert's number in place of '*'; the name itself if one tensor holds all experts.
inline std::string name_of_expert(const std::string& name, uint32_t expert) {
  const size_t star = name.find('*');
  return star == std::string::npos ? name : cat(name.substr(0, star), expert, name.substr(star + 1));
}

}  // namespace sluice
