#!/usr/bin/env python3
"""reduce_openapi.py FOLDER COMMIT > openapi_schemas.json: what openapi_test.mjs needs of OpenAI's description of its API.

FOLDER is a checkout of github.com/openai/openai-openapi, COMMIT its commit. The result has the schemas of the replies and
events of this server's routes, and those that they refer to. Everything left out makes the check stricter: descriptions,
variants that this server never sends (tools that run elsewhere, audio), and members that it never sends.

Members that no schema knows are refused (`unevaluatedProperties`), except in schemas that are parts of others (`allOf`).
"""
import json
import pathlib
import sys

ROOTS = ['CreateChatCompletionResponse', 'CreateChatCompletionStreamResponse', 'CreateCompletionResponse', 'Response',
         'ResponseStreamEvent', 'TokenCountsResource', 'ListModelsResponse', 'Model', 'ErrorResponse']

EVENTS = ['Created', 'InProgress', 'Completed', 'Incomplete', 'Failed', 'Error', 'OutputItemAdded', 'OutputItemDone',
          'ContentPartAdded', 'ContentPartDone', 'TextDelta', 'TextDone', 'ReasoningTextDelta', 'ReasoningTextDone',
          'FunctionCallArgumentsDelta', 'FunctionCallArgumentsDone']

# The variants of a union that this server sends.
VARIANTS = {
    'ResponseStreamEvent': [f'Response{event}Event' for event in EVENTS],
    'OutputItem': ['OutputMessage', 'FunctionToolCall', 'ReasoningItem'],
    'OutputMessageContent': ['OutputTextContent'],
    'OutputContent': ['OutputTextContent', 'ReasoningTextContent'],
    'Tool': ['FunctionTool'],
    'ToolChoiceParam': ['ToolChoiceOptions', 'ToolChoiceAllowed', 'ToolChoiceFunction'],
    'ChatCompletionMessageToolCalls': ['ChatCompletionMessageToolCall'],
}
# Schemas that are replaced: lists of names beside any text, and things that this server never sends.
REPLACED = {'ModelIdsShared': {'type': 'string'}, 'ModelIdsResponses': {'type': 'string'}, 'Annotation': False,
            'InputItem': False, 'SummaryTextContent': False, 'CallableToolAllowedCaller': False}
NEVER_SENT = {'moderation', 'prompt', 'conversation', 'prompt_cache_options', 'audio', 'function_call', 'caller'}
WORDS = {'description', 'example', 'examples', 'title', 'deprecated', 'default', 'discriminator', 'format'}


def reduced(schema, kept=None):
    """A schema without words. `kept`: the variants of its union."""
    if isinstance(schema, list):
        return [reduced(one, kept) for one in schema
                if kept is None or '$ref' not in one or one['$ref'].split('/')[-1] in kept]
    if not isinstance(schema, dict):
        return schema
    out = {}
    for key, value in schema.items():
        if key in WORDS or key.startswith('x-') or key == 'nullable':
            continue
        if key == '$ref':
            out[key] = '#/$defs/' + value.split('/')[-1]
        elif key == 'properties':
            out[key] = {name: reduced(one) for name, one in value.items() if name not in NEVER_SENT}
        elif key in ('required', 'enum', 'const'):
            out[key] = value
        else:
            out[key] = reduced(value, kept)
    return {'anyOf': [out, {'type': 'null'}]} if schema.get('nullable') else out


def closed(schema, is_part=False):
    """A schema whose objects have no other members. `is_part`: another schema knows the rest of them."""
    if not isinstance(schema, dict):
        return schema
    out = dict(schema)
    if 'properties' in schema:
        out['properties'] = {name: closed(one) for name, one in schema['properties'].items()}
    for key in ('items', 'additionalProperties'):
        if key in schema:
            out[key] = closed(schema[key])
    for key in ('anyOf', 'oneOf', 'allOf'):
        if key in schema:
            out[key] = [closed(one, is_part or key == 'allOf') for one in schema[key]]
    if not is_part and ('properties' in schema or 'allOf' in schema):
        out['unevaluatedProperties'] = False
    return out


def names_in(schema, only_parts=False):
    """The schemas that `schema` refers to, or those that are parts of it."""
    if isinstance(schema, list):
        return set().union(*(names_in(one, only_parts) for one in schema))
    if not isinstance(schema, dict):
        return set()
    found = set()
    for key, value in schema.items():
        if key == '$ref' and not only_parts:
            found.add(value.split('/')[-1])
        elif key == 'allOf' and only_parts:
            found |= {one['$ref'].split('/')[-1] for one in value if '$ref' in one}
        found |= names_in(value, only_parts)
    return found


def main():
    folder, commit = pathlib.Path(sys.argv[1]), sys.argv[2]
    spec = json.loads((folder / 'openapi.json').read_text())
    schemas, wanted = {}, list(ROOTS)
    while wanted:
        name = wanted.pop()
        if name in schemas:
            continue
        if name in REPLACED:
            schemas[name] = REPLACED[name]
        else:
            schemas[name] = reduced(spec['components']['schemas'][name], VARIANTS.get(name))
        wanted += names_in(schemas[name])
    missing = [one for kept in VARIANTS.values() for one in kept if one not in schemas]
    assert not missing, f'{missing}: no such variant: want names of the description'
    parts = names_in(list(schemas.values()), only_parts=True)
    defs = {name: closed(schemas[name], is_part=name in parts) for name in sorted(schemas)}
    whole = {'source': f'https://github.com/openai/openai-openapi, commit {commit}, openapi.json '
                       f'{spec["info"]["version"]}, reduced by reduce_openapi.py',
             'licence': (folder / 'LICENSE').read_text(), '$defs': defs}
    lines = [json.dumps(name) + ':' + json.dumps(value, separators=(',', ':')) for name, value in whole.items()
             if name != '$defs']
    each = [json.dumps(name) + ':' + json.dumps(value, separators=(',', ':')) for name, value in defs.items()]
    print('{' + ',\n'.join(lines) + ',\n"$defs":{\n' + ',\n'.join(each) + '\n}}')


main()
