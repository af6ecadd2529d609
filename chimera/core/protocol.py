"""How the calls of a model travel: in the provider's own form, or as one JSON action per reply.

The history always holds calls and results as such. A protocol says what of them is sent, and what a reply means; so the
loop, the turns, compaction and the record are the same for each.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from chimera import prompts
from chimera.core.messages import Message, ToolCall, assistant, user
from chimera.core.model import Completion, Request
from chimera.core.written_calls import sole_call

ProtocolName = Literal["native", "json"]
Schema = Mapping[str, Any]
"""A tool in the OpenAI form."""

FINISH = "finish"
"""The action that ends a run: `{"answer": what the model has to say}`."""
# What a call's thought, name and arguments are framed by when it travels as text takes about as many tokens as the two
# ids and the overhead of a native call, which is what is counted.
_ID = "action_{:04}"
# A small model that may edit before it has read guesses what the file holds, and repeats its guess when it is wrong.
_NEEDS_A_LOOK = "edit_file"
# One that has changed a file and may go on changing it undoes what was right, instead of seeing whether it was.
_CHANGES = frozenset({"edit_file", "write_file"})
_LATELY = 4
_END_OF_THOUGHT = "</think>"
_NOTHING_MORE = re.compile(r"(?:<\|\w+\|>|</s>|[`\s])*")
_DEFINITIONS = ("$defs", "definitions")
_TYPES = {"string": "", "integer": "int", "number": "number", "boolean": "bool"}


class ToolProtocol(Protocol):
    """A way for calls to travel. `name` is what people call it."""

    @property
    def name(self) -> ProtocolName: ...

    def system(self, text: str, schemas: Sequence[Schema]) -> str:
        """The system message: `text`, and how calls are made."""
        ...

    def written(self, schemas: Sequence[Schema]) -> dict[str, str]:
        """What of the system message is about which tool, by its name."""
        ...

    def schemas(self, schemas: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
        """What goes into the `tools` payload of a request."""
        ...

    def request(self, request: Request, schemas: Sequence[Schema]) -> Request:
        """The request as it travels."""
        ...

    def completion(
        self, completion: Completion, *, step: int, names: Collection[str], again: bool
    ) -> Completion:
        """The reply with its calls as calls.

        Args:
            completion: as the model wrote it.
            step: its number, for ids.
            names: of the tools that are offered.
            again: whether the reply before this one could not be used either, and the model was told why.
        """
        ...


class NativeCalls(Struct, frozen=True):
    """The provider's own tool calls."""

    name: ProtocolName = "native"

    def system(self, text: str, schemas: Sequence[Schema]) -> str:
        return f"{text}\n{prompts.NATIVE_CALLS}"

    def written(self, schemas: Sequence[Schema]) -> dict[str, str]:
        return {}

    def schemas(self, schemas: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
        return tuple(schemas)

    def request(self, request: Request, schemas: Sequence[Schema]) -> Request:
        return request

    def completion(
        self, completion: Completion, *, step: int, names: Collection[str], again: bool
    ) -> Completion:
        """A call that was written as text, although the model was just told not to, and is all there is, counts."""
        written = sole_call(completion.message.content, names) if again else None
        if written is None or completion.message.tool_calls or completion.finish_reason != "stop":
            return completion
        return _called(completion, step, *written)


class JsonActions(Struct, frozen=True):
    """Each reply is one JSON object `{"tool", "arguments"}`, to which the server holds the model where it can.

    Small models that never manage a native call do this well, since they cannot do anything else. A `thought` may stand
    before the tool, but nobody asks for one: a small model copies the task into it, step after step, and learns nothing.
    """

    name: ProtocolName = "json"

    def system(self, text: str, schemas: Sequence[Schema]) -> str:
        lines = "\n".join(self.written(schemas).values())
        return f"{text}\n{prompts.JSON_ACTIONS.format(tools=lines)}"

    def written(self, schemas: Sequence[Schema]) -> dict[str, str]:
        return {schema["function"]["name"]: f"- {described(schema)}" for schema in schemas}

    def schemas(self, schemas: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
        return ()

    def request(self, request: Request, schemas: Sequence[Schema]) -> Request:
        left_out = _left_out(request.messages)
        if left_out.issuperset(schema["function"]["name"] for schema in schemas):
            left_out = set()  # or it could only end
        return replace(
            request,
            messages=tuple(_alternating(_exchanged(request.messages))),
            tools=(),
            reply_schema=action_schema(schemas, left_out=left_out),
        )

    def completion(
        self, completion: Completion, *, step: int, names: Collection[str], again: bool
    ) -> Completion:
        if completion.finish_reason in {"length", "content_filter"} or not completion.message.content.strip():
            return completion
        action = read_action(completion.message.content)
        if action is None:
            # What a model was trained on comes through where its server does not hold it.
            written = sole_call(completion.message.content, names) if again else None
            return (
                _called(completion, step, *written)
                if written
                else replace(completion, fault=prompts.NO_ACTION)
            )
        thought, tool, arguments = action
        if tool == FINISH:
            answer = arguments.get("answer")
            if not isinstance(answer, str) or not answer.strip():
                return replace(completion, fault=prompts.NO_ANSWER)
            message = assistant(answer, extra=completion.message.extra)
            return replace(completion, message=message, finish_reason="stop")
        return _called(completion, step, tool, json.dumps(arguments, ensure_ascii=False), thought)


def _called(completion: Completion, step: int, name: str, arguments: str, text: str = "") -> Completion:
    call = ToolCall(id=_ID.format(step), name=name, arguments=arguments)
    message = assistant(text, call, extra=completion.message.extra)
    return replace(completion, message=message, finish_reason="tool_calls")


NATIVE = NativeCalls()
JSON = JsonActions()


def action_schema(schemas: Sequence[Schema], *, left_out: Collection[str] = ()) -> dict[str, Any]:
    """The JSON schema of one action: a call of one of the tools but those left out, or the answer."""
    functions = [schema["function"] for schema in schemas]
    tools = [(each["name"], each["parameters"]) for each in functions if each["name"] not in left_out]
    answer = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    own = {name: _own_definitions(name, parameters) for name, parameters in tools}
    arguments = {**{name: parameters for name, (parameters, _) in own.items()}, FINISH: answer}
    # OpenAI takes no schema whose root is not said to be an object.
    schema = {
        "type": "object",
        "anyOf": [_action(name, parameters) for name, parameters in arguments.items()],
    }
    definitions = {name: inner for _, defined in own.values() for name, inner in defined.items()}
    return {**schema, "$defs": definitions} if definitions else schema


def _own_definitions(name: str, parameters: Schema) -> tuple[Schema, dict[str, Any]]:
    """The parameters without the definitions in them, and these under names that no other tool has.

    A reference counts from the root of a schema, where these are no more once they stand in another one.
    """
    found = {key: parameters[key] for key in _DEFINITIONS if isinstance(parameters.get(key), Mapping)}
    if not found:
        return parameters, {}

    def moved(node: Any) -> Any:
        if isinstance(node, list):
            return [moved(item) for item in node]
        if not isinstance(node, Mapping):
            return node
        inner = {key: moved(value) for key, value in node.items()}
        root, _, rest = str(node.get("$ref")).removeprefix("#/").partition("/")
        return {**inner, "$ref": f"#/$defs/{name}.{rest}"} if root in found and rest else inner

    definitions = {f"{name}.{key}": moved(inner) for part in found.values() for key, inner in part.items()}
    return moved({key: value for key, value in parameters.items() if key not in found}), definitions


def _left_out(messages: Sequence[Message]) -> set[str]:
    """Tools that would only lead a small model astray now.

    An edit before it has looked, a change right behind a change, what it lately did twice with no change in between.
    """
    waiting: list[ToolCall] = []
    lately: list[tuple[str, str]] | None = None
    changed = False
    for message in messages:
        if message.tool_calls:
            waiting = list(message.tool_calls)
        elif message.role == "tool":
            call = waiting.pop(0)
            changed = call.name in _CHANGES and not message.failed
            lately = [] if changed else [*(lately or ()), (call.name, call.arguments)]
    if lately is None:
        return {_NEEDS_A_LOOK}
    twice = {name for (name, _), times in Counter(lately[-_LATELY:]).items() if times > 1}
    return twice | (_CHANGES if changed else set())


def _action(name: str, parameters: Schema) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"thought": {"type": "string"}, "tool": {"const": name}, "arguments": parameters},
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    }


def action_text(thought: str, call: ToolCall) -> str:
    """A call as one action. Arguments that are no JSON stay as they are, and the action is none then either."""
    said = {"thought": thought} if thought else {}
    fields = json.dumps({**said, "tool": call.name}, ensure_ascii=False)
    return f'{fields[:-1]}, "arguments": {call.arguments}}}'


def answer_text(text: str) -> str:
    """An answer as one action."""
    return json.dumps({"tool": FINISH, "arguments": {"answer": text}}, ensure_ascii=False)


def read_action(text: str) -> tuple[str, str, dict[str, Any]] | None:
    """Thought, tool and arguments of a reply that is one action; None for anything else.

    A server that does not hold the model to the schema lets it write a fence around the object, words or thoughts
    before it, and the mark of its end behind it.
    """
    action = _sole_object(text) or _sole_object(text.partition(_END_OF_THOUGHT)[2])
    if action is None:
        return None
    tool, arguments, thought = action.get("tool"), action.get("arguments", {}), action.get("thought") or ""
    if not (isinstance(tool, str) and isinstance(arguments, dict) and isinstance(thought, str)):
        return None
    return thought, tool, arguments


def _sole_object(text: str) -> dict[str, Any] | None:
    start = text.find("{")
    try:
        found, end = json.JSONDecoder(strict=False).raw_decode(text[start:]) if start >= 0 else (None, 0)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and _NOTHING_MORE.fullmatch(text, start + end) else None


def described(schema: Schema) -> str:
    """A tool as one line: name, parameters with their types where they are no text, and what it does."""
    function = schema["function"]
    line = f"{function['name']}({_fields(function['parameters'])}): {function['description']}"
    return " ".join(line.split())


def _fields(parameters: Schema) -> str:
    required, properties = parameters.get("required"), parameters.get("properties")
    required = required if isinstance(required, list | tuple) else ()
    return ", ".join(
        f"{name}{'' if name in required else '?'}{': ' if (kind := _type(inner)) else ''}{kind}"
        for name, inner in (properties if isinstance(properties, Mapping) else {}).items()
    )


def _type(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return ""
    if (choices := schema.get("enum")) and isinstance(choices, list):
        return " | ".join(str(choice) for choice in choices)
    kind = schema.get("type")
    if kind == "array":
        return f"[{_type(schema.get('items')) or 'text'}, ...]"
    if kind == "object":
        return f"{{{_fields(schema)}}}"
    return _TYPES.get(kind, kind) if isinstance(kind, str) else "any"


def _exchanged(messages: Sequence[Message]) -> Iterable[Message]:
    """Calls and results as text, each call directly before its result."""
    calls: dict[str | None, ToolCall] = {}
    message = assistant()
    for following in messages:
        if following.tool_calls:
            message, calls = following, {call.id: call for call in following.tool_calls}
        elif following.role == "tool":
            call = calls[following.tool_call_id]
            yield assistant(action_text(message.content, call), extra=message.extra)
            yield user(prompts.ACTION_RESULT.format(tool=call.name, result=following.content))
            message = assistant()
        elif following.role == "assistant" and not following.failed:
            yield assistant(answer_text(following.content), extra=following.extra)
        else:
            yield following


def _alternating(messages: Iterable[Message]) -> Iterable[Message]:
    """The same messages with neighbours of one role made one, for templates that insist on it."""
    held: Message | None = None
    for message in messages:
        if held is not None and held.role == message.role:
            held = replace(held, content=f"{held.content}\n\n{message.content}")
            continue
        if held is not None:
            yield held
        held = message
    if held is not None:
        yield held
