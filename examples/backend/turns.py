"""One turn of a chat: the model is asked, its calls are answered, and each step is committed with the host's messages."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anthropic import AsyncAnthropic
from models import Message
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

import byref

sys.path.append(str(Path(__file__).parents[1]))
import shop

MODEL = "claude-sonnet-5"
CUT = byref.ToolError("not run: your message was cut off inside its calls")
"""The output of calls that max_tokens may have cut off: their input may be a part of what the model was about to write."""


@dataclass(frozen=True)
class Backend:
    """The objects that a process has once."""

    byref: byref.AsyncEngine
    sessions: async_sessionmaker[AsyncSession]
    client: AsyncAnthropic


async def turn(backend: Backend, customer: str, chat: str, text: str) -> AsyncIterator[str]:
    """Store what a user says, and yield the model's reply as it comes."""
    async with backend.sessions.begin() as db:
        db.add(Message(customer=customer, chat=chat, role="user", content=text))
        session = await backend.byref.session(chat, tenant=customer, model=MODEL, db=db)
        tools = shop.definitions("anthropic") + await session.tools("anthropic")
    calls: list[Any] = [None]
    while calls:
        # No transaction is open while the model writes or a tool works.
        messages = await history(backend, customer, chat)
        async with backend.client.messages.stream(
            model=MODEL, max_tokens=4096, messages=messages, tools=tools
        ) as stream:
            async for piece in stream.text_stream:
                yield piece
            response = await stream.get_final_message()
        calls = [block for block in response.content if block.type == "tool_use"]
        session = await backend.byref.session(chat, tenant=customer)
        # The answer is paid for, whatever becomes of its calls; and what they give was not in its context.
        await session.record_usage(response, request_id=response.id)
        outputs = await outputs_of(session, calls) if response.stop_reason == "tool_use" else [CUT for _ in calls]
        async with backend.sessions.begin() as db:
            # One transaction: the assistant's message, its tool results and the data of the host's tools are stored together, or not
            # at all.
            session = await backend.byref.session(chat, tenant=customer, db=db)
            said = [
                block.model_dump(mode="json", include={"type", "text", "id", "name", "input"})
                for block in response.content
            ]
            if said:  # a message without content would be refused
                db.add(Message(customer=customer, chat=chat, role="assistant", content=said))
            if calls:
                results = [await result(session, call, output) for call, output in zip(calls, outputs, strict=True)]
                db.add(Message(customer=customer, chat=chat, role="user", content=results))


async def history(backend: Backend, customer: str, chat: str) -> list[Any]:
    """Return the messages of a chat, oldest first."""
    chosen = select(Message).where(Message.customer == customer, Message.chat == chat).order_by(Message.id)
    async with backend.sessions() as db:
        return [{"role": message.role, "content": message.content} for message in await db.scalars(chosen)]


async def outputs_of(session: byref.AsyncSession, calls: list[Any]) -> list[Any]:
    """Run the host's tools side by side, then byref's own in order: code may use what the code before it made."""
    owned = [await session.owns(call.name) for call in calls]
    running = [output_of(session, call) for call, is_ours in zip(calls, owned, strict=True) if not is_ours]
    outputs = iter(await asyncio.gather(*running))
    return [
        await session.call(call.name, call.input, call_id=call.id) if is_ours else next(outputs)
        for call, is_ours in zip(calls, owned, strict=True)
    ]


async def output_of(session: byref.AsyncSession, call: Any) -> object:
    """Run one of the host's tools, and return its output or its error."""
    try:
        arguments = await session.resolve(call.input, shop.SCHEMAS.get(call.name), tool=call.name, call_id=call.id)
        return await asyncio.to_thread(shop.TOOLS[call.name], **arguments)
    except Exception as error:  # noqa: BLE001  the model reads what went wrong, and corrects it
        return error


async def result(session: byref.AsyncSession, call: Any, output: object) -> Any:
    """Return the tool result as the model reads it; what byref's own tools gave is stored already."""
    if isinstance(output, byref.ToolReply):
        return output.message("anthropic", call.id)["content"][0]
    failed = isinstance(output, Exception)
    read = await session.process(output, tool=call.name, call_id=call.id, arguments=call.input, is_error=failed)
    return read.message("anthropic", call.id)["content"][0]
