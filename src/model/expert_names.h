// Names in which '*' stands for an expert's number. Each expert then is a tensor of its own.
#pragma once

#include <cstdint>
#include <string>

#include "base/text.h"

namespace sluice {

inline bool is_of_each_expert(const std::string& name) { return name.find('*') != std::string::npos; }

// The name itself, if all experts are one tensor.
inline std::string name_of_expert(const std::string& name, uint32_t expert) {
  const size_t star = name.find('*');
  return star == std::string::npos ? name : cat(name.substr(0, star), expert, name.substr(star + 1));
}

}  // namespace sluice
