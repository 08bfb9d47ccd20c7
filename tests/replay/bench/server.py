"""A small server that speaks OpenAI's protocol on loopback, and says what a test wants: a judge, or a model."""

import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import msgspec

__all__ = ("Said", "Server", "verdict")


class Said(msgspec.Struct, frozen=True):
    """What comes back.

    Attributes:
        text: The reply, or what is wrong.
        status: The HTTP status; 0 ends the connection without a word.
        hold: Seconds before it comes, unless the server is closed.
        finish: As the protocol has it.
        thought: What a reasoning parser has taken out of the reply.
    """

    text: str = ""
    status: int = 200
    hold: float = 0.0
    finish: str = "stop"
    thought: str = ""


class Server:
    """Answers each question by a function of its messages and of how often it was asked; a probe is answered by it.

    Attributes:
        asked: The questions, probes left out, as they came.
        probes: How many probes came.
        url: Where it is.
    """

    def __init__(self, say: Callable[[Sequence[dict[str, str]], int], Said | str], *, open: bool = True) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.probes = 0
        self.closing = threading.Event()
        lock = threading.Lock()
        times: dict[str, int] = {}
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if body["messages"][-1]["content"] == "Say yes.":
                    server.probes += 1
                    self._send(Said("yes") if open else Said("no such model", 404))
                    return
                with lock:
                    server.asked.append(body)
                    server.keys.append(self.headers["Authorization"])
                    text = json.dumps(body["messages"])
                    times[text] = times.get(text, 0) + 1
                said = say(body["messages"], times[text])
                self._send(Said(said) if isinstance(said, str) else said)

            def _send(self, said: Said) -> None:
                if said.hold:
                    server.closing.wait(said.hold)
                if not said.status:
                    return
                message = {"role": "assistant", "content": said.text, "reasoning_content": said.thought or None}
                reply: dict[str, Any] = {"choices": [{"index": 0, "message": message, "finish_reason": said.finish}]}
                reply["usage"] = {"prompt_tokens": 7, "completion_tokens": 3}
                if said.status != 200:
                    reply = {"error": {"message": said.text}}
                self.send_response(said.status)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(reply).encode())

            def log_message(self, *_: Any) -> None:
                """Keep quiet."""

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """A client that went away."""

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def verdict(*scores: int, **more: Any) -> str:
    """A judge's reply in good form: format, factuality, consistency, realism, quality."""
    names = ("format", "factuality", "consistency", "realism", "quality")
    body = {"strengths": ["a"], "weaknesses": [], "scores": dict(zip(names, scores, strict=True)), **more}
    return f"I looked at it.\n<final_evaluation>\n```json\n{json.dumps(body)}\n```\n</final_evaluation>"
