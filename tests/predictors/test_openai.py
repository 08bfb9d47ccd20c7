"""A model behind a server: what goes out, what comes back, and all that a server may do wrong."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import anyio
import httpx2
import msgspec
import pytest

from tests.helpers import ran
from verifierd.config import ModelConfig
from verifierd.errors import ConfigError, PredictorError
from verifierd.policy import DOMAINS, Asking
from verifierd.predictors import PredictorSettings, open_predictor, talker, tiny
from verifierd.predictors.openai import OpenAIChat, OpenAIPredictor
from verifierd.stages import Asked, Chat, Message
from verifierd.types import Abstain, History, ObservationKind

pytestmark = pytest.mark.anyio

TALK = (Message("system", "Be short."), Message("user", "Is this so?"))
ASKED = Asked(max_tokens=8)
STREAM = "text/event-stream"


class Answer(msgspec.Struct, kw_only=True):
    """What the server does with one question; `hold` seconds pass before the body."""

    status: int = 200
    headers: dict[str, str] = {}
    body: bytes = b""
    hold: float = 0.0


def _streamed(*events: Any, end: bool = True) -> Answer:
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    body = "".join([": keepalive 1/2\r\n\r\n", *lines, "data: [DONE]\n\n" if end else ""])
    return Answer(headers={"Content-Type": STREAM}, body=body.encode())


def _delta(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _says(*parts: str, finish: str = "stop", thought: str = "") -> Answer:
    """A reply in parts, with its usage."""
    events = [_delta(role="assistant", content=""), *([_delta(reasoning_content=thought)] if thought else [])]
    events += [*(_delta(content=part) for part in parts), _delta(finish)]
    return _streamed(*events, {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": len(parts) + 1}})


def _refuses(status: int, message: str, **headers: str) -> Answer:
    return Answer(status=status, headers=headers, body=json.dumps({"error": {"message": message}}).encode())


class Server:
    """Speaks OpenAI's protocol, on loopback: gives its answers in turn, the last one again and again."""

    def __init__(self, *answers: Answer) -> None:
        self.asked: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.keys: list[str | None] = []
        self._answers = list(answers)
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                server.paths.append(self.path)
                server.keys.append(self.headers["Authorization"])
                answer = server._answers.pop(0) if len(server._answers) > 1 else server._answers[0]
                if not answer.status:
                    return  # and the connection ends
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.flush()
                if answer.hold:
                    server.closing.wait(answer.hold)
                self.wfile.write(answer.body)

            def log_message(self, *_: Any) -> None:
                """Keep quiet."""

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                """A client that went away."""

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.closing = threading.Event()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


async def _chat(server: Server, asked: Asked = ASKED, *, times: int = 1, **options: Any) -> Any:
    chat = OpenAIChat(server.url, "m", **{"pause": 0.001} | options)
    try:
        for _ in range(times):
            reply = await chat.chat(TALK, asked)
    finally:
        await chat.aclose()
    return reply


async def test_a_reply() -> None:
    """Comes in parts; its figures are the server's."""
    with Server(_says("ye", "s")) as server:
        reply = await _chat(server, api_key="key-1")
    assert (reply.text, reply.thought, reply.finish, reply.model) == ("yes", "", "stop", "m")
    assert (reply.prompt_tokens, reply.generated_tokens) == (11, 3)
    assert 0 < reply.first_token_seconds <= reply.seconds
    assert server.paths == ["/v1/chat/completions"]
    assert server.keys == ["Bearer key-1"]
    assert server.asked == [
        {
            "model": "m",
            "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Is this so?"}],
            "max_tokens": 8,
            "temperature": 0.0,
            "seed": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            "chat_template_kwargs": {"enable_thinking": False},
        }
    ]


async def test_what_is_asked() -> None:
    """Sampling and thinking go along."""
    with Server(_says("yes")) as server:
        await _chat(server, Asked(max_tokens=9, thinking=True, temperature=0.6, top_p=0.95, top_k=20, seed=3))
    (body,) = server.asked
    assert {name: body[name] for name in ("max_tokens", "temperature", "top_p", "top_k", "seed")} == {
        "max_tokens": 9,
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 20,
        "seed": 3,
    }
    assert body["chat_template_kwargs"] == {"enable_thinking": True}
    assert server.keys == [None]


async def test_a_server_that_does_not_stream() -> None:
    """Its one answer is taken; tokens that it does not count are not known."""
    whole = {"choices": [{"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}], "usage": None}
    with Server(Answer(headers={"Content-Type": "application/json"}, body=json.dumps(whole).encode())) as server:
        reply = await _chat(server)
    assert (reply.text, reply.finish, reply.prompt_tokens, reply.generated_tokens) == ("yes", "stop", None, None)
    assert 0 < reply.first_token_seconds <= reply.seconds


@pytest.mark.parametrize(
    ("answer", "thinking", "expected"),
    [
        (_says("yes", thought="hm"), True, ("yes", "hm", "stop")),
        (_says("<think>\nhm\n</think>\n\nyes"), True, ("yes", "hm", "stop")),
        (_says("hm\n</think>\n\nyes"), True, ("yes", "hm", "stop")),
        (_says(finish="length", thought="hm"), True, ("", "hm", "length")),
        (_says("hm, and", finish="length"), True, ("", "hm, and", "length")),
        (_says("yes, and", finish="length", thought="hm"), True, ("yes, and", "hm", "length")),
        (_says("yes, and", finish="length"), False, ("yes, and", "", "length")),
        (_says("yes", thought="hm"), False, ("yes", "hm", "stop")),
        (_says(), False, ("", "", "stop")),
    ],
)
async def test_thoughts(answer: Answer, *, thinking: bool, expected: tuple[str, str, str]) -> None:
    """Are told apart wherever a server puts them; where the cap cuts one there is no answer."""
    with Server(answer) as server:
        reply = await _chat(server, Asked(max_tokens=8, thinking=thinking))
    assert (reply.text, reply.thought, reply.finish) == expected


BROKEN = _streamed(_delta(content="ye"), end=False)
REPORTED = _streamed({"error": {"message": "engine died"}})


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (_refuses(429, "slow down"), "the server answers 429: slow down"),
        (_refuses(503, "loading"), "the server answers 503: loading"),
        (
            Answer(status=502, body=b"<html>\xffbad gateway</html>"),
            "the server answers 502: <html>\ufffdbad gateway</html>",
        ),
        (
            Answer(headers={"Content-Type": STREAM}, body=b"data: {odd\n\n"),
            "what the server sends is no chat completion",
        ),
        (Answer(body=b'{"choices": 7}'), "what the server sends is no chat completion"),
        (Answer(body=b""), "what the server sends is no chat completion"),
        (Answer(headers={"Content-Type": STREAM}, body=b"data: " + b"x" * (1 << 20)), "the reply does not end within"),
        (Answer(body=b"x" * (2 << 20)), "the reply does not end within"),
        (BROKEN, "the reply breaks off"),
        (REPORTED, "the server reports engine died"),
        (Answer(status=0), "no connection: "),
        (Answer(hold=5.0), "the server does not answer in time"),
    ],
    ids=lambda given: str(given)[:99],
)
async def test_what_may_pass(answer: Answer, problem: str) -> None:
    """Is tried again; where it does not pass the error says what and how often."""
    with Server(answer, _says("yes")) as server:
        reply = await _chat(server, patience=0.3)
        assert (reply.text, len(server.asked)) == ("yes", 2)
    with Server(answer) as server:
        with pytest.raises(PredictorError) as caught:
            await _chat(server, patience=0.1)
        assert str(caught.value).startswith(f"{server.url}/v1/chat/completions: {problem}")
        assert str(caught.value).endswith(", 4 times in a row")
        assert len(server.asked) == 4


async def test_a_server_that_says_how_long() -> None:
    """Is not asked before."""
    with Server(_refuses(429, "slow down", **{"Retry-After": "1"}), _says("yes")) as server:
        begun = time.monotonic()
        await _chat(server)
    assert time.monotonic() - begun >= 1


async def test_nobody_there() -> None:
    """A port where nothing listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        chat = OpenAIChat(f"http://127.0.0.1:{held.getsockname()[1]}", "m", pause=0.001)
        with pytest.raises(PredictorError, match=r"no connection: .*, 4 times in a row") as caught:
            await chat.chat(TALK, ASKED)
    await chat.aclose()
    assert "Is the server running" in caught.value.hint


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "api-key-env"), (403, "api-key-env"), (404, "--model"), (413, "log"), (307, "log")]
)
async def test_a_refusal(status: int, hint: str) -> None:
    """Is reported at once, in the server's words, as one line."""
    with Server(_refuses(status, "no\nsuch \x1b[31mthing")) as server:
        with pytest.raises(PredictorError) as caught:
            await _chat(server)
        assert len(server.asked) == 1
    assert f"/v1/chat/completions: the server answered {status}: no" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert hint in caught.value.hint


async def test_a_grammar_is_no_matter_of_servers() -> None:
    """It is refused, not left out."""
    with Server(_says("yes")) as server:
        with pytest.raises(PredictorError, match="cannot be held to a grammar"):
            await _chat(server, Asked(max_tokens=8, grammar='start: "yes"'))
        assert server.asked == []


async def test_a_server_without_the_switch() -> None:
    """Is asked without it, from then on; one that refuses something else says so."""
    with Server(_refuses(400, "unknown argument"), _says("yes")) as server:
        reply = await _chat(server, times=2)
        assert reply.text == "yes"
        assert ["chat_template_kwargs" in body for body in server.asked] == [True, False, False]
    with Server(_refuses(422, "too long")) as server:
        with pytest.raises(PredictorError, match="the server answered 422: too long"):
            await _chat(server)
        assert len(server.asked) == 2


async def test_a_server_with_words_of_its_own() -> None:
    """Is asked by the name that it says the cap has; by its own temperature only where any will do."""
    cap = _refuses(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    fixed = _refuses(400, "Unsupported value: 'temperature' does not support 0 with this model.")
    with (
        Server(cap, _refuses(400, "unknown argument"), fixed, _says("yes")) as server,
        pytest.raises(PredictorError, match="'temperature' does not support 0"),
    ):
        await _chat(server)
    with Server(_refuses(400, "unknown argument"), cap, fixed, _says("yes")) as server:
        assert (await _chat(server, times=2, any_temperature=True)).text == "yes"
    assert [sorted(body.keys() & {"max_tokens", "max_completion_tokens", "temperature"}) for body in server.asked] == [
        ["max_tokens", "temperature"],
        ["max_tokens", "temperature"],
        ["max_completion_tokens", "temperature"],
        ["max_completion_tokens"],
        ["max_completion_tokens"],
    ]
    assert server.asked[-1]["max_completion_tokens"] == ASKED.max_tokens


@pytest.mark.parametrize(
    ("base_url", "path"),
    [("", "/v1"), ("/", "/v1"), ("/v1", "/v1"), ("/v1/", "/v1"), ("/api/paas/v4", "/api/paas/v4")],
)
async def test_the_path(base_url: str, path: str) -> None:
    """Is the address's own, or `/v1`."""
    with Server(_says("yes")) as server:
        server.url += base_url
        await _chat(server)
    assert server.paths == [f"{path}/chat/completions"]


@pytest.mark.parametrize("address", ["", "localhost:8080", "ftp://host/v1", "http://", "http://[::1", "/v1"])
def test_no_address(address: str) -> None:
    """Is refused at once."""
    with pytest.raises(PredictorError, match="not the address of a server"):
        OpenAIChat(address, "m")


# The predictor

MARKER = "**Environment Observation:**\n"


def _predictor(server: Server, **asking: Any) -> OpenAIPredictor:
    return OpenAIPredictor(ModelConfig(name="m", base_url=server.url), msgspec.convert(asking, Asking))


async def _predict(server: Server, history: Sequence[tuple[str, str]] = (), **asking: Any) -> Any:
    predictor = _predictor(server, **asking)
    past = History(("native", "t"))
    for index, (command, observation) in enumerate(history, 1):
        past.append(ran(command, observation, index=index))
    try:
        return await predictor.predict(past, ran("pwd", "/somewhere\n", index=len(history) + 1))
    finally:
        await predictor.aclose()


async def test_a_prediction() -> None:
    """Is the model's text after the real history; the observation of the step itself is not told."""
    with Server(_says(MARKER, "/home\n")) as server:
        found = await _predict(server, [("cd /home", ""), ("ls", "a\nb\n")])
    assert (found.text, found.truncated, found.failed, found.abstain) == ("/home", False, None, None)
    assert (found.predictor, found.model, found.certain, found.likelihood) == ("openai", "m", False, None)
    assert (found.tokens.prompt, found.tokens.generated) == (11, 3)
    (body,) = server.asked
    assert body["max_tokens"] == 1024
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    roles = [message["role"] for message in body["messages"]]
    texts = [message["content"] for message in body["messages"]]
    assert roles == ["system", *["user", "assistant"] * 2, "user"]
    assert "simulat" in texts[0].lower() or "environment" in texts[0].lower()
    assert texts[2::2] == [MARKER.rstrip(), f"{MARKER}a\nb"]
    assert all("keystrokes" in text for text in texts[1::2])
    assert "/somewhere" not in json.dumps(body)


@pytest.mark.parametrize(
    ("answer", "text", "truncated", "failed", "detail"),
    [
        (
            _says("I think it prints /home"),
            None,
            False,
            Abstain.ROLE_BREAK,
            "the model would answer “I think it prints /home”",
        ),
        (
            _says(MARKER, "/home", thought="hm"),
            None,
            False,
            Abstain.ROLE_BREAK,
            "the model thinks, though thinking is off",
        ),
        (_says("hm</think>", MARKER, "/home"), None, False, Abstain.ROLE_BREAK, "the model thinks"),
        (_says(MARKER, "/ho", finish="length"), "/ho", True, None, ""),
        (_says(), None, False, Abstain.ROLE_BREAK, "the model would answer “”"),
        (_says(MARKER), "", False, None, ""),
    ],
)
async def test_failures_of_the_model(
    answer: Answer, *, text: str | None, truncated: bool, failed: Abstain | None, detail: str
) -> None:
    """Are told as such: a broken role, a thought, a cut, an empty answer."""
    with Server(answer) as server:
        found = await _predict(server)
    assert (found.text, found.truncated, found.failed, found.abstain) == (text, truncated, failed, None)
    assert found.detail.startswith(detail)


@pytest.mark.parametrize(
    ("wrapper", "said"), [("none", "/home"), ("tags", "<predicted_observation>\n/home\n</predicted_observation>")]
)
async def test_other_wrappers(wrapper: str, said: str) -> None:
    """Are taken off."""
    with Server(_says(said)) as server:
        found = await _predict(server, wrapper=wrapper)
    assert (found.text, found.failed) == ("/home", None)


async def test_a_server_that_fails_or_is_late() -> None:
    """Costs the step an abstention with its reason."""
    with Server(_refuses(404, "no such model")) as server:
        found = await _predict(server)
        assert (found.abstain, found.model) == (Abstain.PREDICTOR_ERROR, "m")
        assert found.detail.endswith("the server answered 404: no such model")
    with Server(Answer(hold=5.0)) as server:
        found = await _predict(server, deadline=0.1)
        assert (found.abstain, found.detail) == (Abstain.TIMEOUT, "no answer within 0.1 s")


async def test_long_histories_and_long_turns() -> None:
    """Older turns are left out, and of long ones the middle, so that the talk fits; numbers go on."""
    with Server(_says(MARKER, "/home")) as server:
        predictor = OpenAIPredictor(ModelConfig(name="m", base_url=server.url, context_tokens=16_384), Asking())
        history = History(("native", "t"))
        for index in range(1, 40):
            history.append(ran(f"run {index}", "line\n" * 400, index=index))
        found = await predictor.predict(history, ran("cat " + "x" * 100_000, "", index=40))
        await predictor.aclose()
    (body,) = server.asked
    texts = [message["content"] for message in body["messages"]]
    assert sum(map(len, texts)) <= 2 * 16_384
    dropped = 39 - (len(texts) - 2) // 2
    assert 0 < dropped < 39
    assert found.detail == f"{dropped} older turns no longer fit the context"
    assert texts[1].startswith(f"### Turn {dropped + 1}\n")
    assert "characters left out" in texts[-1]


async def test_what_is_no_answer_stays_in_the_history() -> None:
    """A step that nothing came of has its note."""
    step = msgspec.structs.replace(ran("sleep 9", ""), observation_kind=ObservationKind.INTERRUPTED)
    with Server(_says(MARKER)) as server:
        predictor = _predictor(server)
        history = History(("native", "t"))
        history.append(step)
        await predictor.predict(history, ran("ls", "", index=2), keep=False)
        await predictor.aclose()
    assert server.asked[0]["messages"][2]["content"] == f"{MARKER}[no output: interrupted]"


async def test_it_is_opened_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its key from the environment, and can be talked to; what is missing is said."""
    with Server(_says("yes")) as server:
        settings = ModelConfig(name="m", base_url=server.url, api_key_env="VERIFIERD_TEST_KEY")
        with pytest.raises(ConfigError, match="VERIFIERD_TEST_KEY is not set"):
            open_predictor("openai", PredictorSettings(model=settings))
        monkeypatch.setenv("VERIFIERD_TEST_KEY", "key-2")
        predictor = open_predictor("scripted,openai", PredictorSettings(model=settings))
        chat = talker(predictor)
        assert isinstance(chat, Chat)
        assert (await chat.chat(TALK, ASKED)).text == "yes"
        await predictor.aclose()
        assert server.keys == ["Bearer key-2"]
    for missing in (ModelConfig(name="m"), ModelConfig(base_url="http://127.0.0.1")):
        with pytest.raises(PredictorError) as caught:
            open_predictor("openai", PredictorSettings(model=missing))
        assert caught.value.hint == "Name them after --base-url and --model."
    with pytest.raises(PredictorError, match="the system prompt of `terminal` has"):
        open_predictor("openai", PredictorSettings(model=msgspec.structs.replace(settings, context_tokens=2048)))


# A real server


@pytest.fixture(scope="module")
def mlx_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """mlx-lm's own server with the tiny model: its address, and the model's name."""
    if importlib.util.find_spec("mlx_lm") is None:
        pytest.skip("mlx-lm is not to be had here")
    model = str(tiny.ready("tiny"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "mlx_lm.server", "--model", model, "--host", "127.0.0.1", "--port", str(port)],
            stdout=output,
            stderr=output,
            env=os.environ | {"HF_HUB_OFFLINE": "1"},
        )
    try:
        _wait(lambda: server.poll() is not None or _listens(port))
        assert server.poll() is None, log.read_text()
        yield f"http://127.0.0.1:{port}/v1", model
    finally:
        server.terminate()
        server.wait()


def _listens(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/health", trust_env=False).is_success
    except httpx2.TransportError:
        return False


def _wait(so: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not so():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.slow
async def test_a_real_server(mlx_server: tuple[str, str], tmp_path: Path) -> None:
    """mlx-lm's: replies, thoughts, short answers and predictions, several at once; a random model breaks its role."""
    url, model = mlx_server
    chat = OpenAIChat(url, model)
    short = await chat.chat(TALK, Asked(max_tokens=4))
    assert (short.finish, short.generated_tokens) == ("length", 4)
    assert short.prompt_tokens is not None
    assert short.prompt_tokens > 10
    assert short.text
    thinking = await chat.chat(TALK, Asked(max_tokens=4, thinking=True))
    assert (thinking.text, thinking.finish) == ("", "length")
    assert thinking.thought
    sampled = [await chat.chat(TALK, Asked(max_tokens=8, temperature=1.0, seed=seed)) for seed in (1, 1)]
    assert sampled[0].text == sampled[1].text
    await chat.aclose()
    for domain in DOMAINS:
        (tmp_path / domain).mkdir()
        (tmp_path / domain / "system_prompt.txt").write_text("Answer as the machine would.")
    settings = ModelConfig(name=model, base_url=url, prompts=str(tmp_path))
    predictor = OpenAIPredictor(settings, msgspec.convert({"max-tokens": 256}, Asking))
    found = []

    async def predict(trajectory: str) -> None:
        found.append(await predictor.predict(History(("native", trajectory)), ran("pwd", "/\n", trajectory=trajectory)))

    async with anyio.create_task_group() as tasks:
        for trajectory in "ab":
            tasks.start_soon(predict, trajectory)
    await predictor.aclose()
    assert [one.failed for one in found] == [Abstain.ROLE_BREAK] * 2
    assert all(one.tokens.generated for one in found)
