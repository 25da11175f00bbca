"""`modelpact chat` on a real pseudo-terminal, against the mock and fakes on real sockets."""

import re
import stat
from pathlib import Path

import pytest

import modelpact as mp
from modelpact.configuration import Configuration
from modelpact.ledger.reader import LedgerReader
from modelpact.sessions import find_machine, required_set
from tests.cli.terminal import Terminal
from tests.fakes.anthropic import FakeAnthropic
from tests.fakes.openai import FakeOpenAI
from tests.fakes.openai_rules import MODELS, Model
from tests.fakes.replies import Call, Fail, Reply, Step, hang
from tests.fakes.server import FakeServer

SMALL = '[models."mock/small"]\ntool_calling = false\ncontext_window = 8192\n'
REFUSED = "openai/gpt-4o-2024-05-13"


def configure(folder: Path, more: str = "", **fakes: FakeServer) -> None:
    providers = (f'[providers.{name}]\nbase_url = "{fake.base_url}"\n' for name, fake in fakes.items())
    (folder / "modelpact.toml").write_text("\n".join([more, *providers]))


def events(folder: Path) -> list[str]:
    with LedgerReader.open(f"sqlite:{folder / 'data' / 'modelpact.db'}") as reader:
        return [event.type for event in reader.latest_events(1_000)]


def test_a_refused_switch_explains_itself_and_suggests_a_model_that_works(tmp_path: Path) -> None:
    """MP-I3: a person can "switch models, be refused, read why, and take the suggestion"."""
    needs = required_set(find_machine("review", Configuration()))
    suggestion = mp.suggest(needs, prefer_provider=REFUSED.partition("/")[0], exclude=(REFUSED,))
    assert suggestion is not None
    suggested = suggestion.target.removeprefix("openai/")
    models = [*MODELS, Model(suggested)]
    with FakeOpenAI(models=models).in_thread() as openai, FakeAnthropic().in_thread() as anthropic:
        configure(tmp_path, openai=openai, anthropic=anthropic)
        with Terminal("chat", "--model", "openai/gpt-4o", cwd=tmp_path) as terminal:
            terminal.enter("Hello")
            terminal.expect("You said: Hello")
            terminal.enter("/sm attach review")
            terminal.expect("review is attached")
            terminal.enter(f"/model {REFUSED}")
            terminal.expect(f"{REFUSED} is refused: it does not meet 1 need.")
            terminal.expect_match(r"structured-output +is not supported +required by \S*review/judge")
            terminal.expect("Still on openai/gpt-4o; nothing has changed.")
            terminal.expect(f"Suggestion: openai/{suggested} meets every hard need.")
            terminal.enter("/model")
            terminal.expect(f"openai/gpt-4o ❯ /model openai/{suggested}")
            assert "session.switched" not in events(tmp_path)
            terminal.type("\r")
            terminal.expect(f"Now on openai/{suggested} (before: openai/gpt-4o).")
            terminal.enter("Still there?")
            terminal.expect("You said: Still there?")
            terminal.enter("/model anthropic/claude-opus-4-5")
            terminal.expect("Now on anthropic/claude-opus-4-5")
            terminal.enter("And you?")
            terminal.expect("You said: And you?")
            terminal.enter("/cost")
            terminal.expect_match(r"claude-opus-4-5 +1 +\$0\.\d+")
            terminal.enter("/audit why")
            terminal.expect("└─ because of session/")
            terminal.enter("/quit")
            assert terminal.ended() == 0
    assert [body["model"] for body in openai.bodies] == ["gpt-4o", suggested]
    (last,) = anthropic.bodies
    assert [message["role"] for message in last["messages"]] == ["user", "assistant"] * 2 + ["user"]


def test_the_mock_works_at_once(tmp_path: Path) -> None:
    """MP-I3: `chat` "works at once with the bundled mock"."""
    with Terminal("chat", cwd=tmp_path) as terminal:
        terminal.enter("Hello")
        terminal.expect("You said: Hello")
        terminal.enter("/sm attach review")
        terminal.expect("review is attached")
        terminal.enter("/needs")
        terminal.expect_match(r"✓ +structured-output\S* +native +state-machine:review/judge")
        terminal.enter("/sm detach")
        terminal.expect("Detached")
        terminal.enter("/needs")
        terminal.expect("Nothing is required of mock/demo")
        terminal.at_prompt()
        terminal.type("\x04")
        assert terminal.ended() == 0
        terminal.expect("modelpact chat --resume ")


PAGE = (Path(__file__).parents[2] / "docs" / "chat.md").read_text(encoding="utf-8")
WALK, SETTINGS, STORY = re.findall(r"```(?:toml|text)\n(.*?)```", PAGE, re.DOTALL)[:3]


@pytest.mark.parametrize(("settings", "story"), [("", WALK), (SETTINGS, STORY)])
def test_the_stories_in_the_documentation(tmp_path: Path, settings: str, story: str) -> None:
    """MP-I3, as docs/chat.md shows it, without a key."""
    configure(tmp_path, settings)
    first, *lines = story.splitlines()
    with Terminal(*first.split()[2:], cwd=tmp_path) as terminal:
        for place, line in enumerate(lines):
            prompt, typed, text = line.partition(" ❯ ")
            if typed and place and lines[place - 1].startswith("Suggested:"):
                terminal.expect(line)  # the offer stands there, and Enter takes it
                terminal.type("\r")
            elif typed:
                terminal.expect(prompt)
                terminal.enter(text)
            else:
                terminal.expect(line)
        terminal.at_prompt()
    assert [event for event in events(tmp_path) if event in ("session.rejected", "session.switched")] == [
        *("session.rejected", "session.switched")
    ]


def test_completion_lists_models_with_their_fit(tmp_path: Path) -> None:
    """MP-I4: `chat` "completes model names with their fit"."""
    configure(tmp_path, SMALL)
    with Terminal("chat", "--model", "mock/demo", "--need", "tools", cwd=tmp_path) as terminal:
        terminal.at_prompt()
        terminal.type("/mo")
        terminal.expect("switch models, negotiated first")
        terminal.type("del ")
        terminal.expect_match(r"✓ mock/demo +fits")
        terminal.expect_match(r"✗ mock/small +tool-calling is missing")
        terminal.type("openai/gpt-4o-mi")
        terminal.expect_match(r"✓ openai/gpt-4o-mini +fits; no key")
        terminal.type("\x15/sm attach r")
        terminal.expect_match(r"\n +review\b")
        terminal.type("\x15/params temp")
        terminal.expect("temperature=")


def test_ctrl_c_stops_an_answer_and_not_the_program(tmp_path: Path) -> None:
    """MP-I4: it "stops an answer on Ctrl-C without ending the program"."""
    with FakeOpenAI([Reply(text="A long story that", fault=hang(3)), "Well."]).in_thread() as fake:
        configure(tmp_path, openai=fake)
        with Terminal("chat", "--model", "openai/gpt-4o", cwd=tmp_path) as terminal:
            terminal.enter("Tell me a story")
            terminal.expect("A long")
            terminal.type("typed ahead")
            terminal.type("\x03")
            terminal.expect("Stopped. The message is kept as unfinished")
            terminal.expect("openai/gpt-4o ❯")
            assert fake.gone == 1
            assert "capability.cancelled" in events(tmp_path)
            terminal.type("\x15")
            terminal.enter("/history")
            terminal.expect("you  Tell me a story  (unfinished: it got no answer)")
            terminal.enter("Now?")
            terminal.expect("Well.")
            terminal.at_prompt()
            terminal.type("half a line\x03")
            terminal.at_prompt()
            terminal.type("\x03")
            terminal.expect("Press Ctrl-C again, or Ctrl-D, to leave.")
            terminal.at_prompt()
            terminal.type("\x03")
            assert terminal.ended() == 0
    assert [body["content"] for body in fake.bodies[-1]["messages"]] == ["Now?"]


def test_killed_in_the_middle_of_an_answer_and_resumed(tmp_path: Path) -> None:
    """MP-I4: it "saves and resumes sessions, and survives a crash"."""
    script: list[Step] = ["First.", Reply(text="A long story that", fault=hang(3)), "Third."]
    with FakeOpenAI(script).in_thread() as fake:
        configure(tmp_path, openai=fake)
        with Terminal("chat", "--model", "openai/gpt-4o", cwd=tmp_path) as terminal:
            terminal.enter("One")
            terminal.expect("First.")
            terminal.enter("/params temperature=0.5")
            terminal.expect("temperature  0.5")
            terminal.enter("Two")
            terminal.expect("A long")
            terminal.kill()
        with Terminal("chat", "--resume", cwd=tmp_path) as terminal:
            terminal.expect("Resumed session")
            terminal.expect("One message has no answer")
            terminal.expect("you  Two  (unfinished: it got no answer)")
            terminal.enter("Three")
            terminal.expect("Third.")
            terminal.enter("/params")
            terminal.expect("temperature  0.5")
            terminal.enter("/quit")
            assert terminal.ended() == 0
    last = fake.bodies[-1]
    assert [message["content"] for message in last["messages"]] == ["One", "First.", "Three"]
    assert last["temperature"] == 0.5
    with LedgerReader.open(f"sqlite:{tmp_path / 'data' / 'modelpact.db'}") as reader:
        errors = [event.payload.get("error", "") for event in reader.latest_events(1_000)]
    assert any(str(entry).startswith("interrupted") for entry in errors)


def test_a_resumed_session_whose_model_no_longer_fits_waits_for_a_switch(tmp_path: Path) -> None:
    """Nothing silently downgrades, also not between two runs of the program."""
    configure(tmp_path, '[models."mock/mine"]\ntool_calling = true\n')
    with Terminal("chat", "--model", "mock/mine", "--need", "tools", cwd=tmp_path) as terminal:
        terminal.enter("One")
        terminal.expect("You said: One")
        terminal.enter("/quit")
        assert terminal.ended() == 0
    configure(tmp_path, '[models."mock/mine"]\ntool_calling = false\n')
    with Terminal("chat", "--resume", cwd=tmp_path) as terminal:
        terminal.expect("mock/mine no longer fits: it does not meet 1 need.")
        terminal.expect_match(r"tool-calling +is not supported +required by you")
        terminal.expect("Nothing is sent until you choose a model that fits. The history is kept.")
        terminal.enter("Two")
        terminal.at_prompt()
        assert "You said: Two" not in terminal.text
        terminal.enter("/model")
        terminal.expect("mock/mine ❯ /model mock/demo")
        terminal.type("\r")
        terminal.expect("Now on mock/demo (before: mock/mine).")
        terminal.enter("Three")
        terminal.expect("You said: Three")
        terminal.enter("/history")
        terminal.expect("you  One")
        terminal.enter("/quit")
        assert terminal.ended() == 0


def test_a_resumed_session_reports_what_its_model_lost_meanwhile(tmp_path: Path) -> None:
    configure(tmp_path, '[models."mock/mine"]\ntool_calling = true\n')
    arguments = ("chat", "--model", "mock/mine", "--need", "tools:preferred")
    with Terminal(*arguments, cwd=tmp_path) as terminal:
        terminal.enter("/params top_k=3")
        terminal.expect("✓  top_k")
        terminal.enter("/quit")
        assert terminal.ended() == 0
    configure(tmp_path, '[models."mock/mine"]\ntool_calling = false\ntop_k = false\n')
    with Terminal("chat", "--resume", cwd=tmp_path) as terminal:
        terminal.expect_match(r"! +tool-calling:preferred +is not supported +for you")
        terminal.expect("top_k will not apply: mock/mine has no top-k (your modelpact.toml)")


def test_control_characters_in_answers_are_escaped(tmp_path: Path) -> None:
    nasty = "\x1b]0;owned\x07\x1b[2Jred \x1b[31mtext\rover \u202eevil\ttab\r\nnext"
    with FakeOpenAI([Reply(text=nasty)], piece=1).in_thread() as fake:
        configure(tmp_path, openai=fake)
        with Terminal("chat", "--model", "openai/gpt-4o", cwd=tmp_path) as terminal:
            terminal.enter("Hi")
            terminal.expect(r"\x1b]0;owned\x07\x1b[2Jred \x1b[31mtext\rover \u202eevil")
            terminal.expect("next")
    assert b"\x1b]0;owned" not in terminal.raw
    assert "\u202e".encode() not in terminal.raw


def test_thinking_is_dimmed_and_tool_calls_are_shown_and_answered(tmp_path: Path) -> None:
    thought = Reply(text="Done.", thinking="Hmm, let me see.")
    called = Reply(calls=(Call("look_up", {"word": "pact"}, "toolu_1"),))
    tool = '{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}'
    with FakeAnthropic([thought, called, "It is an agreement."]).in_thread() as fake:
        configure(tmp_path, anthropic=fake)
        with Terminal("chat", "--model", "anthropic/claude-sonnet-4-5", cwd=tmp_path) as terminal:
            terminal.enter('/params thinking={"type": "enabled", "budget_tokens": 1024}')
            terminal.expect("✓  thinking")
            terminal.enter("Think")
            terminal.expect("Done.")
            assert terminal.raw.count(b"\x1b[2mHmm, le") == 1
            terminal.enter(f"/params -thinking tools=[{tool}]")
            terminal.expect("✓  tools")
            terminal.enter("What is a pact?")
            terminal.expect('⚙ look_up({"word": "pact"})')
            terminal.expect("result of look_up ❯")
            terminal.type("an agreement\r")
            terminal.expect("It is an agreement.")
            terminal.at_prompt()
    sent = fake.bodies[-1]["messages"][-1]
    assert sent["content"][0]["type"] == "tool_result"


def test_a_provider_error_is_one_line_and_the_session_continues(tmp_path: Path) -> None:
    script: list[Step] = [Fail(401), Fail(429, retry_after=7), Fail(503), "At last."]
    with FakeOpenAI(script).in_thread() as fake:
        configure(tmp_path, openai=fake)
        with Terminal("chat", "--model", "openai/gpt-4o", cwd=tmp_path) as terminal:
            terminal.enter("One")
            terminal.expect("check the key")
            terminal.enter("Two")
            terminal.expect("send it again in 7 s")
            terminal.enter("Three")
            terminal.expect("send it again, or")
            terminal.enter("/model anthropic/claude-opus-4-5")
            terminal.expect("anthropic: no key: set ANTHROPIC_API_KEY")
            terminal.enter("/params top_k=5")
            terminal.expect("top_k will not apply")
            terminal.enter("Four")
            terminal.expect("nothing was sent, openai/gpt-4o does not take what is set: top_k=5")
            terminal.expect("has no top-k (rule “openai: every chat model”); /params -top_k")
            terminal.expect("switches to another model, and [policy] unsupported_params")
            terminal.enter("/params -top_k")
            terminal.expect("No parameters are set")
            terminal.enter("Five")
            terminal.expect("At last.")
            terminal.at_prompt()


def test_the_history_file_is_private(tmp_path: Path) -> None:
    with Terminal("chat", cwd=tmp_path) as terminal:
        terminal.enter("Remember me")
        terminal.expect("You said: Remember me")
        terminal.enter("/quit")
        assert terminal.ended() == 0
    history = tmp_path / "data" / "chat_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    with Terminal("chat", cwd=tmp_path) as terminal:
        terminal.at_prompt()
        terminal.type("\x1b[A\x1b[A\r")
        terminal.expect("You said: Remember me")
