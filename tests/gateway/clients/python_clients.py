# mypy: ignore-errors
# Its libraries are in the environment that runs it, not in the one that is checked.
"""Run by another interpreter: `python_clients.py CLIENT URL KEY MODEL`, asks and prints JSON."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pydantic


class City(pydantic.BaseModel):
    """A city and its inhabitants."""

    name: str
    people: int


def thinks(model: str) -> str:
    """The model of the same vendor that takes reasoning settings."""
    return "gpt-5" if "gpt" in model else model


def substitute(model: str) -> str:
    """The workload whose fallback is of that vendor."""
    return "substituted" if "gpt" in model else "carried-away"


def failure(work: Callable[[], Any]) -> str:
    """What the client raises: its class and its words."""
    try:
        return f"no error: {work()!r:.200}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def langchain(url: str, key: str, model: str) -> dict[str, Any]:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return city

    chat = ChatOpenAI(model=model, base_url=f"{url}/v1", api_key=key, max_retries=0)
    results: dict[str, Any] = {"plain": chat.invoke("Hi").content}
    results["streamed"] = "".join(str(chunk.content) for chunk in chat.stream("Hi"))
    answer = chat.bind_tools([weather]).invoke("Call Rome and Oslo")
    results["calls"] = [tool_call["args"] for tool_call in answer.tool_calls]
    results["schema"] = chat.with_structured_output(City, method="json_schema").invoke("Rome").name
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    results["image"] = chat.invoke([HumanMessage(content=[image])]).content
    turns = [HumanMessage("Call Rome and Oslo"), answer]
    turns += [ToolMessage("sunny", tool_call_id=tool_call["id"]) for tool_call in answer.tool_calls]
    results["after tools"] = chat.bind_tools([weather]).invoke(turns).content
    pieces = None
    for piece in chat.bind_tools([weather]).stream("Call Rome and Oslo"):
        pieces = piece if pieces is None else pieces + piece
    results["streamed calls"] = [tool_call["args"] for tool_call in pieces.tool_calls]

    def other(name: str, **more: Any) -> ChatOpenAI:
        return ChatOpenAI(model=name, base_url=f"{url}/v1", api_key=key, max_retries=0, **more)

    results["reasoned"] = other(thinks(model), reasoning_effort="low").invoke("Hi").content
    emulated = other("workload/emulated").with_structured_output(City, method="json_schema")
    results["emulated"] = emulated.invoke("Rome").name
    results["substituted"] = other(f"workload/{substitute(model)}").invoke("Hi").content
    results["declined"] = str(chat.invoke("Decline"))
    results["failed"] = failure(lambda: chat.invoke("Fail"))
    results["failed stream"] = failure(lambda: list(chat.stream("Break")))
    if "gpt" in model:
        made = OpenAIEmbeddings(
            model="text-embedding-3-small", base_url=f"{url}/v1", api_key=key, check_embedding_ctx_length=False
        )
        results["embedding"] = len(made.embed_query("x"))
    results["refused"] = failure(lambda: other("openai/text-only").bind_tools([weather]).invoke("Hi"))
    return results


def pydantic_ai(url: str, key: str, model: str) -> dict[str, Any]:
    from pydantic_ai import Agent, ImageUrl
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    def made(name: str) -> Any:
        if "claude" in model:
            import anthropic

            client = anthropic.AsyncAnthropic(api_key=key, base_url=url, max_retries=0)
            return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=client))
        return OpenAIChatModel(name, provider=OpenAIProvider(base_url=f"{url}/v1", api_key=key))

    async def run() -> dict[str, Any]:
        agent: Any = Agent(made(model))
        results: dict[str, Any] = {"plain": (await agent.run("Hi")).output}
        async with agent.run_stream("Hi") as stream:
            results["streamed"] = [text async for text in stream.stream_text()][-1]
        seen: list[str] = []
        tooled: Any = Agent(made(model))

        @tooled.tool_plain
        def weather(city: str) -> str:
            """Tell the weather."""
            seen.append(city)
            return "sunny"

        results["after tools"] = (await tooled.run("Call Rome and Oslo")).output
        results["calls"] = seen
        typed: Any = Agent(made(model), output_type=City)
        results["schema"] = (await typed.run("Rome")).output.name
        image = ImageUrl("https://example.com/a.png")
        results["image"] = (await agent.run([image])).output
        settings = {"openai_reasoning_effort": "low"}
        if "claude" in model:
            thinking = {"type": "enabled", "budget_tokens": 1_024}
            settings = {"anthropic_thinking": thinking, "max_tokens": 3_000}
        reasoned = Agent(made(thinks(model)), model_settings=settings)
        results["reasoned"] = (await reasoned.run("Hi")).output
        emulated: Any = Agent(made("workload/emulated"), output_type=City)
        results["emulated"] = (await emulated.run("Rome")).output.name
        substituted: Any = Agent(made(f"workload/{substitute(model)}"))
        results["substituted"] = (await substituted.run("Hi")).output
        for name, prompt in (("failed", "Fail"), ("declined", "Decline")):
            try:
                results[name] = str((await agent.run(prompt)).output)
            except Exception as error:
                results[name] = f"{type(error).__name__}: {error}"
        try:
            await Agent(made("openai/text-only"), output_type=City).run("Hi")
        except Exception as error:
            results["refused"] = str(error)
        return results

    return asyncio.run(run())


def instructor(url: str, key: str, model: str) -> dict[str, Any]:
    import instructor as library
    import openai

    client = library.from_openai(openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0))
    request: Any = {
        "model": model,
        "response_model": City,
        "messages": [{"role": "user", "content": "Rome"}],
        "max_retries": 0,
    }

    def create(**more: Any) -> Any:
        return client.chat.completions.create(**{**request, **more})

    results: dict[str, Any] = {"schema": create().name}
    plain = create(response_model=None, messages=[{"role": "user", "content": "Hi"}])
    results["plain"] = plain.choices[0].message.content
    partial = client.chat.completions.create_partial(**request)
    results["streamed"] = [city.name for city in partial][-1]
    results["parallel"] = [city.name for city in create(response_model=Iterable[City])]
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    results["image"] = create(messages=[{"role": "user", "content": [image]}]).name
    results["reasoned"] = create(model=thinks(model), reasoning_effort="low").name
    results["emulated"] = create(model="workload/emulated").name
    results["substituted"] = create(model=f"workload/{substitute(model)}").name
    asks = [{"role": "user", "content": "Fail"}]
    results["failed"] = failure(lambda: create(messages=asks))
    results["refused"] = failure(lambda: create(model="openai/text-only"))
    return results


CLIENTS = {"langchain": langchain, "pydantic-ai": pydantic_ai, "instructor": instructor}

if __name__ == "__main__":
    client, *arguments = sys.argv[1:]
    print(json.dumps(CLIENTS[client](*arguments)))
