"""Writes splits.json: how Oniguruma, the engine of Hugging Face's tokenizers, cuts texts by each known expression.

Needs libonig.so.5 (Debian 12: libonig5 6.9.8). The texts are drawn from fragments that make the expressions differ.
    python3 make_splits.py [TEXTS [SEED]] > splits.json
"""
import ctypes
import json
import random
import sys

onig = ctypes.CDLL("libonig.so.5")
onig.onig_version.restype = ctypes.c_char_p


class Region(ctypes.Structure):
    _fields_ = [("allocated", ctypes.c_int), ("num_regs", ctypes.c_int),
                ("beg", ctypes.POINTER(ctypes.c_int)), ("end", ctypes.POINTER(ctypes.c_int))]


onig.onig_region_new.restype = ctypes.POINTER(Region)
utf8 = ctypes.addressof(ctypes.c_char.in_dll(onig, "OnigEncodingUTF8"))
syntax = ctypes.addressof(ctypes.c_char.in_dll(onig, "OnigSyntaxOniguruma"))


class Regex:
    def __init__(self, pattern):
        raw = pattern.encode()
        self.buffer = ctypes.create_string_buffer(raw, len(raw) + 1)
        begin = ctypes.addressof(self.buffer)
        self.regex = ctypes.c_void_p()
        info = ctypes.create_string_buffer(256)
        code = onig.onig_new(ctypes.byref(self.regex), ctypes.c_void_p(begin), ctypes.c_void_p(begin + len(raw)), 0,
                             ctypes.c_void_p(utf8), ctypes.c_void_p(syntax), info)
        assert code == 0, (pattern, code)

    def pieces(self, text):
        raw = text.encode()
        buffer = ctypes.create_string_buffer(raw, len(raw) + 1)
        begin = ctypes.addressof(buffer)
        end = begin + len(raw)
        region = onig.onig_region_new()
        out, at = [], 0
        while at < len(raw):
            found = onig.onig_search(self.regex, ctypes.c_void_p(begin), ctypes.c_void_p(end),
                                     ctypes.c_void_p(begin + at), ctypes.c_void_p(end), region, 0)
            if found < 0:
                break
            if found > at:
                out.append(raw[at:found])
            at = region.contents.end[0]
            out.append(raw[found:at])
        if at < len(raw):
            out.append(raw[at:])
        onig.onig_region_free(region, 1)
        return [piece.decode() for piece in out]


CASED = (
    "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 388-38A "
    "38C 38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF "
    "1D00-1D2B 1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D "
    "1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 "
    "1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F "
    "2145-2149 214E 2183 2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B A722-A76F "
    "A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 "
    "104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF 1E900-1E943 "
).split()
LETTERS = "".join("-".join(chr(int(end, 16)) for end in range_.split("-")) for range_ in CASED)
SPACE = r"\s*[\r\n]+|\s+(?!\S)|\s+"
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LEAD = r"[^\r\n\p{L}\p{N}]?"
PATTERNS = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    CONTRACTIONS + "|" + LEAD + r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACE,
    CONTRACTIONS + "|" + LEAD + r"[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACE,
    CONTRACTIONS + "|" + LEAD + r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACE,
    LEAD + UPPER + "*" + LOWER + "+" + CONTRACTIONS + "?|" + LEAD + UPPER + "+" + LOWER + "*" + CONTRACTIONS + "?|"
    + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACE,
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|" + "[^\r\n" + r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+"
    + "[\r\n]*|\\s*[\r\n]+" + r"|\s+(?!\S)|\s+",
    "[一-龥぀-ゟ゠-ヿ]+",
    "[一-龥ࠀ-一가-퟿]+",
    "[\r\n]",
    r"\s?[" + LETTERS + "]+",
    r"\s?\p{L}+",
    r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
    r"\s?\p{P}+",
    r"\s+$",
    r"[\p{P}\$\+<=>\^~\|]+",
    r"[\p{P}\$\+<=>\^~\|`]+",
    r"\p{N}",
    r"\p{N}+",
    r"\p{N}{1,3}",
    "[0-9][0-9][0-9]",
]
FRAGMENTS = list(" \t\n\r\v\f'.,!?-/$+<=>^~|`_\"\\") + [
    " ", " ", "  ", "   ", "\r\n", "\n\n", "\u0085", "\u00a0", "\u2003", "\u2028", "\u3000", "\u200b", "\ufeff", "\u0000",
    "a", "b", "S", "T", "word", "Word", "WORD", "camelCase", "'s", "'S", "'ſ", "'t", "'re", "'RE", "'Ve", "'ll", "'lL",
    "'d", "'m", "’s", "1", "12", "123", "1234567", "٣", "½", "²", "Ⅷ", "五", "中文", "かな", "カナ", "한국", "ไทย", "é", "é",
    "\u0301", "\u0301\u0302", "\u0903", "\u20dd", "ß", "İ", "ǅ", "ʰ", "ª", "ſ", "K", "µ", "Ж", "ж", "א", "ა", "Ა", "Ａ", "ａ",
    "！", "：", "。", "「", "…", "—", "“", "€", "©", "°", "😀", "👩\u200d👧", "🇩🇪", "𝔘", "𐐀", "\ue000", "\ufffd", "\u0378",
    "\u00ad", "\u180e", "<|x|>", "https://", "x²", "3.14",
]


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    draw = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    texts = ["".join(draw.choice(FRAGMENTS) for _ in range(draw.randint(1, 12))) for _ in range(count)]
    rows = []
    for pattern in PATTERNS:
        regex = Regex(pattern)
        rows.append({"regex": pattern, "pieces": [regex.pieces(text) for text in texts]})
    document = {"oniguruma": onig.onig_version().decode(), "texts": texts, "patterns": rows}
    json.dump(document, sys.stdout, ensure_ascii=False, separators=(",", ":"))
    print()


main()
