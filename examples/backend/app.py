"""A chat backend with FastAPI: its own SQLAlchemy session and migrations, byref beside them, replies as they come.

cd examples/backend && python migrate.py && uvicorn app:app    # DATABASE_URL and ANTHROPIC_API_KEY say where and who
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from anthropic import AsyncAnthropic
from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import StreamingResponse
from models import Message
from pydantic import BaseModel
from sqlalchemy import delete, make_url
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from turns import Backend, history, turn

import byref

DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg"}


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open what the process needs, and close it after the last reply: on SIGTERM uvicorn waits for replies in progress."""
    url = make_url(os.environ.get("DATABASE_URL", "sqlite:///chat.db"))
    engine = create_async_engine(url.set(drivername=DRIVERS[url.get_backend_name()]))
    async with byref.AsyncEngine(url, create=False) as passing, AsyncAnthropic() as client:
        app.state.backend = Backend(passing, async_sessionmaker(engine), client)
        yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


def customer(x_customer: Annotated[str, Header()]) -> str:
    """Return the customer. A real backend takes it from the login, never from the model or the request's body."""
    if not x_customer.strip():
        raise HTTPException(401, "x-customer: expected the customer's name")
    return x_customer


def backend(request: Request) -> Backend:
    """Return the objects of the process."""
    made: Backend = request.app.state.backend
    return made


Customer = Annotated[str, Depends(customer)]
Process = Annotated[Backend, Depends(backend)]


class Said(BaseModel):
    """A user's message."""

    text: str


@app.post("/chats/{chat}/messages")
async def say(chat: str, said: Said, whose: Customer, process: Process) -> StreamingResponse:
    """Stream the model's reply as server-sent events."""

    async def events() -> AsyncIterator[str]:
        async for text in turn(process, whose, chat, said.text):
            yield f"data: {json.dumps(text)}\n\n"
        yield "event: end\ndata: {}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


@app.get("/chats/{chat}")
async def show(chat: str, whose: Customer, process: Process) -> dict[str, Any]:
    """Return a chat: its messages, and what byref stores of it."""
    session = await process.byref.session(chat, tenant=whose)
    return {
        "messages": await history(process, whose, chat),
        "variables": [variable.name for variable in await session.variables()],
        "context_tokens": await session.context_tokens(),
    }


@app.delete("/chats/{chat}", status_code=204)
async def forget(chat: str, whose: Customer, process: Process) -> None:
    """Delete a chat, and everything that byref stores of it."""
    async with process.sessions.begin() as db:
        await db.execute(delete(Message).where(Message.customer == whose, Message.chat == chat))
    await process.byref.delete_session(chat, tenant=whose)
