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
#define SLUICE_PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define SLUICE_AUTHORITY                                                     \
  "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@)?(?:\\[" SLUICE_IPV6 \
  "\\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::\\d*)?"
#define SLUICE_URI                                                                                                  \
  "[A-Za-z][A-Za-z0-9+.-]*:(?://" SLUICE_AUTHORITY "(?:/" SLUICE_PCHAR "*)*|/(?:" SLUICE_PCHAR "+(?:/" SLUICE_PCHAR \
  "*)*)?|" SLUICE_PCHAR "+(?:/" SLUICE_PCHAR "*)*|)(?:\\?(?:" SLUICE_PCHAR "|[/?])*)?(?:#(?:" SLUICE_PCHAR "|[/?])*)?"

// A host of 253 characters has at most 127 labels; names of two or more long labels are held to 3 of them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kFormats = {{
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
    {"uri", SLUICE_URI},
}};

}  // namespace

std::string_view format_regex(std::string_view format) {
  for (const auto& [name, regex] : kFormats)
    if (name == format) return regex;
  return {};
}

}  // namespace sluice
