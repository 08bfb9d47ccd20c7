"""`openai`: a language model behind a server that speaks OpenAI's chat completions, such as vLLM, SGLang or llama.cpp.

A prediction is generated, thinking off and capped; how likely what really came was is not asked. Nothing is kept here
from call to call, so none leaves a trace; what a server has computed for the same beginning is the server's to reuse.
"""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import anyio
import httpx2
import msgspec

from verifierd.config import ModelConfig, api_key
from verifierd.errors import PredictorError
from verifierd.paths import expanded
from verifierd.policy import DOMAINS, Asking
from verifierd.predictors import prompt
from verifierd.sanitize import plain
from verifierd.stages import Asked, Message, Reply
from verifierd.types import Abstain, History, Prediction, Step, Tokens

__all__ = ("OpenAIChat", "OpenAIPredictor")

_TRIES = 4
_LONGEST_PAUSE = 30.0
"""Seconds before another try, however long a server asks to wait."""

_LONGEST_REPLY = 1 << 20
"""Bytes of a reply, and as many again for every `_TOKENS` that are asked for: what is longer does not end."""

_TOKENS = 256

_SHOWN = 300
"""Characters of what a server says of an error."""

_SWITCH = "chat_template_kwargs"
_CAP, _NEWER_CAP = "max_tokens", "max_completion_tokens"
_TEMPERATURE = "temperature"
_BUSY = frozenset({408, 425, 429})
_WHY = {
    401: "Name the environment variable that holds the key: `api-key-env` in the configuration's table [model].",
    403: "The key may not use this model; see `api-key-env` in the configuration's table [model].",
    404: "Check --base-url (with its path, such as /v1) and --model, which must be a name that the server knows.",
}

_CHARACTERS = 2
"""Of a token, at least on average: logs are rich in figures and names, and a prompt that is too long is refused."""


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    delta: _Delta | None = None
    message: _Delta | None = None  # of a server that does not stream
    finish_reason: str | None = None


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Chunk(msgspec.Struct, frozen=True):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


class _Passing(Exception):  # noqa: N818 - it may pass
    """What another try may mend.

    Args:
        problem: What is wrong.
        pause: Seconds that the server asks to wait.
    """

    def __init__(self, problem: str, *, pause: float = 0.0) -> None:
        super().__init__(problem)
        self.pause = pause


class _Refused(Exception):  # noqa: N818 - it is answered or reported
    """The server does not take the question.

    Args:
        status: The HTTP status.
        problem: What it said.
    """

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status = status


class _Words(msgspec.Struct, frozen=True, kw_only=True):
    """What a server takes of what is not the same with all.

    Attributes:
        cap: What the most tokens are called.
        temperature: It takes one that is asked for.
        switch: It takes what goes to the model's template, the switch for thinking.
    """

    cap: str = _CAP
    temperature: bool = True
    switch: bool = True


class OpenAIChat:
    """A model behind a server. What may pass (no connection, a busy or failing server) is tried again a few times.

    Args:
        base_url: Where the server is; without a path, `/v1` is meant.
        model: The name that the server knows it by.
        api_key: Sent as a bearer token.
        patience: Seconds that a server may be silent.
        pause: Seconds before the second try; each further pause is twice as long.
        any_temperature: Where the server refuses the temperature that is asked for, its own will do.

    Raises:
        PredictorError: The address is none.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        *,
        patience: float = 300.0,
        pause: float = 1.0,
        any_temperature: bool = False,
    ) -> None:
        self.model = model
        self._url = _address(base_url)
        self._pause = pause
        self._any_temperature = any_temperature
        self._words = _Words()
        self._client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else None,
            timeout=httpx2.Timeout(patience, connect=min(patience, 10.0)),
            # No proxy stands before this machine itself.
            trust_env=self._url.host not in ("localhost", "127.0.0.1", "::1"),
        )

    async def chat(self, messages: Sequence[Message], asked: Asked) -> Reply:
        """The reply; its seconds are those of the try that brought it.

        Raises:
            PredictorError: The server refuses, or it failed each time; or a grammar is asked for.
        """
        if asked.grammar is not None:
            raise PredictorError(
                f"{self._url}: a reply cannot be held to a grammar through a server",
                hint="Servers have ways of their own to say so; take the predictor `mlx`.",
            )
        tries = 0
        while True:
            try:
                return await self._try(messages, asked)
            except _Passing as error:
                tries += 1
                if tries == _TRIES:
                    raise PredictorError(
                        f"{self._url}: {error}, {_TRIES} times in a row",
                        hint="Is the server running, and does it keep up? Its own log says more.",
                    ) from error
                await anyio.sleep(min(_LONGEST_PAUSE, max(error.pause, self._pause * 2 ** (tries - 1))))
            except _Refused as error:
                raise PredictorError(
                    f"{self._url}: the server answered {error.status}: {error}",
                    hint=_WHY.get(error.status, "The server's own log may say more."),
                ) from error

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _try(self, messages: Sequence[Message], asked: Asked) -> Reply:
        words = self._words
        try:
            while True:
                try:
                    reply = await self._said(messages, asked, words)
                    break
                except _Refused as error:
                    words = self._reworded(words, error)
        except httpx2.TimeoutException as error:
            raise _Passing("the server does not answer in time") from error
        except httpx2.TransportError as error:
            raise _Passing(f"no connection: {plain(str(error)) or type(error).__name__}") from error
        self._words = words
        return reply

    def _reworded(self, words: _Words, error: _Refused) -> _Words:
        """How to ask after a refusal, by what it names; at last without the switch, which not all servers know.

        Raises:
            _Refused: There is no other way to ask.
        """
        said = str(error)
        if error.status in (400, 422):
            if words.cap == _CAP and _NEWER_CAP in said:
                return msgspec.structs.replace(words, cap=_NEWER_CAP)
            if words.temperature and self._any_temperature and _TEMPERATURE in said:
                return msgspec.structs.replace(words, temperature=False)
            if words.switch:
                return msgspec.structs.replace(words, switch=False)
        raise error

    async def _said(self, messages: Sequence[Message], asked: Asked, words: _Words) -> Reply:
        begun = time.perf_counter()
        first: float | None = None
        text, thought, finish, usage = "", "", None, _Usage()
        async with self._client.stream("POST", self._url, json=self._body(messages, asked, words)) as response:
            if response.status_code != httpx2.codes.OK:
                raise _refusal(response, b"".join([part async for part in _parts(response, _LONGEST_REPLY)]))
            async for chunk in _chunks(response, _LONGEST_REPLY * (1 + asked.max_tokens // _TOKENS)):
                if chunk.error is not None:
                    raise _Passing(f"the server reports {_shown(chunk.error)}")
                usage = chunk.usage or usage
                for choice in chunk.choices[:1]:
                    part = choice.delta or choice.message or _Delta()
                    text += part.content or ""
                    thought += part.reasoning_content or part.reasoning or ""
                    finish = choice.finish_reason or finish
                if first is None and (text or thought):
                    first = time.perf_counter() - begun
        if finish is None:
            raise _Passing("the reply breaks off")
        cut = finish == "length"
        # A server that leaves thoughts where they stand may leave out where they begin.
        within, text = prompt.divided(text, opened=asked.thinking and cut and not thought)
        seconds = time.perf_counter() - begun
        return Reply(
            text=text,
            thought=thought.strip() or within,
            finish="length" if cut else "stop",
            prompt_tokens=usage.prompt_tokens,
            generated_tokens=usage.completion_tokens,
            seconds=seconds,
            first_token_seconds=seconds if first is None else first,
            model=self.model,
        )

    def _body(self, messages: Sequence[Message], asked: Asked, words: _Words) -> Mapping[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [msgspec.structs.asdict(message) for message in messages],
            words.cap: asked.max_tokens,
            "seed": asked.seed,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if words.temperature:
            body[_TEMPERATURE] = asked.temperature
        if asked.top_p < 1:
            body["top_p"] = asked.top_p
        if asked.top_k:
            body["top_k"] = asked.top_k  # not OpenAI's own, but what all servers of open models call it
        if words.switch:
            body[_SWITCH] = {"enable_thinking": asked.thinking}
        return body


def _address(base_url: str) -> httpx2.URL:
    try:
        url = httpx2.URL(base_url.strip())
    except httpx2.InvalidURL:
        url = httpx2.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise PredictorError(
            f"{plain(base_url)}: not the address of a server", hint="Name one such as http://127.0.0.1:8080/v1."
        )
    path = url.path.rstrip("/") or "/v1"
    return url.copy_with(path=f"{path}/chat/completions")


async def _chunks(response: httpx2.Response, most: int) -> AsyncIterator[_Chunk]:
    """The parts of a streamed answer of so many bytes at most, or the whole of one that is not streamed."""
    if "event-stream" not in response.headers.get("content-type", ""):
        yield _chunk(b"".join([part async for part in _parts(response, most)]))
        return
    async for line in _lines(response, most):
        if not line.startswith(b"data:"):
            continue  # blanks, and comments that keep the connection alive
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            return
        yield _chunk(data)


async def _lines(response: httpx2.Response, most: int) -> AsyncIterator[bytes]:
    begun: list[bytes] = []
    async for part in _parts(response, most):
        *whole, rest = part.replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            yield b"".join([*begun, line])
            begun.clear()
        begun.append(rest)
    yield b"".join(begun)


async def _parts(response: httpx2.Response, most: int) -> AsyncIterator[bytes]:
    """What comes, as it comes.

    Raises:
        _Passing: It does not end.
    """
    came = 0
    async for part in response.aiter_bytes():
        came += len(part)
        if came > most:
            raise _Passing(f"the reply does not end within {most:,} bytes")
        yield part


def _chunk(data: str | bytes) -> _Chunk:
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _Passing(f"what the server sends is no chat completion: {error}") from error


def _refusal(response: httpx2.Response, content: bytes) -> _Passing | _Refused:
    status = response.status_code
    try:
        said = _shown(_decode(content).error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # a page of whatever stands before the server
        said = _shown(content.decode(errors="replace"))
    if status not in _BUSY and status < 500:
        return _Refused(status, said)
    after = response.headers.get("retry-after", "")
    return _Passing(f"the server answers {status}: {said}", pause=float(after) if after.isdecimal() else 0.0)


def _shown(error: Any) -> str:
    """What a server says of an error: a text, or a text in an object."""
    text = error.get("message", error) if isinstance(error, dict) else error
    return plain(str(text).strip()[:_SHOWN])


class OpenAIPredictor:
    """Predicts with a model behind a server: the text alone.

    Args:
        settings: Which model, and where.
        asking: How it is asked.

    Raises:
        PredictorError: No address or no model is named, or the prompts are unsuitable.
        ConfigError: The key's variable is not set.
    """

    name = "openai"

    def __init__(self, settings: ModelConfig, asking: Asking) -> None:
        if settings.base_url is None or settings.name is None:
            raise PredictorError(
                "the predictor `openai` needs a server and a model that it serves",
                hint="Name them after --base-url and --model.",
            )
        self.model: str | None = settings.name
        self._form = prompt.Form(wrapper=asking.wrapper, action=asking.action, screen=asking.screen)
        self._asking = asking
        self._longest = settings.turn_tokens * _CHARACTERS
        self._room = (settings.context_tokens - asking.max_tokens) * _CHARACTERS - self._longest
        prompts = None if settings.prompts is None else expanded(settings.prompts)
        self._prompts = {domain: prompt.system_prompt(domain, prompts, self._form) for domain in DOMAINS}
        for domain, text in self._prompts.items():
            if len(text) > self._longest:
                raise PredictorError(
                    f"the system prompt of `{domain}` has {len(text):,} characters, more than {self._longest:,}",
                    hint="Raise `context-tokens` in the configuration's table [model].",
                )
        self._server = OpenAIChat(settings.base_url, settings.name, api_key(settings))

    async def predict(self, history: History, step: Step, *, keep: bool = True) -> Prediction:  # noqa: ARG002 - the protocol's signature
        """What the model says would come, or an abstention with its reason."""
        first, messages = self._messages(history, step)
        try:
            with anyio.move_on_after(self._asking.deadline):
                reply = await self.chat(messages, Asked(max_tokens=self._asking.max_tokens))
                return self._prediction(reply, history.dropped + first)
        except PredictorError as error:
            return self._abstain(Abstain.PREDICTOR_ERROR, error.message)
        return self._abstain(Abstain.TIMEOUT, f"no answer within {self._asking.deadline:g} s")

    async def chat(self, messages: Sequence[Message], asked: Asked) -> Reply:
        """As `OpenAIChat`."""
        return await self._server.chat(messages, asked)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._server.aclose()

    def _messages(self, history: History, step: Step) -> tuple[int, list[Message]]:
        """How many of the steps that are held no longer fit, and the talk."""
        domain = (history[0] if len(history) else step).domain
        system = self._prompts.get(domain, self._prompts["terminal"])
        sizes = [
            min(self._longest, len(past.action.text)) + min(self._longest, len(past.observation)) for past in history
        ]
        first = prompt.window(sizes, max(0, self._room - len(system)))
        messages = [Message("system", system)]
        for number, past in enumerate(history[first:], history.dropped + first):
            answer = prompt.before(past, self._form) + self._short(prompt.observation(past)) + prompt.after(self._form)
            messages += [self._user(past, number), Message("assistant", answer)]
        return first, [*messages, self._user(step, history.total)]

    def _user(self, step: Step, number: int) -> Message:
        return Message("user", self._short(prompt.user_turn(step, number + 1, self._form)))

    def _short(self, text: str) -> str:
        return prompt.elide(text, self._longest)

    def _prediction(self, reply: Reply, dropped: int) -> Prediction:
        broken = ""
        if reply.thought:
            broken = "the model thinks, though thinking is off"
        elif not prompt.begins(reply.text, self._form):
            broken = f"the model would answer “{reply.text[:60]}”, which is no observation"
        return Prediction(
            predictor=self.name,
            text=None if broken else prompt.parse(reply.text),
            truncated=reply.finish == "length",
            failed=Abstain.ROLE_BREAK if broken else None,
            detail=broken or (f"{dropped} older turns no longer fit the context" if dropped else ""),
            model=self.model,
            tokens=Tokens(prompt=reply.prompt_tokens or 0, generated=reply.generated_tokens or 0),
        )

    def _abstain(self, reason: Abstain, detail: str) -> Prediction:
        return Prediction(predictor=self.name, abstain=reason, detail=detail, model=self.model)
