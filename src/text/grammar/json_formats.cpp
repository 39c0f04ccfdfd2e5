#include "text/grammar/json_formats.h"

#include <array>
#include <utility>

namespace sluice {
namespace {

// RFC 3339. Days above 28 are held to their month; 29 February needs a leap year, so years are told apart.
#define SLUICE_LEAP_YEAR "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define SLUICE_DATE                                                                                                   \
  "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[" \
  "0-8]))|" SLUICE_LEAP_YEAR "-02-29)"
#define SLUICE_TIME "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?(?:Z|z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define SLUICE_BYTE "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define SLUICE_IPV4 SLUICE_BYTE "\\." SLUICE_BYTE "\\." SLUICE_BYTE "\\." SLUICE_BYTE
#define SLUICE_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define SLUICE_H16 "[0-9A-Fa-f]{1,4}"
#define SLUICE_LS32 "(?:" SLUICE_H16 ":" SLUICE_H16 "|" SLUICE_IPV4 ")"
// RFC 3986: IPv6address.
#define SLUICE_IPV6                                                                                       \
  "(?:(?:" SLUICE_H16 ":){6}" SLUICE_LS32 "|::(?:" SLUICE_H16 ":){5}" SLUICE_LS32 "|(?:" SLUICE_H16       \
  ")?::(?:" SLUICE_H16 ":){4}" SLUICE_LS32 "|(?:(?:" SLUICE_H16 ":){0,1}" SLUICE_H16 ")?::(?:" SLUICE_H16 \
  ":){3}" SLUICE_LS32 "|(?:(?:" SLUICE_H16 ":){0,2}" SLUICE_H16 ")?::(?:" SLUICE_H16 ":){2}" SLUICE_LS32  \
  "|(?:(?:" SLUICE_H16 ":){0,3}" SLUICE_H16 ")?::" SLUICE_H16 ":" SLUICE_LS32 "|(?:(?:" SLUICE_H16        \
  ":){0,4}" SLUICE_H16 ")?::" SLUICE_LS32 "|(?:(?:" SLUICE_H16 ":){0,5}" SLUICE_H16 ")?::" SLUICE_H16     \
  "|(?:(?:" SLUICE_H16 ":){0,6}" SLUICE_H16 ")?::)"
#define SLUICE_ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
// RFC 3986; with other letters, those of RFC 3987 without its private ones.
#define SLUICE_LETTERS \
  "\\u{a0}-\\u{d7ff}\\u{f900}-\\u{fdcf}\\u{fdf0}-\\u{ffef}\\u{10000}-\\u{1fffd}\\u{20000}-\\u{2fffd}"
#define SLUICE_PERCENT "%[0-9A-Fa-f]{2}"
#define SLUICE_PCHAR(letters) "(?:[A-Za-z0-9._~!$&'()*+,;=:@" letters "-]|" SLUICE_PERCENT ")"
#define SLUICE_NO_COLON(letters) "(?:[A-Za-z0-9._~!$&'()*+,;=@" letters "-]|" SLUICE_PERCENT ")"
#define SLUICE_AUTHORITY(letters)                                                          \
  "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:" letters "-]|" SLUICE_PERCENT ")*@)?(?:\\[" SLUICE_IPV6 \
  "\\]|(?:[A-Za-z0-9._~!$&'()*+,;=" letters "-]|" SLUICE_PERCENT ")*)(?::\\d*)?"
#define SLUICE_SEGMENTS(letters) "(?:/" SLUICE_PCHAR(letters) "*)*"
#define SLUICE_ROOTED(letters)   \
  "//" SLUICE_AUTHORITY(letters) \
      SLUICE_SEGMENTS(letters) "|/(?:" SLUICE_PCHAR(letters) "+" SLUICE_SEGMENTS(letters) ")?"
#define SLUICE_QUERY(letters) "(?:\\?(?:" SLUICE_PCHAR(letters) "|[/?])*)?(?:#(?:" SLUICE_PCHAR(letters) "|[/?])*)?"
#define SLUICE_URI(letters)                                                                           \
  "[A-Za-z][A-Za-z0-9+.-]*:(?:" SLUICE_ROOTED(letters) "|" SLUICE_PCHAR(letters) "+" SLUICE_SEGMENTS( \
      letters) "|)" SLUICE_QUERY(letters)
#define SLUICE_RELATIVE(letters) \
  "(?:" SLUICE_ROOTED(letters) "|" SLUICE_NO_COLON(letters) "+" SLUICE_SEGMENTS(letters) "|)" SLUICE_QUERY(letters)
// RFC 6570.
#define SLUICE_VARIABLE \
  "(?:[A-Za-z0-9_]|" SLUICE_PERCENT ")(?:\\.?(?:[A-Za-z0-9_]|" SLUICE_PERCENT "))*(?::[1-9]\\d{0,3}|\\*)?"
// RFC 6901.
#define SLUICE_POINTER "(?:/(?:[^~/]|~[01])*)*"
// Expressions that ECMA-262 with u takes: a part of them, and of groups only three within each other. A range of
// characters begins or ends as one whose order is known.
#define SLUICE_REGEX_CLASS                                                                                           \
  "\\[\\^?(?:[A-Z]-Z|A-[A-Z]|[a-z]-z|a-[a-z]|\\d-9|0-\\d|[^\\]\\[\\\\^\\x00-\\x1f-]|\\\\[dDwWsStnr\\]\\[\\\\^/.-])+" \
  "-?\\]"
#define SLUICE_REGEX_ATOM                                                                                  \
  "(?:[^\\]\\[^$\\\\.*+?(){}|\\x00-\\x1f]|\\.|\\\\(?:[dDwWsStnrvf^$\\\\.*+?()\\[\\]{}|/]|x[0-9A-Fa-f]{2}|" \
  "u[0-9A-Fa-f]{4})|" SLUICE_REGEX_CLASS ")"
#define SLUICE_REGEX_COUNT                                                  \
  "(?:(?:[*+?]|\\{\\d{1,4},?\\}|\\{0,\\d{1,4}\\}|\\{1,[1-9]\\d{0,3}\\})\\?" \
  "?)?"
#define SLUICE_REGEX_FLAT "[|^$]|" SLUICE_REGEX_ATOM SLUICE_REGEX_COUNT
#define SLUICE_REGEX_GROUPS(inner) \
  SLUICE_REGEX_FLAT "|\\((?:\\?:)?(?:" inner ")*\\)" SLUICE_REGEX_COUNT "|\\(\\?[=!](?:" inner ")*\\)"
#define SLUICE_REGEX "(?:" SLUICE_REGEX_GROUPS(SLUICE_REGEX_GROUPS(SLUICE_REGEX_GROUPS(SLUICE_REGEX_FLAT))) ")*"

// A host of 253 characters has at most 127 labels; names of two or more long labels are held to 3 of them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kFormats = {{
    {"date", SLUICE_DATE},
    {"time", SLUICE_TIME},
    {"date-time", SLUICE_DATE "[Tt]" SLUICE_TIME},
    {"duration",
     "P(?:\\d+W|(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)(?:T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|"
     "\\d+S))?|"
     "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S))"},
    {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
    {"email", SLUICE_ATOM "(?:\\." SLUICE_ATOM ")*@" SLUICE_LABEL "(?:\\." SLUICE_LABEL ")*"},
    {"hostname", SLUICE_LABEL "(?:\\." SLUICE_LABEL "){0,2}"},
    {"ipv4", SLUICE_IPV4},
    {"ipv6", SLUICE_IPV6},
    {"uri", SLUICE_URI("")},
    {"uri-reference", SLUICE_URI("") "|" SLUICE_RELATIVE("")},
    {"iri", SLUICE_URI(SLUICE_LETTERS)},
    {"iri-reference", SLUICE_URI(SLUICE_LETTERS) "|" SLUICE_RELATIVE(SLUICE_LETTERS)},
    {"uri-template", "(?:[!#$&(-;=?-\\[\\]_a-z~" SLUICE_LETTERS "]|" SLUICE_PERCENT
                     "|\\{[+#./;?&=,!@|]?" SLUICE_VARIABLE "(?:," SLUICE_VARIABLE ")*\\})*"},
    {"json-pointer", SLUICE_POINTER},
    {"relative-json-pointer", "(?:0|[1-9]\\d*)(?:#|" SLUICE_POINTER ")"},
    {"regex", SLUICE_REGEX},
}};

}  // namespace

std::string_view format_regex(std::string_view format) {
  for (const auto& [name, regex] : kFormats)
    if (name == format) return regex;
  return {};
}

}  // namespace sluice
