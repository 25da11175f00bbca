"""Invalid input gets a clear error and changes nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from modelpact import InputError, ModelpactError
from modelpact.conversation.message import Message, TextBlock
from modelpact.dispatch.model_caller import ModelCaller
from modelpact.ledger import Ledger
from modelpact.providers.runtime.runtime import Runtime
from modelpact.sessions import ContextProvider, Hook, Session, Stage, StateMachine
from tests.sessions.support import opened, seen, stored

Act = Callable[[Session], object]
ATTEMPTS: list[tuple[Act, str]] = [
    (lambda s: s.switch_model("opnai/gpt-5"), "unknown provider 'opnai'; did you mean openai"),
    (lambda s: s.switch_model("openai/"), "named PROVIDER/MODEL"),
    (lambda s: s.switch_model(""), "named PROVIDER/MODEL"),
    (lambda s: s.switch_model("a\nb"), "named PROVIDER/MODEL"),
    (lambda s: s.switch_model(None), "named PROVIDER/MODEL"),  # type: ignore[arg-type]
    (lambda s: s.switch_model("x" * 400), "too long"),
    (lambda s: s.switch_provider("opnai"), "unknown provider 'opnai'; did you mean openai"),
    (lambda s: s.switch_provider(7), "unknown provider 7"),  # type: ignore[arg-type]
    (lambda s: s.switch_provider("vllm"), "name one: /model vllm/MODEL"),
    (lambda s: s.fit(""), "named PROVIDER/MODEL"),
    (lambda s: s.set_params([1]), "/params: parameters are an object"),  # type: ignore[arg-type]
    (lambda s: s.set_params({"temperature": "hot"}), "/params: temperature: expected a number"),
    (lambda s: s.set_params({"model": "x"}), "/params: model is not a parameter"),
    (lambda s: s.set_params({"stream": True}), "call stream instead"),
    (lambda s: s.set_params({1: 2}), "name is a text, not 1"),  # type: ignore[dict-item]
    (lambda s: s.set_params({"x": float("inf")}), "not finite"),
    (lambda s: s.set_params({"x": object()}), "/params: "),
    (lambda s: s.set_params({"x": "\ud800"}), "not valid Unicode"),
    (lambda s: s.set_params({"tools": [{"name": 1}]}), r"/params: tools\[0\]"),
    (lambda s: s.set_params({"top_k": True}), "top_k: expected a whole number"),
    (lambda s: s.set_params({"thinking": 4}), "thinking: expected an object"),
    (lambda s: s.unset_params("seed"), "'seed' is not set"),
    (lambda s: s.set_params({"openai_key": "x"}), "put keys in the environment"),
    (lambda s: s.set_params({"extra_headers": {"Authorization": "x"}}), "'Authorization' names"),
    (lambda s: s.set_params({"extra_headers": [["X-Api-Key", "x"]]}), "'X-Api-Key' names"),
    (lambda s: s.set_params({"extra_body": {"a": [{"api_key": "x"}]}}), "'api_key' names"),
    (lambda s: s.set_params({"seed": 1}, unset=["stop"]), "'stop' is not set"),
    (lambda s: s.attach(None), "state machine: "),  # type: ignore[arg-type]
    (lambda s: s.attach({"name": "x", "stages": 4}), "state machine: "),
    (lambda s: s.attach({"name": "x", "colour": 4}), "unknown field `colour`"),
    (lambda s: s.attach(StateMachine("x", needs=("flux",))), "state-machine:x: needs.0.: unknown"),
    (
        lambda s: s.attach(StateMachine("x", (Stage("a", ("streaming:always",)),))),
        "state-machine:x/a: needs.0.: unknown level",
    ),
    (lambda s: s.attach(StateMachine("x", (Stage("a"), Stage("a")))), "a is there twice"),
    (lambda s: s.attach(StateMachine("", ())), "1 to 120 visible characters"),
    (lambda s: s.attach(StateMachine("x", contract="soon")), "state-machine:x: contract: 'soon'"),
    (
        lambda s: s.attach(StateMachine("x", needs=("caching=prompt-caching", "caching=context-caching"))),
        "cannot be both",
    ),
    (lambda s: s.detach(), "no state machine is attached"),
    (lambda s: s.reload(context_providers=ContextProvider("x")), "several"),  # type: ignore[arg-type]
    (lambda s: s.reload(context_providers=[ContextProvider("x"), ContextProvider("x")]), "there twice"),
    (lambda s: s.reload(context_providers=[ContextProvider("x", tokens=-1)]), "tokens"),
    (lambda s: s.reload(hooks=[Hook("x", "eat", "tokens")]), "hook: "),  # type: ignore[arg-type]
    (lambda s: s.spawn("nobody/model/x", id="../x"), "id: 1 to 64"),
    (lambda s: s.spawn(id="a"), "there is a session a already"),
    (lambda s: s.send(""), "nothing to send"),
    (lambda s: s.send([]), "the last message must be"),
    (lambda s: s.send(4), "expected a text, a Message or several"),  # type: ignore[arg-type]
    (lambda s: s.send([4]), "a message is a text or a Message"),  # type: ignore[list-item]
    (lambda s: s.send(Message("assistant", (TextBlock("me"),))), "the last message must be"),
]


@pytest.mark.parametrize(("act", "error"), ATTEMPTS, ids=range(len(ATTEMPTS)))
def test_invalid_input_changes_nothing(ledger: Ledger, act: Act, error: str) -> None:
    session = opened(ledger, id="a")
    before = seen(session), stored(ledger, session), len(ledger.events("session/a"))
    with pytest.raises(InputError, match=error):
        act(session)
    assert (seen(session), stored(ledger, session), len(ledger.events("session/a"))) == before
    assert session.send("still here").text == "You said: still here"


def test_a_name_with_a_slash_may_be_a_model_of_the_provider_in_use(ledger: Ledger) -> None:
    session = opened(ledger, "vllm/meta-llama/llama-3")
    session.switch_model("qwen/qwen-3")
    assert session.target == "vllm/qwen/qwen-3"
    session.switch_model("claude/gpt-full")
    assert session.target == "anthropic/gpt-full"


@pytest.mark.parametrize(
    ("target", "how", "error"),
    [
        ("nobody/model", {}, "unknown provider 'nobody'"),
        ("model", {}, "'model' has no provider: write PROVIDER/MODEL"),
        ("openai/gpt-full", {"policy": "refuse"}, "policy is a Policy"),
        ("openai/gpt-full", {"default_params": {"n": None}}, "defaultParams: n has"),
        ("openai/gpt-full", {"launch": {"stop": 4}}, "launch: stop"),
        ("openai/gpt-full", {"security": {"mode": "loose"}}, "security mode: "),
        ("openai/gpt-full", {"id": "a b"}, "id: 1 to 64"),
    ],
)
def test_a_session_that_cannot_be_opened(ledger: Ledger, target: str, how: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError, match=error):
        opened(ledger, target, **how)
    assert ledger.read("SELECT COUNT(*) FROM sessions") == [(0,)]


def test_a_missing_key_is_reported_when_the_session_opens(ledger: Ledger) -> None:
    models = ModelCaller(Runtime(ledger), environment={})
    with pytest.raises(ModelpactError, match="OPENAI_API_KEY"):
        Session.open("openai/gpt-5", ledger=ledger, models=models)
