// Schemas of JSON Schema as documents: references, the meaning of two at once, and whether two exclude each other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace sluice {

// A set of types. A whole number is an integer and a number.
enum SchemaType : uint8_t {
  kTypeNull = 1,
  kTypeBoolean = 2,
  kTypeInteger = 4,
  kTypeNumber = 8,  // numbers that are not integers
  kTypeString = 16,
  kTypeArray = 32,
  kTypeObject = 64,
  kTypeAny = 127,
};

// Keywords that say something of valid instances, other than references and combinations: those that a grammar keeps
// to, and those that none can.
bool is_supported(std::string_view keyword);
bool is_refused(std::string_view keyword);
inline bool is_assertion(std::string_view keyword) { return is_supported(keyword) || is_refused(keyword); }

class SchemaTerms {
 public:
  explicit SchemaTerms(const Json& root) : root_(&root) {}

  // The schema that "#/..." names. `path`: where the reference stands.
  Result<const Json*> resolve(const std::string& reference, std::string_view path) const;
  // The types that `type` allows.
  static Result<uint8_t> types(const Json& schema, std::string_view path);
  // A schema whose instances are valid by both. Fails where no single schema of the known keywords says so.
  Result<Json> both(const Json& a, const Json& b, const std::string& path);
  // True only if no instance is valid by both.
  bool exclude(const Json& a, const Json& b, int depth = 0) const;

 private:
  Result<Json> both_objects(const Json& a, const Json& b, const std::string& path);
  Result<Json> both_values(const std::string& keyword, const Json& a, const Json& b, const std::string& path);
  const Json* target(const Json* schema) const;

  const Json* root_;
  uint64_t merges_ = 0;
};

}  // namespace sluice
