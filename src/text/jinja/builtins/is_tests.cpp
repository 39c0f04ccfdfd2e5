#include "text/jinja/builtins/is_tests.h"

#include <algorithm>

#include "text/jinja/builtins/filters.h"
#include "text/jinja/builtins/print.h"
#include "text/jinja/builtins/strings.h"
#include "text/jinja/operators.h"

namespace sluice::jinja {

namespace {

// A test of a value's kind. It does not read the contents, so it is charged one step.
using Predicate = bool (*)(const Value& value);

bool is_sequence(const Value& v) {
  if (!v.is(Kind::list)) return v.is(Kind::text) || v.is(Kind::dict) || v.is(Kind::undefined);
  const Flavour flavour = v.as_list().flavour;
  return flavour != Flavour::generator && flavour != Flavour::view;
}

bool is_callable(const Value& v) { return v.is(Kind::undefined) || (v.is(Kind::object) && v.as_object().callable()); }

constexpr std::pair<std::string_view, Predicate> kPredicates[] = {
    {"defined", [](const Value& v) { return !v.is(Kind::undefined); }},
    {"undefined", [](const Value& v) { return v.is(Kind::undefined); }},
    {"none", [](const Value& v) { return v.is(Kind::none); }},
    {"boolean", [](const Value& v) { return v.is(Kind::boolean); }},
    {"true", [](const Value& v) { return v.is(Kind::boolean) && v.as_bool(); }},
    {"false", [](const Value& v) { return v.is(Kind::boolean) && !v.as_bool(); }},
    {"integer", [](const Value& v) { return v.is(Kind::integer); }},
    {"float", [](const Value& v) { return v.is(Kind::number); }},
    {"number", [](const Value& v) { return v.is_number(); }},
    {"string", [](const Value& v) { return v.is(Kind::text); }},
    {"mapping", [](const Value& v) { return v.is(Kind::dict); }},
    {"iterable", is_iterable},
    {"sequence", is_sequence},
    {"callable", is_callable},
    {"escaped", [](const Value& v) { return v.is(Kind::text) && v.as_text().safe; }},
    {"filter", [](const Value& v) { return v.is(Kind::text) && find_filter(v.as_text().bytes) != nullptr; }},
    {"test", [](const Value& v) { return v.is(Kind::text) && is_test_known(v.as_text().bytes); }},
};

// Tests that are comparisons with one argument.
constexpr std::pair<std::string_view, Comparison> kComparisons[] = {
    {"in", Comparison::in},
    {"eq", Comparison::equal},
    {"==", Comparison::equal},
    {"equalto", Comparison::equal},
    {"ne", Comparison::not_equal},
    {"!=", Comparison::not_equal},
    {"lt", Comparison::less},
    {"<", Comparison::less},
    {"lessthan", Comparison::less},
    {"le", Comparison::less_equal},
    {"<=", Comparison::less_equal},
    {"gt", Comparison::greater},
    {">", Comparison::greater},
    {"greaterthan", Comparison::greater},
    {"ge", Comparison::greater_equal},
    {">=", Comparison::greater_equal},
};

using Test = Result<bool> (*)(Machine& machine, const Value& value, const Value& other);

Result<bool> remainder_is(Machine& machine, const Value& value, const Value& divisor, int64_t wanted) {
  TRY(const Value remainder, calculate(machine, BinaryOperator::modulo, value, divisor));
  return equal(machine, remainder, Value(wanted));
}

Result<bool> is_odd(Machine& machine, const Value& value, const Value&) {
  return remainder_is(machine, value, Value(int64_t{2}), 1);
}
Result<bool> is_even(Machine& machine, const Value& value, const Value&) {
  return remainder_is(machine, value, Value(int64_t{2}), 0);
}
Result<bool> is_divisible(Machine& machine, const Value& value, const Value& divisor) {
  return remainder_is(machine, value, divisor, 0);
}
Result<bool> is_same(Machine&, const Value& value, const Value& other) { return value.same_as(other); }

template <bool (*test)(std::string_view)>
Result<bool> case_is(Machine& machine, const Value& value, const Value&) {
  TRY(const Value text, to_text(machine, value));
  return test(*text.bytes());
}

struct TestRow {
  std::string_view name;
  Test test;
  size_t arguments;
};

constexpr TestRow kTests[] = {
    {"odd", is_odd, 0},
    {"even", is_even, 0},
    {"sameas", is_same, 1},
    {"divisibleby", is_divisible, 1},
    {"lower", case_is<is_lower_case>, 0},
    {"upper", case_is<is_upper_case>, 0},
};

template <class Row, size_t n>
const Row* find_row(const Row (&table)[n], std::string_view name) {
  const auto named = [&](const Row& row) {
    if constexpr (std::is_same_v<Row, TestRow>)
      return row.name == name;
    else
      return row.first == name;
  };
  const Row* found = std::find_if(std::begin(table), std::end(table), named);
  return found == std::end(table) ? nullptr : found;
}

}  // namespace

bool is_test_known(std::string_view name) {
  return find_row(kPredicates, name) != nullptr || find_row(kComparisons, name) != nullptr ||
         find_row(kTests, name) != nullptr;
}

Result<bool> apply_test(Machine& machine, std::string_view name, const Value& value, const Arguments& arguments) {
  TRY_STATUS(machine.step());
  const auto* predicate = find_row(kPredicates, name);
  const auto* comparison = find_row(kComparisons, name);
  const TestRow* test = find_row(kTests, name);
  if (predicate == nullptr && comparison == nullptr && test == nullptr)
    return machine.fail("the test \"", printable(name), "\" is not known");
  const size_t wanted = comparison != nullptr ? 1 : test != nullptr ? test->arguments : 0;
  const size_t found = arguments.positional.size() + arguments.named.size();
  if (found != wanted) return machine.fail("the test \"", name, "\" got ", found, " arguments: want ", wanted);
  const Value none;
  const Value& other = found == 0                     ? none
                       : arguments.positional.empty() ? arguments.named[0].second
                                                      : arguments.positional[0];
  if (predicate != nullptr) return predicate->second(value);
  if (test != nullptr) TRY_STATUS(machine.look(Machine::bytes_of(value) + Machine::bytes_of(other)));
  return comparison != nullptr ? compare(machine, comparison->second, value, other) : test->test(machine, value, other);
}

}  // namespace sluice::jinja
