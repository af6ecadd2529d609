import pytest

from chimera.models.faults import ProviderFault
from chimera.models.parameters import Parameters


def refused(text: str, status: int = 400) -> ProviderFault:
    return ProviderFault(text=text, status=status)


@pytest.mark.case("E8")
def test_a_parameter_is_renamed_once_and_then_dropped() -> None:
    parameters = Parameters({})
    text = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    assert "max_completion_tokens is sent instead" in (parameters.learn(refused(text)) or "")
    assert parameters.sent(9)["max_completion_tokens"] == 9
    assert "max_tokens" not in parameters.sent(9)
    assert "is not sent" in (parameters.learn(refused("max_completion_tokens is not supported")) or "")
    assert not {"max_tokens", "max_completion_tokens"} & set(parameters.sent(9))


@pytest.mark.case("E8")
def test_only_the_named_parameter_is_dropped_and_that_is_remembered() -> None:
    parameters = Parameters({"temperature": 0.2, "top_p": 0.9})
    assert parameters.learn(refused("Unsupported value: 'temperature' does not support 0.2 with this model."))
    assert parameters.sent(5) == {
        "max_tokens": 5, "stream_options": {"include_usage": True}, "top_p": 0.9,
    }  # fmt: skip


@pytest.mark.parametrize(
    "fault",
    [
        refused("temperature must be between 0 and 2"),
        refused("Unsupported parameter: 'frequency'"),
        refused("messages: unexpected role"),
        refused("temperature is not supported", 500),
        refused("Unknown field messages[0].temperature_x"),
    ],
    ids=lambda fault: fault.text,
)
def test_a_refusal_that_names_nothing_we_sent_changes_nothing(fault: ProviderFault) -> None:
    parameters = Parameters({"temperature": 3})
    before = parameters.sent(1)
    assert parameters.learn(fault) is None
    assert parameters.sent(1) == before


def test_learning_ends() -> None:
    parameters = Parameters({"temperature": 1})
    fault = refused("unsupported: max_tokens, max_completion_tokens, temperature, stream_options")
    notices = []
    while notice := parameters.learn(fault):
        notices.append(notice)
    assert len(notices) == 4
    assert parameters.sent(1) == {}


def test_a_limit_given_under_its_newer_name_replaces_ours() -> None:
    sent = Parameters({"max_completion_tokens": 100}).sent(50)
    assert "max_tokens" not in sent
    assert sent["max_completion_tokens"] == 100


BARE = {"role": "assistant", "content": "a"}
KEPT = BARE | {"reasoning_content": "r"}
USER = {"role": "user", "content": "u"}


def test_a_server_that_wants_reasoning_gets_it_and_one_that_refuses_it_does_not() -> None:
    parameters = Parameters({})
    assert parameters.messages([USER, BARE]) == [USER, BARE]
    assert parameters.learn(refused("Missing `reasoning_content` field in the assistant message"))
    assert parameters.messages([USER, BARE, KEPT]) == [USER, BARE | {"reasoning_content": ""}, KEPT]
    assert parameters.learn(refused("Extra inputs are not permitted: messages.1.reasoning_content"))
    assert parameters.messages([BARE, KEPT]) == [BARE, BARE]


@pytest.mark.case("D8")
def test_once_reasoning_has_come_every_message_of_the_model_has_some() -> None:
    parameters = Parameters({})
    filled = BARE | {"reasoning_content": ""}
    assert parameters.messages([USER, KEPT, BARE]) == [USER, KEPT, filled]
    assert parameters.messages([USER, BARE]) == [USER, filled]


def test_signed_thinking_asks_for_no_filling() -> None:
    thought = KEPT | {"thinking_blocks": [{"type": "thinking", "thinking": "r", "signature": "s"}]}
    assert Parameters({}).messages([thought, BARE]) == [thought, BARE]


def test_a_refusal_without_names_lets_the_adapter_drop_what_it_must_once() -> None:
    parameters = Parameters({"odd": 1})
    fault = refused("this model cannot do that")
    assert parameters.learn(fault, unsupported=True)
    assert parameters.drops_all
    assert parameters.learn(fault, unsupported=True) is None
