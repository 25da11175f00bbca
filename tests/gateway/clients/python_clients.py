# mypy: ignore-errors
# Its libraries are in the environment that runs it, not in the one that is checked.
"""Run by another interpreter: `python_clients.py CLIENT URL KEY MODEL`, asks and prints JSON."""

import asyncio
import json
import sys
from typing import Any

import pydantic


class City(pydantic.BaseModel):
    """A city and its inhabitants."""

    name: str
    people: int


def langchain(url: str, key: str, model: str) -> dict[str, Any]:
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return city

    chat = ChatOpenAI(model=model, base_url=f"{url}/v1", api_key=key, max_retries=0)
    found: dict[str, Any] = {"plain": chat.invoke("Hi").content}
    found["streamed"] = "".join(str(one.content) for one in chat.stream("Hi"))
    asked = chat.bind_tools([weather]).invoke("Call Rome and Oslo")
    found["calls"] = [one["args"] for one in asked.tool_calls]
    found["schema"] = chat.with_structured_output(City, method="json_schema").invoke("Rome").name
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    found["image"] = chat.invoke([HumanMessage(content=[image])]).content
    if "gpt" in model:
        made = OpenAIEmbeddings(
            model="text-embedding-3-small",
            base_url=f"{url}/v1",
            api_key=key,
            check_embedding_ctx_length=False,
        )
        found["embedding"] = len(made.embed_query("x"))
    try:
        ChatOpenAI(
            model="openai/text-only",
            base_url=f"{url}/v1",
            api_key=key,
            max_retries=0,
        ).bind_tools([weather]).invoke("Hi")
    except Exception as error:
        found["refused"] = str(error)
    return found


def pydantic_ai(url: str, key: str, model: str) -> dict[str, Any]:
    from pydantic_ai import Agent
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
        found: dict[str, Any] = {"plain": (await agent.run("Hi")).output}
        async with agent.run_stream("Hi") as stream:
            found["streamed"] = [one async for one in stream.stream_text()][-1]
        seen: list[str] = []
        tooled: Any = Agent(made(model))

        @tooled.tool_plain
        def weather(city: str) -> str:
            """Tell the weather."""
            seen.append(city)
            return "sunny"

        found["after tools"] = (await tooled.run("Call Rome and Oslo")).output
        found["calls"] = seen
        typed: Any = Agent(made(model), output_type=City)
        found["schema"] = (await typed.run("Rome")).output.name
        try:
            await Agent(made("openai/text-only"), output_type=City).run("Hi")
        except Exception as error:
            found["refused"] = str(error)
        return found

    return asyncio.run(run())


def instructor(url: str, key: str, model: str) -> dict[str, Any]:
    import instructor as library
    import openai

    client = library.from_openai(openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0))
    asked: Any = {
        "model": model,
        "response_model": City,
        "messages": [{"role": "user", "content": "Rome"}],
        "max_retries": 0,
    }
    found: dict[str, Any] = {"schema": client.chat.completions.create(**asked).name}
    try:
        client.chat.completions.create(**{**asked, "model": "openai/text-only"})
    except Exception as error:
        found["refused"] = str(error)
    return found


CLIENTS = {"langchain": langchain, "pydantic-ai": pydantic_ai, "instructor": instructor}

if __name__ == "__main__":
    client, *given = sys.argv[1:]
    print(json.dumps(CLIENTS[client](*given)))
