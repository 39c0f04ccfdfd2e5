#include "text/grammar/schema_terms.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "text/grammar/grammar.h"

namespace sluice {
namespace {

constexpr uint64_t kMaxMerges = 10'000;
constexpr int kMaxExcludeDepth = 4;
constexpr int kMaxReferences = 64;  // one after another

constexpr std::array<std::string_view, 23> kSupported = {"type",
                                                         "properties",
                                                         "required",
                                                         "additionalProperties",
                                                         "enum",
                                                         "const",
                                                         "items",
                                                         "prefixItems",
                                                         "minItems",
                                                         "maxItems",
                                                         "minLength",
                                                         "maxLength",
                                                         "pattern",
                                                         "format",
                                                         "minimum",
                                                         "maximum",
                                                         "exclusiveMinimum",
                                                         "exclusiveMaximum",
                                                         "additionalItems",
                                                         "minProperties",
                                                         "maxProperties",
                                                         "patternProperties",
                                                         "multipleOf"};
constexpr std::array<std::string_view, 16> kRefused = {"not",
                                                       "if",
                                                       "then",
                                                       "else",
                                                       "dependentRequired",
                                                       "dependentSchemas",
                                                       "dependencies",
                                                       "propertyNames",
                                                       "contains",
                                                       "minContains",
                                                       "maxContains",
                                                       "uniqueItems",
                                                       "unevaluatedItems",
                                                       "unevaluatedProperties",
                                                       "$dynamicRef",
                                                       "$recursiveRef"};

constexpr std::array<std::pair<std::string_view, uint8_t>, 7> kTypeNames = {{
    {"null", kTypeNull},
    {"boolean", kTypeBoolean},
    {"integer", kTypeInteger},
    {"number", kTypeInteger | kTypeNumber},
    {"string", kTypeString},
    {"array", kTypeArray},
    {"object", kTypeObject},
}};

const Json& true_schema() {
  static const Json kTrue(true);
  return kTrue;
}

// ~1 is /, ~0 is ~, %XX a byte.
std::optional<std::string> decode_pointer(std::string_view part) {
  std::string out;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '~' && i + 1 < part.size() && (part[i + 1] == '0' || part[i + 1] == '1')) {
      out += part[++i] == '0' ? '~' : '/';
    } else if (part[i] == '%') {
      uint8_t byte = 0;
      const std::string_view hex = part.substr(i + 1, 2);
      const auto end = std::from_chars(hex.data(), hex.data() + hex.size(), byte, 16);
      if (hex.size() != 2 || end.ptr != hex.data() + 2) return std::nullopt;
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += part[i];
    }
  }
  return out;
}

bool has_member(const Json& schema, std::string_view name) { return schema.find(name) != nullptr; }

bool requires_member(const Json& schema, const std::string& name) {
  const Json* required = schema.find("required");
  if (required == nullptr || !required->is_array()) return false;
  return std::ranges::any_of(required->as_array(),
                             [&](const Json& one) { return one.is_string() && one.as_string() == name; });
}

// The values of enum or const.
std::optional<std::vector<std::string>> values_of(const Json& schema) {
  if (const Json* one = schema.find("const")) return std::vector{write_json(*one)};
  const Json* all = schema.find("enum");
  if (all == nullptr || !all->is_array()) return std::nullopt;
  std::vector<std::string> values;
  for (const Json& one : all->as_array()) values.push_back(write_json(one));
  return values;
}

uint8_t types_of_values(const Json& schema) {
  const auto type_of = [](const Json& value) -> uint8_t {
    if (value.is_null()) return kTypeNull;
    if (value.is_bool()) return kTypeBoolean;
    if (value.is_number()) return kTypeInteger | kTypeNumber;
    return value.is_string() ? kTypeString : value.is_array() ? kTypeArray : kTypeObject;
  };
  if (const Json* one = schema.find("const")) return type_of(*one);
  const Json* all = schema.find("enum");
  if (all == nullptr || !all->is_array()) return kTypeAny;
  uint8_t types = 0;
  for (const Json& one : all->as_array()) types |= type_of(one);
  return types;
}

}  // namespace

bool is_supported(std::string_view keyword) { return std::ranges::find(kSupported, keyword) != kSupported.end(); }
bool is_refused(std::string_view keyword) { return std::ranges::find(kRefused, keyword) != kRefused.end(); }

Result<const Json*> SchemaTerms::resolve(const std::string& reference, std::string_view path) const {
  const auto wrong = [&](std::string_view want) {
    return error(ErrorKind::unsupported, path, ": $ref ", printable(reference), ": want ", want);
  };
  if (reference != "#" && !starts_with(reference, "#/")) return wrong("one within the schema, such as #/$defs/NAME");
  const Json* at = root_;
  if (reference.size() < 2) return at;
  for (const std::string& part : split(std::string_view(reference).substr(2), '/')) {
    const std::optional<std::string> name = decode_pointer(part);
    if (!name) return wrong("a valid pointer");
    if (at->is_array()) {
      const std::optional<int64_t> index = parse_integer(*name);
      const bool there = index && *index >= 0 && *index < static_cast<int64_t>(at->as_array().size());
      at = there ? &at->as_array()[static_cast<size_t>(*index)] : nullptr;
    } else {
      at = at->find(*name);
    }
    if (at == nullptr) return wrong("a schema that is there");
  }
  return at;
}

Result<uint8_t> SchemaTerms::types(const Json& schema, std::string_view path) {
  const Json* type = schema.find("type");
  if (type == nullptr) return uint8_t{kTypeAny};
  const auto of_name = [&](const Json& name) -> Result<uint8_t> {
    if (name.is_string())
      for (const auto& [known, bits] : kTypeNames)
        if (name.as_string() == known) return bits;
    return error(ErrorKind::invalid, path, ": type ", printable(write_json(name)), ": want one of JSON's types");
  };
  if (!type->is_array()) return of_name(*type);
  uint8_t all = 0;
  for (const Json& one : type->as_array()) {
    TRY(const uint8_t bits, of_name(one));
    all |= bits;
  }
  return all;
}

// What a chain of references without siblings leads to.
const Json* SchemaTerms::target(const Json* schema) const {
  for (int i = 0; i < kMaxReferences; ++i) {
    const Json* reference = schema->find("$ref");
    if (reference == nullptr || !reference->is_string()) return schema;
    const Result<const Json*> to = resolve(reference->as_string(), "");
    if (!to) return schema;
    schema = *to;
  }
  return schema;
}

Result<Json> SchemaTerms::both(const Json& a, const Json& b, const std::string& path) {
  if (++merges_ > kMaxMerges)
    return error(ErrorKind::unsupported, path, ": allOf joins more than ", kMaxMerges, " schemas: want fewer");
  if (a.is_bool()) return a.as_bool() ? b : a;
  if (b.is_bool()) return b.as_bool() ? a : b;
  if (!a.is_object() || !b.is_object()) return error(ErrorKind::invalid, path, ": a schema is no object: want one");
  // Whether a name of one schema is allowed by the other one then hangs on a pattern.
  const auto names_members = [](const Json& schema) {
    return has_member(schema, "properties") || has_member(schema, "additionalProperties");
  };
  if ((has_member(a, "patternProperties") && names_members(b)) ||
      (has_member(b, "patternProperties") && names_members(a)))
    return error(ErrorKind::unsupported, path, ": patternProperties beside another schema of the same object: ",
                 "cannot be honoured: want one of them");
  TRY(Json joined, both_objects(a, b, path));
  const auto append = [&](const std::string& keyword, const Json& value) {
    if (joined.find("allOf") == nullptr) joined.add("allOf", Json::Array{});
    for (auto& [name, all] : joined.as_object())
      if (name == "allOf" && all.is_array()) all.as_array().push_back(Json::Object{{keyword, value}});
  };
  for (const auto& [keyword, value] : b.as_object()) {
    if (keyword == "properties" || keyword == "additionalProperties") continue;
    const Json* own = joined.find(keyword);
    if (own == nullptr) {
      joined.add(keyword, value);
    } else if (keyword == "allOf") {
      if (value.is_array())
        for (const Json& one : value.as_array()) append("allOf", Json::Array{one});
    } else if (keyword == "$ref" || keyword == "anyOf" || keyword == "oneOf") {
      append(keyword, value);
    } else if (is_assertion(keyword)) {
      const Json mine = *own;
      TRY(Json merged, both_values(keyword, mine, value, path));
      const auto has_keyword = [&](const auto& member) { return member.first == keyword; };
      std::ranges::find_if(joined.as_object(), has_keyword)->second = std::move(merged);
    }
  }
  return joined;
}

// `a` with the properties and additionalProperties of both.
Result<Json> SchemaTerms::both_objects(const Json& a, const Json& b, const std::string& path) {
  Json joined{Json::Object{}};
  for (const auto& [keyword, value] : a.as_object())
    if (keyword != "properties" && keyword != "additionalProperties") joined.add(keyword, value);
  const auto additional_of = [](const Json& schema) -> const Json& {
    const Json* found = schema.find("additionalProperties");
    return found == nullptr ? true_schema() : *found;
  };
  const Json *mine = a.find("properties"), *others = b.find("properties");
  Json::Object properties;
  const auto add_all = [&](const Json* from, const Json* other, const Json& beyond, bool again) -> Status {
    if (from == nullptr || !from->is_object()) return {};
    for (const auto& [name, schema] : from->as_object()) {
      const Json* same = other == nullptr ? nullptr : other->find(name);
      if (again && same != nullptr) continue;
      TRY(Json merged, both(schema, same == nullptr ? beyond : *same, cat(path, "/properties/", name)));
      properties.emplace_back(name, std::move(merged));
    }
    return {};
  };
  TRY_STATUS(add_all(mine, others, additional_of(b), false));
  TRY_STATUS(add_all(others, mine, additional_of(a), true));
  if (mine != nullptr || others != nullptr) joined.add("properties", std::move(properties));
  if (has_member(a, "additionalProperties") || has_member(b, "additionalProperties")) {
    TRY(Json additional, both(additional_of(a), additional_of(b), path + "/additionalProperties"));
    joined.add("additionalProperties", std::move(additional));
  }
  return joined;
}

Result<Json> SchemaTerms::both_values(const std::string& keyword, const Json& a, const Json& b,
                                      const std::string& path) {
  if (write_json(a) == write_json(b)) return a;
  const bool lower = keyword == "minimum" || keyword == "exclusiveMinimum" || keyword == "minLength" ||
                     keyword == "minItems" || keyword == "minProperties";
  const bool upper = keyword == "maximum" || keyword == "exclusiveMaximum" || keyword == "maxLength" ||
                     keyword == "maxItems" || keyword == "maxProperties";
  if ((lower || upper) && a.is_number() && b.is_number()) return (a.as_number() < b.as_number()) == lower ? b : a;
  if (keyword == "items") return both(a, b, path + "/items");
  if (keyword == "required" && a.is_array() && b.is_array()) {
    Json::Array all = a.as_array();
    all.insert(all.end(), b.as_array().begin(), b.as_array().end());
    return Json(std::move(all));
  }
  if (keyword == "enum" && a.is_array() && b.is_array()) {
    Json::Array common;
    for (const Json& one : a.as_array())
      if (std::ranges::any_of(b.as_array(), [&](const Json& o) { return write_json(o) == write_json(one); }))
        common.push_back(one);
    return Json(std::move(common));
  }
  if (keyword == "type") {
    TRY(const uint8_t first, types(Json::Object{{"type", a}}, path));
    TRY(const uint8_t second, types(Json::Object{{"type", b}}, path));
    Json::Array names;
    uint8_t left = first & second;
    for (const auto& [name, bits] : kTypeNames) {
      if (name == "integer" && (left & kTypeNumber) != 0) continue;
      if (bits != 0 && (left & bits) == bits) names.emplace_back(name);
    }
    return Json(std::move(names));
  }
  return error(ErrorKind::unsupported, path, ": ", printable(keyword),
               " is given twice by schemas that hold together: want it once");
}

bool SchemaTerms::exclude(const Json& first, const Json& second, int depth) const {
  const Json &a = *target(&first), &b = *target(&second);
  if (a.is_bool() || b.is_bool()) return (a.is_bool() && !a.as_bool()) || (b.is_bool() && !b.as_bool());
  if (!a.is_object() || !b.is_object() || depth > kMaxExcludeDepth) return false;
  const Result<uint8_t> a_types = types(a, ""), b_types = types(b, "");
  if (!a_types || !b_types) return false;
  const uint8_t common = *a_types & *b_types & types_of_values(a) & types_of_values(b);
  if (common == 0) return true;
  if (const auto mine = values_of(a), others = values_of(b); mine && others) {
    const auto is_common = [&](const std::string& one) { return std::ranges::find(*others, one) != others->end(); };
    // Numbers may be equal in other digits.
    if ((common & (kTypeInteger | kTypeNumber)) == 0 && std::ranges::none_of(*mine, is_common)) return true;
  }
  if (common != kTypeObject) return false;
  const auto parted_by_member = [&](const Json& one, const Json& other) {
    const Json* properties = one.find("properties");
    const Json* other_properties = other.find("properties");
    const Json* additional = other.find("additionalProperties");
    const bool closed = additional != nullptr && additional->is_bool() && !additional->as_bool() &&
                        !has_member(other, "patternProperties");
    if (properties != nullptr && other_properties != nullptr && properties->is_object())
      for (const auto& [name, schema] : properties->as_object()) {
        const Json* same = other_properties->find(name);
        if (same != nullptr && requires_member(one, name) && requires_member(other, name) &&
            exclude(schema, *same, depth + 1))
          return true;
      }
    const Json* required = one.find("required");
    if (!closed || required == nullptr || !required->is_array()) return false;
    return std::ranges::any_of(required->as_array(), [&](const Json& name) {
      return name.is_string() && (other_properties == nullptr || other_properties->find(name.as_string()) == nullptr);
    });
  };
  return parted_by_member(a, b) || parted_by_member(b, a);
}

}  // namespace sluice
