"""Agents in many sessions at once: tools, streams, cancellation, and nothing lost.

Each session is a conversation that grows. It prints one line of JSON, and exits 1 if a turn got no
answer.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from openai import AsyncOpenAI
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

STOCK = {"door": 3, "key": 40}
MEAN_GAP_SECONDS = 2.0
"""Time between an answer and the next question: an agent works with what it was told."""


@dataclass
class Session:
    """One conversation."""

    id: str
    history: list[ModelMessage] = field(default_factory=list)


def stock_agent(model: OpenAIChatModel) -> Agent[Counter[str], str]:
    """Return an agent with a tool."""
    agent = Agent(model, deps_type=Counter[str], instructions="You know the stock of a shop.")

    @agent.tool
    def in_stock(context: RunContext[Counter[str]], item: str) -> int:
        """Return how many of an item are in stock."""
        context.deps["tool_calls"] += 1
        return STOCK.get(item, 0)

    return agent


async def turn(agent: Agent[Counter[str], str], of: Session, counts: Counter[str]) -> None:
    """Ask one question, and read its answer as it arrives."""
    question = f"How many doors are left, after question {len(of.history)}?"
    async with agent.run_stream(
        question,
        message_history=of.history,
        deps=counts,
        model_settings={"max_tokens": 48, "extra_headers": {"x-session-id": of.id}},
    ) as answer:
        parts = [part async for part in answer.stream_text(delta=True)]
    if not any(parts):
        raise ValueError("the answer is empty")
    counts["parts"] += len(parts)
    of.history = answer.all_messages()


async def leave(agent: Agent[Counter[str], str], of: Session, counts: Counter[str]) -> None:
    """Ask for a long answer, and leave after its first part, as a user does who stops an agent."""
    async with agent.run_stream(
        "Tell me everything.",
        deps=counts,
        model_settings={
            "max_tokens": 4000,
            "extra_body": {"ignore_eos": True},
            "extra_headers": {"x-session-id": of.id},
        },
    ) as answer:
        async for _ in answer.stream_text(delta=True):
            counts["left"] += 1
            return


async def session(
    agent: Agent[Counter[str], str], number: int, seconds: float, counts: Counter[str]
) -> list[str]:
    """Ask until the time is over; return the errors."""
    of, errors = Session(f"session-{os.getpid()}-{number}"), list[str]()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if number % 10 == 0:
                await leave(agent, of, counts)
            await turn(agent, of, counts)
            counts["turns"] += 1
        except Exception as error:  # noqa: BLE001 - any of the framework is a turn that was lost
            errors.append(f"{of.id}: {type(error).__name__}: {error}")
        await asyncio.sleep(random.uniform(0, 2 * MEAN_GAP_SECONDS))  # noqa: S311 - a pause
    return errors


async def main() -> int:
    """Run the sessions of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="llama-3.1-8b")
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30)
    options = parser.parse_args()
    client = AsyncOpenAI(max_retries=5)  # reads OPENAI_BASE_URL and OPENAI_API_KEY
    model = OpenAIChatModel(options.model, provider=OpenAIProvider(openai_client=client))
    agent, counts = stock_agent(model), Counter[str]()
    lists = await asyncio.gather(
        *(session(agent, each, options.seconds, counts) for each in range(options.sessions))
    )
    errors = [error for found in lists for error in found]
    found = {"sessions": options.sessions, "seconds": options.seconds, **counts, "errors": errors}
    sys.stdout.write(f"{json.dumps(found)}\n")
    return 1 if errors else 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
