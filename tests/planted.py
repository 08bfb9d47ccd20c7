"""Secrets of 12 kinds, none of them real, and what must never be seen of them."""

from typing import NamedTuple

__all__ = ("PLANTED", "Planted", "leaks", "planted")


class Planted(NamedTuple):
    """A text as it stands in transcripts, and the part of it that is secret."""

    text: str
    core: str


def _bare(text: str) -> Planted:
    return Planted(text, text)


_PEM = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"

# In two halves each, so that whatever looks for secrets in source finds none here.
PLANTED = {
    "anthropic": _bare("sk-" + "ant-api03-zK8mQ2vX7pL4wR9tY1nB"),
    "openai": _bare("sk-" + "proj-Hq7Zt3Vw9Kx2Lm5Np8Rb"),
    "github": _bare("ghp" + "_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"),
    "aws key": _bare("AKIA" + "QX7ZPL3MWN5RTB2V"),
    "aws secret": Planted(
        "AWS_SECRET_ACCESS_KEY=" + "wJa7rXUtnF8MIqK7MDENGbPxRf3CYzZXAMPLEKEY",
        "wJa7rXUtnF8MIqK7MDENGbPxRf3CYzZXAMPLEKEY",
    ),
    "pem": Planted("-----BEGIN RSA PRIVATE " + f"KEY-----\n{_PEM}\n-----END RSA PRIVATE KEY-----", _PEM),
    "jwt": _bare("eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiJhZG1pbiJ9.Zm9vYmFyYmF6cXV4c2lnbmF0dXJl"),
    "bearer": Planted("Authorization: Bearer " + "q9W8e7R6t5Y4u3I2o1P0", "q9W8e7R6t5Y4u3I2o1P0"),
    "cookie": Planted("Cookie: session=" + "c00k1eMonst3rV4lue77", "c00k1eMonst3rV4lue77"),
    "url": Planted("https://deploy:" + "Tr0ub4dorHorse@git.example.org/a.git", "Tr0ub4dorHorse"),
    "password": Planted("DB_PASSWORD=" + "c0rrectH0rseBattery", "c0rrectH0rseBattery"),
    "slack": _bare("xoxb" + "-123456789012-Ab3Cd4Ef5Gh6Ij7Kl8"),
}
"""By kind."""


def planted() -> str:
    """All of them in one text, a line each."""
    return "\n".join(secret.text for secret in PLANTED.values())


def leaks(data: bytes | str) -> list[str]:
    """The kinds of which something is seen in what went out: whole, or more than half from either end."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    found = []
    for kind, (_, core) in PLANTED.items():
        half = len(core) // 2 + 1
        if core[:half] in text or core[-half:] in text:
            found.append(kind)
    return found
