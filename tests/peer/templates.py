#!/usr/bin/env python3
"""Renders llama.cpp's collection of chat templates with jinja2, as transformers does, and with Sluice: equal to the byte?

    /usr/bin/python3 tests/peer/templates.py RENDER TEMPLATES [--list]

RENDER is the program peer_render, TEMPLATES the folder models/templates of llama.cpp's source. Where jinja2 fails Sluice
must fail too. All templates of Gemma 4, Qwen and DeepSeek must agree on every conversation, and 95 % of the others.
"""

import json
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from make_jinja_vectors import environment  # noqa: E402  pylint: disable=wrong-import-position

FAMILIES = ("google-gemma-4", "qwen", "deepseek", "llama-cpp-deepseek")
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def say(role, content, **more):
    return {"role": role, "content": content, **more}


def call(name, arguments, number=1):
    return {"id": f"call{number:05}", "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(name, description, properties, required):
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


WEATHER = tool("get_weather", "Tells the weather of a \"place\", e.g. <Köln> & 東京.",
               {"city": {"type": "string", "description": "A city"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": "integer", "minimum": 1}}, ["city"])
SEARCH = tool("search", "Searches.\nTwo lines.",
              {"filters": {"type": "object", "description": "Nested",
                           "properties": {"tags": {"type": "array", "items": {"type": "string"}},
                                          "score": {"type": "number", "description": "0.5 or more"}},
                           "required": ["tags"]},
               "exact": {"type": "boolean"},
               "either": {"type": ["string", "null"], "description": "nullable"}}, [])
NOTHING = tool("now", "The time", {}, [])

HI = [say("user", "Hi there!")]
SYSTEM = say("system", "You are terse.")
TURNS = [say("user", "What is 2 + 2?"), say("assistant", "4."), say("user", "And 3 + 3?"), say("assistant", "6."),
         say("user", "Thanks")]
CALLED = [say("user", "Weather in Köln?"),
          say("assistant", "", tool_calls=[call("get_weather", {"city": "Köln", "days": 2})]),
          say("tool", '{"sky": "clear", "t": 21.5}', tool_call_id="call00001", name="get_weather")]
REASONED = [say("user", "Is 7 prime?"), say("assistant", "Yes.", reasoning_content="7 has no divisors.\nSo it is."),
            say("user", "And 9?")]
UNICODE = [say("system", "Ünïcödé \u2028 «sys»"), say("user", "  日本語 \U0001f468\u200d\U0001f469\u200d\U0001f467 \t\n \"q\" 'x' \\ </s> {{ x }} "),
           say("assistant", "\n\n e\u0301 ✓ <b>&amp;</b>  "), say("user", "ok\r\n")]


def conversations():
    yield "user", HI, {}
    yield "no prompt", HI, {"prompt": False}
    yield "system", [SYSTEM, *HI], {}
    yield "turns", TURNS, {}
    yield "system and turns", [SYSTEM, *TURNS], {}
    yield "ends with the answer", TURNS[:4], {"prompt": False}
    yield "unicode", UNICODE, {}
    yield "empty texts", [say("system", ""), say("user", ""), say("assistant", ""), say("user", " ")], {}
    yield "parts", [say("user", [{"type": "text", "text": "One"}, {"type": "text", "text": " two"}])], {}
    for on in (True, False):
        yield f"thinking {on}", [SYSTEM, *TURNS], {"enable_thinking": on, "thinking": on}
        yield f"thought before, {on}", REASONED, {"enable_thinking": on, "thinking": on}
    yield "thought in the text", [say("user", "Hm?"), say("assistant", "<think>\nLet me see.\n</think>\n\nSure."),
                                  say("user", "Go")], {}
    yield "thinking member", [say("user", "Hm?"), say("assistant", "Sure.", thinking="See."), say("user", "Go")], {}
    yield "tools", [SYSTEM, *HI], {"tools": [WEATHER, SEARCH, NOTHING]}
    yield "tools without system", HI, {"tools": [WEATHER]}
    yield "empty tools", HI, {"tools": []}
    yield "call and result", CALLED, {"tools": [WEATHER]}
    yield "call, result, answer, turn", [SYSTEM, *CALLED, say("assistant", "Clear."), say("user", "Danke")], {
        "tools": [WEATHER]}
    yield "call without tools", [*CALLED, say("assistant", "Clear."), say("user", "Danke")], {}
    yield "two calls", [say("user", "Both"),
                        say("assistant", "Let me look.", tool_calls=[
                            call("get_weather", {"city": "東京"}),
                            call("search", {"exact": True, "filters": {"tags": ["a", "b\"c"], "score": 0.5},
                                            "either": None}, 2)]),
                        say("tool", "1", tool_call_id="call00001", name="get_weather"),
                        say("tool", "zwei\n", tool_call_id="call00002", name="search")], {"tools": [WEATHER, SEARCH]}
    yield "arguments as text", [say("user", "x"),
                                say("assistant", None, tool_calls=[call("get_weather", '{"city": "Köln"}')]),
                                say("tool", "ok", tool_call_id="call00001", name="get_weather")], {"tools": [WEATHER]}
    yield "no arguments", [say("user", "x"), say("assistant", None, tool_calls=[call("now", {})]),
                           say("tool", "12:00", tool_call_id="call00001", name="now")], {"tools": [NOTHING]}
    yield "thought, call, result", [
        say("user", "x"), say("assistant", "", reasoning_content="Ask.", tool_calls=[call("now", {})]),
        say("tool", "12:00", tool_call_id="call00001", name="now")], {"tools": [NOTHING], "enable_thinking": True}
    yield "thoughts, calls, turns", [
        SYSTEM, say("user", "x"), say("assistant", "", reasoning_content="Ask.", tool_calls=[call("now", {})]),
        say("tool", "12:00", tool_call_id="call00001", name="now"),
        say("assistant", "Noon.", reasoning_content="It says so."), say("user", "y"),
        say("assistant", "", reasoning_content="Again.", tool_calls=[call("now", {}, 2)]),
        say("tool", "12:01", tool_call_id="call00002", name="now")], {"tools": [NOTHING, SEARCH]}
    yield "result is an object", [*CALLED[:2], say("tool", {"t": 1.0, "l": [1, None, True]}, tool_call_id="call00001",
                                                   name="get_weather")], {"tools": [WEATHER]}
    yield "result in parts", [*CALLED[:2], say("tool", [{"type": "text", "text": "fine"}], tool_call_id="call00001",
                                               name="get_weather")], {"tools": [WEATHER]}
    yield "developer", [say("developer", "Be kind."), *HI], {}
    yield "two users", [say("user", "a"), say("user", "b")], {}
    yield "late system", [*TURNS[:2], SYSTEM, say("user", "b")], {}
    yield "picture", [say("user", [{"type": "text", "text": "See"}, {"type": "image"}])], {}


def requests(files):
    for file in files:
        for name, messages, options in conversations():
            options = dict(options)
            yield name, {"file": str(file), "messages": messages, "tools": options.pop("tools", None),
                         "add_generation_prompt": options.pop("prompt", True), "tokens": TOKENS, "extra": options}


def python_text(env, request, cache):
    file = request["file"]
    if file not in cache:
        cache[file] = env.from_string(pathlib.Path(file).read_text(encoding="utf-8"))
    return cache[file].render(messages=request["messages"], tools=request["tools"], documents=None,
                              add_generation_prompt=request["add_generation_prompt"], **request["tokens"],
                              **request["extra"])


def compare(env, request, reply, cache):
    """None when both agree, else a line that says how they differ."""
    try:
        want = python_text(env, request, cache)
    except Exception as e:  # pylint: disable=broad-except
        return None if "error" in reply else f"jinja2 fails ({type(e).__name__}: {e}), Sluice does not"
    if "error" in reply:
        return f"Sluice fails: {reply['error']}"
    if reply["text"] == want:
        return None
    at = next((i for i, (a, b) in enumerate(zip(reply["text"], want)) if a != b), min(len(reply["text"]), len(want)))
    return f"at {at}: found {reply['text'][at - 20:at + 40]!r}: want {want[at - 20:at + 40]!r}"


def main():
    program, folder = sys.argv[1:3]
    files = sorted(pathlib.Path(folder).glob("*.jinja"))
    rows = list(requests(files))
    lines = "".join(json.dumps(request) + "\n" for _, request in rows)
    output = subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout
    replies = [json.loads(line) for line in output.split("\n")[:-1]]
    assert len(replies) == len(rows), (len(replies), len(rows))
    env, cache = environment(), {}
    env.filters["from_json"] = json.loads  # llama.cpp's own, which three of the templates use; transformers has none
    differing, rendered = {}, 0
    for (name, request), reply in zip(rows, replies):
        rendered += "text" in reply
        line = compare(env, request, reply, cache)
        if line:
            file = pathlib.Path(request["file"]).name
            differing.setdefault(file, []).append(name)
            print(f"{file}: {name}: {line}")
    ours = [file.name for file in files if file.name.lower().startswith(FAMILIES)]
    ours_wrong = [name for name in ours if name in differing]
    others = len(files) - len(ours)
    others_right = others - (len(differing) - len(ours_wrong))
    print(f"templates: {len(files)} over {len(rows) // len(files)} conversations each ({rendered} of {len(rows)} render); "
          f"Gemma 4, Qwen, DeepSeek: {len(ours) - len(ours_wrong)} of {len(ours)} equal; others: {others_right} of {others}")
    return 1 if not files or ours_wrong or others_right < 0.95 * others else 0


if __name__ == "__main__":
    sys.exit(main())
