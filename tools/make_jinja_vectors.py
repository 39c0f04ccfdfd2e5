#!/usr/bin/env python3
"""Writes tests/data/jinja_vectors.json: templates, their variables, and the texts that jinja2 renders.

Run with Debian's python3-jinja2 (made with jinja2 3.1.2, Python 3.11.2):

    /usr/bin/python3 tools/make_jinja_vectors.py

The environment is the one that transformers uses for chat templates: sandboxed, trim_blocks, lstrip_blocks, loopcontrols,
the block "generation", json.dumps as tojson. If jinja2 fails, the vector records that, and Sluice must fail, too.
"""

import datetime
import json
import pathlib

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "jinja_vectors.json"
NOW = datetime.datetime(2026, 7, 4, 13, 5, 9)


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_print"), [], [], body).set_lineno(line)

    def _print(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


# Variables every vector has.
CONTEXT = {
    "n": 7,
    "f": 2.5,
    "s": "Hello, Wörld",
    "empty": "",
    "yes": True,
    "no": False,
    "nil": None,
    "l": [3, 1, 2],
    "words": ["banana", "Apple", "cherry", "apple"],
    "mixed": [1, "a", None, True, 2.5, [1], {"k": "v"}],
    "d": {"b": 1, "A": 2, "c": {"x": [1, 2]}, "items": "shadowed"},
    "people": [
        {"name": "Ann", "age": 30, "tags": ["x", "y"], "address": {"city": "Rome"}},
        {"name": "bob", "age": 25, "tags": [], "address": {"city": "Oslo"}},
        {"name": "Cid", "age": 30, "address": {"city": "rome"}},
    ],
    "markup": "<b>&\"'</b>",
    "lines": "one\ntwo\n\nthree\n",
    "emoji": "a😀b\u2028c",
    "json": {"t": True, "n": None, "f": 1.0, "e": 1e-7, "g": 1e16, "q": "\"\\\n\t\u0001\u007fé😀/", "l": [], "o": {}},
}

# One template a line; each is rendered alone.
LINES = r"""
{{ n }} {{ f }} {{ s }} {{ yes }} {{ no }} {{ nil }} {{ l }} {{ d }} {{ mixed }}
{{ missing }}|{{ d.missing }}|{{ d['missing'] }}|{{ l[9] }}|{{ nil.x }}|{{ n.x }}
{{ missing.x }}
{{ d.missing.x }}
{{ missing['x'] }}
{{ missing() }}
{{ missing + 1 }}
{{ missing < 1 }}
{{ missing == missing2 }} {{ missing == nil }} {{ 'x' in missing }} {{ missing|length }} {{ missing|list }}
{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }}
{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 1e16 }} {{ 123456789.125 }} {{ 0.1 + 0.2 }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ (-2) ** 2 }} {{ +3 }} {{ - 3 }} {{ not 1 }} {{ not not 1 }}
{{ 0x1f }} {{ 0b101 }} {{ 0o17 }} {{ 1_000_000 }} {{ 1_0.5 }} {{ 0 }} {{ 1.0 }}
{{ yes + 1 }} {{ yes == 1 }} {{ 1 == 1.0 }} {{ '1' == 1 }} {{ nil == no }} {{ [1, 2] == [1, 2] }} {{ (1, 2) == [1, 2] }}
{{ {'a': 1} == {'a': 1.0} }} {{ {'a': 1} != {'a': 2} }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }}
{{ 'a' < 1 }}
{{ 'a' + 'b' ~ 1 ~ nil ~ 2.0 ~ [1] }} {{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ [1] * 2 }} {{ [1] + [2] }} {{ 'x' * -1 }}|
{{ 'a' + 1 }}
{{ [1] + (2,) }}
{{ 'a' 'b' "c" }} {{ "it's" }} {{ 'say "x"' }} {{ '\n\t\\\'\x41\u00e9\101\q' }}
{{ 'ell' in s }} {{ 'zz' not in s }} {{ 2 in l }} {{ 'b' in d }} {{ 1 in d }} {{ nil in mixed }} {{ '' in 'a' }} {{ 1.0 in l }}
{{ 1 in 5 }}
{{ 1 in 'abc' }}
{{ yes and 'x' }} {{ '' or 'y' }} {{ 0 or nil }} {{ '' and 'z' }} {{ not l }} {{ not [] }} {{ yes and no or 5 }}
{{ 'a' if yes }} {{ 'a' if no }}| {{ 'a' if no else 'b' }} {{ 1 if no else 2 if no else 3 }} {{ ('a' if no)|default('dd') }}
{{ s[0] }} {{ s[-1] }} {{ s[8] }} {{ s[100] }}| {{ s[1:4] }} {{ s[:3] }} {{ s[-3:] }} {{ s[::2] }} {{ s[::-1] }} {{ s[5:1:-2] }}
{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[5:] }} {{ l[-100:100] }} {{ l[::-2] }} {{ (1,2,3)[1:] }}
{{ l[::0] }}
{{ l['a':] }}
{{ emoji|length }} {{ emoji[1] }} {{ emoji[::-1] }} {{ emoji.find('b') }} {{ emoji|list }} {{ emoji|tojson }}
{{ d.b }} {{ d['A'] }} {{ d.c.x[1] }} {{ d.c['x'].0 }} {{ d['items'] }} {{ d.items()|list }} {{ d['c']['x']|sum }}
{{ d.keys() }} {{ d.values() }} {{ d.items() }} {{ d.keys()|list }} {{ d|list }} {{ d.get('b') }} {{ d.get('z') }} {{ d.get('z', 9) }}
{{ d.keys()[0] }}|{{ d.items() is sequence }} {{ d.keys()|length }}
{{ d.pop('b') }}
{{ l.append(4) }}
{{ d.update({}) }}
{{ l.index(2) }} {{ l.count(1) }} {{ (1,2,2).count(2) }} {{ 'a,b'.index(',') }}
{{ l.index(99) }}
{{ {'a': 1, 'b': [1, {'c': none}]} }} {{ {} }} {{ [] }} {{ () }} {{ (1,) }} {{ {1: 2, 'x': (1, 2)} }} {{ [1, 2,] }} {{ {'a': 1,} }}
{{ ['it\'s', "q\"", 'both\'"', 'n\n\t\\', 'é😀', '\x01\x7f', '\u00a0\u2028'] }}
{{ 1, 2 }} {{ (1, 'a') }} {{ true }} {{ True }} {{ none }} {{ None }} {{ false }}
{{ 10 | string + '1' }} {{ -5 | abs }} {{ (-5)|abs }} {{ 'A'|lower ~ 'b'|upper }} {{ 'x'|default('y')|upper }}
{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ 'they\'re bill\'s'.title() }} {{ 'heLLo wOrld'.capitalize() }} {{ 'aBc'.swapcase() }}
{{ 'straße'.upper() }} {{ 'ÀÉ'.lower() }} {{ 'ñandú'|capitalize }} {{ 'hello wORLD foo-bar (baz)'|title }}
[{{ '  x  '.strip() }}] [{{ '  x  '.lstrip() }}] [{{ '  x  '.rstrip() }}] [{{ 'xxaxx'.strip('x') }}] [{{ 'abcba'.lstrip('ba') }}] [{{ '\u00a0\u2003\nx\u3000\x1f'|trim }}] {{ 'a\u2003b\u3000'.rsplit(none, 1) }} [{{ '--x-'|trim('-') }}]
{{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b c '.split() }} {{ ' a  b c '.split(none, 1) }} {{ ''.split() }} {{ ''.split(',') }}
{{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b c '.rsplit(none, 1) }} {{ 'abc'.split('x') }} {{ 'a<>b<>c'.split('<>', maxsplit=1) }} {{ 'a b'.rsplit() }}
{{ 'a'.split('') }}
{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ 'a\r\nb\rc\x0bd'.splitlines() }} {{ 'k=v=w'.partition('=') }} {{ 'k=v=w'.rpartition('=') }} {{ 'kv'.partition('=') }} {{ 'kv'.rpartition('=') }}
{{ s.startswith('Hell') }} {{ s.endswith('d') }} {{ s.startswith(('x', 'H')) }} {{ s.startswith('ello', 1) }} {{ s.endswith('Hell', 0, 4) }} {{ 'a'.startswith('') }}
{{ s.find('l') }} {{ s.rfind('l') }} {{ s.find('zz') }} {{ s.find('l', 4) }} {{ s.count('l') }} {{ 'aaa'.count('') }} {{ 'aaaa'.count('aa') }} {{ s.find('W', -5) }}
{{ s.index('zz') }}
{{ s.replace('l', 'LL') }} {{ s.replace('l', '', 1) }} {{ 'abc'.replace('', '-') }} {{ 'abc'.replace('', '-', 2) }} {{ s|replace('o', 0) }} {{ 'aaa'|replace('a', 'b', 2) }}
{{ ', '.join(['a', 'b']) }} {{ ''.join('abc') }} {{ '-'.join([]) }}|
{{ ','.join([1]) }}
{{ '5'.isdigit() }} {{ 'a5'.isalnum() }} {{ 'é'.isalpha() }} {{ ''.isdigit() }} {{ ' \n'.isspace() }} {{ 'AB'.isupper() }} {{ 'a1'.islower() }} {{ '½'.isnumeric() }} {{ '²'.isdigit() }} {{ '²'.isdecimal() }}
[{{ 'ab'.center(7) }}] [{{ 'abc'.center(8, '*') }}] [{{ 'ab'.ljust(4, '.') }}] [{{ 'ab'.rjust(4) }}] [{{ '-42'.zfill(6) }}] [{{ '42'.zfill(1) }}] [{{ 'ab'|center(6) }}]
{{ 'unhappy'.removeprefix('un') }} {{ 'a.py'.removesuffix('.py') }} {{ 'a'.removeprefix('b') }}
{{ 'x'.nothing }}|{{ 'x'.nothing() }}
{{ '{} {}'.format(1, 'a') }} {{ '{1} {0}'.format('a', 'b') }} {{ '{x} {y[k]} {z[0]} {{}}'.format(x=1, y={'k': 2}, z=[3]) }} {{ '{!r}'.format('a') }}
{{ '{:>5}|{:<5}|{:^5}|{:*^7}|{:05d}|{:+d}|{:,}|{:.2f}|{:x}|{:#X}|{:b}|{:e}|{:g}|{:%}'.format('a', 'b', 'c', 'd', 42, 5, 1234567, 3.14159, 255, 255, 5, 12345.678, 0.0001, 0.25) }}
{{ '{:.3}|{:10.2f}|{:_}|{:<8,}|{: d}|{:o}|{}|{}|{:5}|{:<5}|'.format('abcdef', 2.5, 1000000, 1234, 7, 8, none, true, 3, 3) }}
{{ '{} {}'.format(1) }}
{{ '{'.format(1) }}
{{ '{:d}'.format('a') }}
{{ '%s %d %5.2f %r %x %% %05d %-4s| %+d' % ('a', 3.9, 2.345, 'q', 255, 42, 'b', 5) }} {{ '%s' % 5 }} {{ '%(a)s-%(b)03d' % {'a': 1, 'b': 2} }} {{ '%e %g %G' % (1234.5, 0.00001, 1e20) }}
{{ '%s %s' % ('a',) }}
{{ '%s' % ('a', 'b') }}
{{ '%d' % 'a' }}
{{ '%s %s'|format('a', 'b') }} {{ '%(x)s'|format(x=1) }}
{{ l|length }} {{ s|count }} {{ d|length }} {{ ''|length }} {{ range(5)|length }}
{{ n|length }}
{{ l|sort }} {{ l|sort(reverse=true) }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ people|sort(attribute='age')|map(attribute='name')|join(',') }} {{ people|sort(attribute='age,name', reverse=true)|map(attribute='name')|list }}
{{ mixed|sort }}
{{ d|dictsort }} {{ {'b': 1, 'A': 2, 'c': 0}|dictsort(true) }} {{ {'b': 1, 'A': 2, 'c': 0}|dictsort(by='value') }} {{ {'b': 1, 'A': 2}|dictsort(reverse=true) }}
{{ l|dictsort }}
{{ words|unique|list }} {{ words|unique(case_sensitive=true)|list }} {{ people|unique(attribute='age')|map(attribute='name')|list }} {{ [1, 1.0, '1', true]|unique|list }}
{{ l|min }} {{ l|max }} {{ words|min }} {{ people|max(attribute='age') }} {{ []|min }}| {{ l|sum }} {{ people|sum(attribute='age') }} {{ l|sum(start=10) }}
{{ l|first }} {{ l|last }} {{ []|first }}| {{ s|first }} {{ s|last }} {{ d|first }} {{ l|reverse|list }} {{ s|reverse }} {{ []|last }}|
{{ l|join }} {{ l|join(', ') }} {{ people|join('-', attribute='name') }} {{ mixed|join('|') }} {{ 'abc'|join('.') }} {{ []|join(',') }}| {{ d|join(',') }}
{{ words|map('upper')|list }} {{ words|map('replace', 'a', 'o')|list }} {{ people|map(attribute='address.city')|list }} {{ people|map(attribute='tags', default='none')|list }} {{ l|map('string')|join('+') }}
{{ l|map('nonsense')|list }}
{{ l|select('odd')|list }} {{ l|reject('odd')|list }} {{ mixed|select|list }} {{ mixed|reject|list }} {{ l|select('>', 1)|list }} {{ l|select('in', [1, 2])|list }} {{ mixed|select('string')|list }}
{{ people|selectattr('tags')|map(attribute='name')|list }} {{ people|selectattr('age', '==', 30)|map(attribute='name')|list }} {{ people|rejectattr('age', 'eq', 30)|map(attribute='name')|list }} {{ people|selectattr('tags', 'defined')|list|length }} {{ people|rejectattr('tags', 'undefined')|list|length }} {{ people|selectattr('address.city', 'equalto', 'Rome')|list|length }}
{{ l|select('nonsense')|list }}
{{ 'yes' if l|select('gt', 5) else 'no' }} {{ 'yes' if l|select('gt', 5)|list else 'no' }} {{ l|select('gt', 1)|first }}
{{ l|select('gt', 1)|length }}
{{ people|groupby('age')|length }}{% for age, group in people|groupby('age') %} {{ age }}:{{ group|map(attribute='name')|join('+') }}{% endfor %}{% for g in people|groupby('address.city') %} {{ g[0] }}={{ g[1]|length }}{% endfor %}
{{ range(7)|batch(3)|list }} {{ range(7)|batch(3, 'x')|list }} {{ range(7)|slice(3)|list }} {{ range(7)|slice(3, 'x')|list }}
{{ d|items|list }} {{ missing|items|list }}
{{ l|items|list }}
{{ missing|default('x') }} {{ nil|default('x') }} {{ ''|default('x') }}| {{ ''|default('x', true) }} {{ nil|d('y', boolean=true) }} {{ missing|default }}| {{ d.z|default(d.b) }}
{{ '42'|int }} {{ '4.7'|int }} {{ 'x'|int }} {{ 'x'|int(9) }} {{ '0x1f'|int(0, 16) }} {{ ' 12 '|int }} {{ 3.99|int }} {{ -3.99|int }} {{ yes|int }} {{ nil|int(5) }} {{ '1_000'|int }} {{ 'ff'|int(base=16) }}
{{ '4.5'|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ 3|float }} {{ 'inf'|float }} {{ '-1e3'|float }} {{ 'nan'|float }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 42.55|round(1, 'floor') }} {{ 42.55|round(1, 'ceil') }} {{ 5|round }} {{ 1234.5|round(-2) }} {{ -0.5|round }} {{ 1.25|round(1) }}
{{ 1|round(1, 'x') }}
{{ json|tojson }}
{{ json|tojson(indent=2) }} {{ json|tojson(ensure_ascii=true) }} {{ json|tojson(sort_keys=true, separators=(',', ':')) }} {{ [1, [2, {}]]|tojson(indent=0) }} {{ {'a': [1]}|tojson(indent='--') }}
{{ (1, 'a')|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ ''|tojson }} {{ nil|tojson }} {{ 1e300|tojson }} {{ 'é'|tojson }} {{ '</script>&'|tojson }} {{ [1, 2, 3]|tojson(true, 1) }}
{{ missing|tojson }}
{{ d.items()|tojson }}
{{ {(1, 2): 3}|tojson }}
[{{ lines|indent }}] [{{ lines|indent(2, true) }}] [{{ lines|indent(2, blank=true) }}] [{{ lines|indent('> ', first=true) }}] [{{ 'x'|indent(3) }}]
{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9, true) }} {{ 'foo bar baz qux'|truncate(11, false, '!', 0) }} {{ 'foo bar'|truncate(5) }}
{{ markup|e }} {{ markup|escape|escape }} {{ markup|safe }} {{ markup|safe ~ markup }} {{ 'x'|safe + '<' }} {{ '<' + 'x'|safe }} {{ ('x'|safe + '<')|upper }} {{ [markup|safe] }} {{ ('<'|safe).strip() + '<' }} {{ ('a<'|safe).split('<')[0] + '>' }}
{{ 'a b/c?d=é&x'|urlencode }} {{ 'one two  three'|wordcount }} {{ 5|string + '!' }} {{ nil|string }} {{ 1.0|string }}
{{ 'x'|nonsense }}
{{ 'x' is nonsense }}
{{ nonsense('x') }}
{{ s is string }} {{ n is number }} {{ yes is number }} {{ f is float }} {{ n is integer }} {{ yes is integer }} {{ yes is boolean }} {{ 1 is boolean }} {{ nil is none }} {{ missing is none }} {{ yes is true }} {{ 1 is true }} {{ no is false }} {{ 0 is false }}
{{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ missing is sequence }} {{ n is sequence }} {{ l is iterable }} {{ s is iterable }} {{ n is iterable }} {{ nil is iterable }} {{ missing is iterable }} {{ d is mapping }} {{ l is mapping }} {{ range(2) is sequence }} {{ l|map('string') is iterable }} {{ l|map('string') is sequence }}
{{ missing is defined }} {{ s is defined }} {{ d.z is defined }} {{ d.b is not defined }} {{ missing is undefined }} {{ nil is defined }} {{ d.c.y is defined }}
{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 1 is eq 1 }} {{ 1 is equalto(2) }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 2 is ge 2 }} {{ 3 is greaterthan 2 }} {{ 2 is in [1, 2] }} {{ 'a' is in 'abc' }} {{ 'b' is not in 'abc' }}
{{ nil is sameas none }} {{ 1 is sameas true }} {{ s is lower }} {{ 'a b' is lower }} {{ 'A' is upper }} {{ range is callable }} {{ s is callable }} {{ s.upper is callable }} {{ 'upper' is filter }} {{ 'zz' is filter }} {{ 'odd' is test }} {{ markup|safe is escaped }}
{{ not missing is defined }} {{ yes is true and no is false }} {{ 1 if d is mapping and d.b is number else 2 }} {{ n is not none and n > 3 }}
{{ 'a' is odd }}
{{ range(3) }} {{ range(1, 4)|list }} {{ range(10, 0, -3)|list }} {{ range(0)|list }} {{ range(3)[1] }} {{ range(1, 9, 2) }} {{ range(5)[1:3]|list }} {{ 3 in range(5) }}
{{ range(1000000)|list }}
{{ range(1, 2, 0) }}
{{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2) }} {{ dict([('a', 1), ['b', 2]]) }} {{ dict() }} {{ dict(**{'k': 'v'}) }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{% set _ = c.reset() %}{{ c.current }} {% set j = joiner('|') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}
{{ strftime_now('%Y-%m-%d %d %B %b %A %a %H:%M:%S %j %I %p %y %% %e') }}
{{ raise_exception('no way') }}
{{ l.append }}|{{ l.append is defined }} {{ {"pop": 1}.pop is defined }} {{ {"pop": 1}["pop"] }}
{{ namespace(a=1).a }} {{ namespace({'b': 2}).b }} {{ namespace().z }}|
{{ 'a'.__class__ }}
{{ 'abc'.0 }} {{ [[1, 2], [3]].0.1 }}
{{ [1, 2, 3][true] }} {{ {'a': 1}['a'] }} {{ {1: 'x'}[1.0] }} {{ {'a': 1}[l] }}| {{ {(1, 2): 'x'}[(1, 2)] }}
{{ {'a': 1, 'a': 2} }} {{ {1: 'a', true: 'b'} }} {{ {none: 1}[none] }}
{{ {[1]: 2} }}
"""

# Longer templates: white space, statements, scopes, macros.
BLOCKS = {
    "trim and lstrip": "a\n  {% if yes %}\n  b\n  {% endif %}\nc\n{# note #}\nd {# x #} e\n\t{% set q = 1 %}\n\n{{ q }}\n\n",
    "minus signs": "a \n {%- if yes -%} \n b \n {%- endif -%} \n c {{- ' x ' -}} d\n{#- gone -#}\n e",
    "plus signs": "  {%+ if yes %}\nx{% endif +%}\ny\n  {%+ set a = 1 +%}\nz",
    "final newlines": "x\n\n\n",
    "only a newline": "\n",
    "carriage returns": "a\r\n{% if yes %}\r\nb\r\n{% endif %}\r\nc\rd\r\n",
    "block after text": "text {% if yes %} in {% endif %} after\n{{ 1 }}\n  {{ 2 }}\n",
    "raw": "{% raw %}\n {{ x }} {% if %} {# c #}\n{% endraw %}\n.\n{%- raw -%}  {{ y }}  {%- endraw -%}  z",
    "braces in strings": "{{ '}}' }} {{ '%}' }} {{ {'a': {'b': 1}}['a']['b'] }} {{ \"{{ x }}\" }}",
    "comment with tags": "a{# {{ x }} {% if %} #}b{#- x -#} c",
    "one line of tags": "{% if yes %}{% if no %}1{% else %}2{% endif %}{% endif %}\n  {% if yes %}3{% endif %}\n",
    "elif": "{% for i in range(5) %}{% if i == 0 %}a{% elif i == 1 %}b{% elif i == 2 %}c{% else %}d{% endif %}{% endfor %}",
    "empty if": "{% if yes %}{% else %}{% endif %}x{% if no %}{% elif yes %}{% endif %}",
    "loop variables": "{% for x in words %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}",
    "loop.cycle and changed": "{% for x in [1, 1, 2, 2, 1] %}{{ loop.cycle('o', 'e') }}{{ loop.changed(x) }} {% endfor %}",
    "loop over nothing": "{% for x in [] %}{{ x }}{% else %}none{% endfor %}{% for x in missing %}{{ x }}{% else %}missing{% endfor %}",
    "loop over none": "{% for x in nil %}{% endfor %}",
    "loop over a number": "{% for x in 5 %}{% endfor %}",
    "loop over text and dict": "{% for c in 'añ😀' %}[{{ c }}]{% endfor %}{% for k in d %}{{ k }},{% endfor %}{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "loop with if": "{% for x in range(10) if x is odd %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% else %}none{% endfor %}{% for x in l if x > 5 %}{{ x }}{% else %}none{% endfor %}",
    "loop unpacking": "{% for a, (b, c) in [(1, (2, 3)), (4, [5, 6])] %}{{ a }}{{ b }}{{ c }} {% endfor %}{% for (k, v) in d|dictsort %}{{ k }}{% endfor %}",
    "loop unpacking too few": "{% for a, b in [(1,)] %}{% endfor %}",
    "loop unpacking too many": "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "break and continue": "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}.{% for i in range(2) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}",
    "break outside": "{% break %}",
    "nested loop": "{% for x in [1, 2] %}{% for y in 'ab' %}{{ loop.index }}{{ x }}{{ y }}{{ loop.last }} {% endfor %}{{ loop.index }}{% endfor %}",
    "recursive loop": "{% set tree = [{'n': 1, 'c': [{'n': 2, 'c': []}, {'n': 3, 'c': [{'n': 4, 'c': []}]}]}] %}{% for t in tree recursive %}{{ loop.depth }}:{{ t.n }}({{ loop(t.c) }}){% endfor %}",
    "loop is not recursive": "{% for t in [1] %}{{ loop([2]) }}{% endfor %}",
    "scope of set in a loop": "{% set x = 0 %}{% for i in [1, 2] %}{{ x }}{% set x = i %}{{ x }} {% endfor %}{{ x }}",
    "scope of set in if": "{% if yes %}{% set y = 5 %}{% endif %}{{ y }}",
    "loop variable is gone": "{% for i in [1] %}{% endfor %}{{ i }}|{{ loop }}|",
    "namespace": "{% set ns = namespace(n=0, s='') %}{% for i in l %}{% set ns.n = ns.n + i %}{% set ns.s = ns.s ~ i %}{% set ns.new = i %}{% endfor %}{{ ns.n }} {{ ns.s }} {{ ns.new }} {{ ns.zz }}|",
    "attribute of a dict cannot be set": "{% set d.x = 1 %}",
    "set several": "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}{% set (p, q) = [3, 4] %}{{ p }}{{ q }}",
    "set a constant": "{% set true = 1 %}",
    "set block": "{% set x %}a{{ n }}\n b{% endset %}[{{ x }}]{% set y | upper | replace('A', 'o') %}aBc{% set inner = 1 %}{% endset %}[{{ y }}]{{ inner }}|",
    "filter block": "{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a', 'b') | trim %}  aaa {% endfilter %}.",
    "with": "{% set x = 1 %}{% with x = 2, y = x %}{{ x }}{{ y }}{% set z = 3 %}{% endwith %}{{ x }}{{ z }}|{% with %}{{ x }}{% endwith %}",
    "generation": "{% for m in [1, 2] %}{% generation %}\n a{{ m }}{% set g = m %}\n {% endgeneration %}\n{{ g }}|{% endfor %}",
    "macro": "{% macro f(a, b=2, c='x' ~ b) %}({{ a }},{{ b }},{{ c }}){% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(1, c=5) }}{{ f(b=1, a=0) }}{{ f() }}{{ f is callable }}",
    "macro with too many arguments": "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
    "macro with an unknown argument": "{% macro f(a) %}{% endmacro %}{{ f(z=2) }}",
    "macro with two values": "{% macro f(a) %}{% endmacro %}{{ f(1, a=2) }}",
    "macro varargs": "{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, x=4) }}{{ f(*[1, 2], **{'y': 5}) }}",
    "macro recursion": "{% macro show(v) %}{% if v is mapping %}{ {%- for k, x in v|dictsort %}{{ k }}:{{ show(x) }}{{ ',' if not loop.last }}{% endfor -%} }{% elif v is iterable and v is not string %}[{% for x in v %}{{ show(x) }};{% endfor %}]{% else %}{{ v }}{% endif %}{% endmacro %}{{ show(json) }} {{ show(people) }}",
    "macro sees later variables": "{% macro f() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}{% set x = 2 %}{{ f() }}",
    "macro does not leak": "{% macro f() %}{% set leak = 1 %}{{ leak }}{% endmacro %}{{ f() }}{{ leak }}|",
    "macro in a loop": "{% for i in [1, 2] %}{% macro f(x) %}{{ i }}{{ x }}{{ loop.index }}{% endmacro %}{{ f('a') }} {% endfor %}",
    "macro result": "{% macro f() %} <x> {% endmacro %}[{{ f()|trim }}]{{ f() + '<' }}{{ f()|length }}{{ f() is string }}",
    "macro default sees the caller": "{% set base = 3 %}{% macro f(a, b=base * a) %}{{ b }}{% endmacro %}{{ f(2) }}",
    "call": "{% macro box(t) %}<{{ t }}:{{ caller() }}>{% endmacro %}{% call box('x') %}in{{ n }}{% endcall %}{% macro each(l) %}{% for i in l %}{{ caller(i, loop.index) }}{% endfor %}{% endmacro %}{% call(v, k=0) each(words) %}{{ k }}{{ v }} {% endcall %}",
    "call of a macro without caller": "{% macro f() %}x{% endmacro %}{% call f() %}y{% endcall %}",
    "arguments spread": "{{ dict(*[[['a', 1]]], **{'b': 2}) }}{{ '{} {}'.format(*['x', 'y']) }}",
    "trailing commas": "{{ [1, 2,] }}{{ dict(a=1,) }}{{ (1, 2,) }}",
    "colon after a tag": "{% if yes: %}a{% endif %}{% for x in l: %}{{ x }}{% endfor %}",
    "generator is used up": "{% set g = l|map('string') %}{{ g|list }}{{ g|list }}{% for x in g %}{{ x }}{% endfor %}.",
    "dotted numbers": "{{ people.0.name }}{{ people.1['tags']|length }}{{ people[0].tags.1 }}",
    "keywords as attributes": "{{ {'if': 1, 'for': 2, 'in': 3}.if }}{{ {'not': 4}.not }}",
    "else after break": "{% for x in l %}{% break %}{% else %}none{% endfor %}.",
    "loop in a macro in a loop": "{% macro row(r) %}{% for c in r %}{{ loop.index }}{{ c }}{{ ' ' if not loop.last }}{% endfor %}{% endmacro %}{% for r in ['ab', 'c'] %}{{ loop.index }}[{{ row(r) }}]{% endfor %}",
    "reversed messages": "{% for m in people[::-1] %}{{ loop.index0 }}{{ (messages or people)[loop.index0].name }}{{ m['name'] }} {% endfor %}",
    "unclosed if": "{% if yes %}a",
    "unclosed for": "{% for x in l %}a{% else %}",
    "unclosed output": "a {{ n ",
    "unclosed block": "a {% if yes ",
    "unclosed comment": "a {# b",
    "unclosed string": "{{ 'a }}",
    "unclosed raw": "{% raw %} x",
    "unknown tag": "{% nonsense %}",
    "stray end": "a{% endif %}",
    "stray else": "a{% else %}",
    "wrong end": "{% if yes %}{% endfor %}",
    "empty output": "{{ }}",
    "two values": "{{ 1 2 }}",
    "missing operand": "{{ 1 + }}",
    "unbalanced": "{{ (1 }}",
    "wrong bracket": "{{ (1] }}",
    "bad character": "{{ 1 ? 2 }}",
    "chained tests": "{{ 1 is odd is even }}",
    "positional after named": "{{ dict(a=1, 2) }}",
    "macro parameters": "{% macro f(a=1, b) %}{% endmacro %}",
    "for without in": "{% for x l %}{% endfor %}",
    "set without value": "{% set x = %}",
    "if without condition": "{% if %}{% endif %}",
}


def vectors():
    for line in LINES.strip("\n").split("\n"):
        yield {"name": line[:60], "template": line}
    for name, template in BLOCKS.items():
        yield {"name": name, "template": template}


def main():
    env = environment()
    out = []
    for vector in vectors():
        try:
            vector["text"] = env.from_string(vector["template"]).render(**CONTEXT)
        except Exception as e:  # pylint: disable=broad-except
            vector["error"] = f"{type(e).__name__}: {e}".split("\n")[0]
        out.append(vector)
    document = {"jinja2": jinja2.__version__, "now": NOW.isoformat(), "context": CONTEXT, "vectors": out}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    failed = sum("error" in vector for vector in out)
    print(f"{OUT.name}: {len(out)} vectors, {failed} of them errors, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
