"""What is a secret, and what only looks like one."""

import pytest

from verifierd.redact import KINDS, merged, secrets

# Put together here, so that no scanner of repositories takes these for real ones.
RANDOM = "zK8mQ2vX7pL4" + "nT9wB3cY6dF1"
AWS_ID = "AKIA" + "IOSFODNN7EXAMPLE"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG" + "/bPxRfiCYEXAMPLEKEY"
LINES = "MIIEpAIBAAKCAQEA1234567890\nQIIEpAIBAAKCAQEA12345678\nabcdef=="

PLANTED = [
    ("sk-ant-" + "api03-" + RANDOM * 2, RANDOM),
    ("export OPENAI_API_KEY=sk-" + "proj-" + RANDOM, RANDOM),
    ("sk-" + RANDOM * 2, RANDOM),
    ("remote: ghp_" + RANDOM + "abcdefghijkl", RANDOM),
    ("gho_" + RANDOM + "abcdefghijkl", RANDOM),
    ("ghs_" + RANDOM + "abcdefghijkl", RANDOM),
    ("github_pat_" + "11ABC_" + RANDOM, RANDOM),
    ("AIza" + "SyA-" + RANDOM * 2, RANDOM),
    ("xoxb-" + "123456789012-" + RANDOM, RANDOM),
    ("glpat-" + RANDOM, RANDOM),
    ("hf_" + RANDOM, RANDOM),
    ("npm_" + RANDOM * 2, RANDOM),
    ("pypi-" + "AgEIcHlwaS5vcmc" + RANDOM, RANDOM),
    ("sk_" + "live_" + RANDOM, RANDOM),
    ("https://hooks.slack.com/" + "services/T000/B000/" + RANDOM, RANDOM),
    ("eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcDEF123_-x", "abcDEF123"),
    (AWS_ID, AWS_ID),
    (f"aws_secret_access_key = {AWS_SECRET}", AWS_SECRET),
    (f"{AWS_ID},{AWS_SECRET}", AWS_SECRET),
    (f'"SecretAccessKey": "{AWS_SECRET}"', AWS_SECRET),
    (f"aws_session_token=IQoJb3JpZ2luX2VjE{RANDOM}", RANDOM),
    (f"Authorization: Bearer {RANDOM}", RANDOM),
    ("curl -H 'Authorization: Basic dXNlcjpwYXNz' http://x", "dXNlcjpwYXNz"),
    ('{"authorization":"Bearer abcdef12"}', "abcdef12"),
    ('{\\"Authorization\\": \\"token abcdef12\\"}', "abcdef12"),
    ("Cookie: sid=abc; theme=dark", "theme=dark"),
    ("Set-Cookie: s=1; Path=/", "s=1"),
    ("x-api-key: k3y-of-mine", "k3y-of-mine"),
    ("postgres://bob:hunter2@db:5432/x", "hunter2"),
    ("redis://:p4ss@h", "p4ss"),
    (f"https://{RANDOM}@github.com/x", RANDOM),
    ("curl -u admin:hunter2 http://x", "hunter2"),
    ("DB_PASSWORD=hunter2", "hunter2"),
    ("DB_PASSWORD='hun ter2'", "hun ter2"),
    ("MYSQL_ROOT_PASSWORD=root", "root"),
    ("PASSWORD=a&b;c", "a&b;c"),
    ("PASSWORD=ab\\cd", "ab\\cd"),
    ("password: hunter2", "hunter2"),
    ('"password": "hunter2"', "hunter2"),
    ("--password hunter2", "hunter2"),
    ("Server=x;Uid=sa;Pwd=sEcret;Encrypt=yes", "sEcret"),
    ("GITHUB_TOKEN=abc123", "abc123"),
    ("APP_SECRET=hello-world", "hello-world"),
    ('client_secret: "abcdefgh"', "abcdefgh"),
    ("client_secret: mysecretvalue", "mysecretvalue"),
    ("api_key = 'abcdef'", "abcdef"),
    ('{\\"api_key\\": \\"abcdef\\"}', "abcdef"),
    ("/x?access_token=abcdef12&x=1", "abcdef12"),
    ("//registry.example.com/:_authToken=0a1b2c3d-1", "0a1b2c3d-1"),
    (f"the token is {RANDOM}", RANDOM),
    (f"key: {RANDOM}", RANDOM),
    ("\u0130\u0130 password=hunter2", "hunter2"),
    (f"-----BEGIN RSA PRIVATE KEY-----\n{LINES}\n-----END RSA PRIVATE KEY-----\n", "abcdef"),
    (f"-----BEGIN RSA PRIVATE KEY-----\n{LINES}", "QIIE"),
    (f"{LINES}\n-----END PRIVATE KEY-----", "MIIE"),
    ("1\t-----BEGIN PRIVATE KEY-----\n     2\tMIIEpAIBAAKCAQEA12345\n     3\tQIIEpAIBAAKCAQEA12345\n", "QIIE"),
    ('"private_key": "-----BEGIN PRIVATE KEY-----\\nMIIEpAIBAAKCAQEA12\\nQIIEpAIBAAKCAQEA12', "QIIE"),
    ("-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES,00\n\nMIIEpAIBAAKCAQEA12", "MIIE"),
]

ORDINARY = [
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "git log key 3f786850e387550fdab836ed7e6dc881de23001b",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "index 3f78685..e387550 100644",
    "uuid 123e4567-e89b-12d3-a456-426614174000",
    "idempotency-key: 123e4567-e89b-12d3-a456-426614174000",
    "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0NTY3ODkw",
    "-----BEGIN CERTIFICATE-----\nMIIEpAIBAAKCAQEA1234567890\n-----END CERTIFICATE-----",
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQ user@host",
    "/usr/lib/python3.11/site-packages/keyring/backends/foo.py",
    "PWD=/home/user",
    "git@github.com:org/repo.git",
    "http://localhost:8080/@scope/x",
    "task-force-with-a-long-name-0123",
    "sk-loading-indicator-spinner-icon",
    "key=lambda x: x[1]",
    "sort(key=len)",
    '"key": "value"',
    "apiKey: apiKey",
    "KeyError: 'x'",
    "MAX_TOKENS=4096",
    "token: 5",
    "token = next_token()",
    'pad_token="<pad>"',
    "password = getpass()",
    "def f(password: str, token: Optional[str] = None):",
    "password=args.password",
    "password=***",
    "password:\nfoo",
    "secret = load_secret",
    "secret: true",
    "API_KEY=${API_KEY}",
    "Authorization: Bearer $TOKEN",
    'headers = {"Authorization": f"Bearer {token}"}',
    "docker run --user node:node",
    "options: --profile, --model, --api-key, --base-url",
    "with the current token: `git push https://oauth2:${GITLAB_TOKEN}@gitlab.com/a/b.git`",
    "12 passed, the bearer of news",
]


@pytest.mark.parametrize(("text", "secret"), PLANTED, ids=[text[:24] for text, _ in PLANTED])
def test_finds(text: str, secret: str) -> None:
    """A planted secret lies in one of the spans, whole."""
    start = text.index(secret)

    assert any(a <= start and start + len(secret) <= b for a, b, _ in secrets(text))


@pytest.mark.parametrize(("text", "secret"), PLANTED, ids=[text[:24] for text, _ in PLANTED])
def test_finds_in_the_midst_of_text(text: str, secret: str) -> None:
    """Lines before and after change nothing, and what is found does not reach into them."""
    before, after = "total 8\nok\n", "\n[output cut]\n"
    start = text.index(secret)
    found = [(a - len(before), b - len(before)) for a, b, _ in secrets(before + text + after)]

    assert any(a <= start and start + len(secret) <= b for a, b in found)
    assert all(a >= 0 and b <= len(text) for a, b in found)


@pytest.mark.parametrize("text", ORDINARY)
def test_leaves(text: str) -> None:
    """What only looks like a secret stays."""
    assert secrets(text) == []


def test_value_of_a_name_is_all_that_is_taken() -> None:
    """Name, scheme and neighbours of a secret stay readable."""
    text = "GET /x?access_token=abcdef12&page=2 Authorization: Bearer abc123"

    assert [text[a:b] for a, b, _ in secrets(text)] == ["abcdef12", "abc123"]


def test_kinds() -> None:
    """Every kind of secret has a text that shows it."""
    found = {kind for text, _ in PLANTED for _, _, kind in secrets(text)}

    assert found == set(KINDS)


def test_placeholder_is_no_secret() -> None:
    """What was taken out before is not taken out again, but a value that merely starts like it is."""
    assert secrets("PASSWORD=[redacted:password:0123abcd]") == []
    assert secrets("https://[redacted:url:0123abcd]@host/") == []
    assert secrets("PASSWORD=[redacted:password:0123abcd]hunter2") == [(9, 44, "password")]


def test_merged() -> None:
    """Overlapping spans become one under the first name."""
    assert merged([(5, 9, "jwt"), (2, 7, "header"), (9, 10, "aws")]) == [(2, 9, "header"), (9, 10, "aws")]


@pytest.mark.parametrize(
    "unit",
    [
        "sk-",
        "sk-ant-",
        "key=",
        "key: <",
        "TOKEN=",
        "token: ",
        'password="',
        "password=$",
        'password\\\\\\"',
        "authorization:'",
        "cookie: ",
        "://a:",
        "://a:b@",
        "eyJ",
        "eyJaaaaaaaaaaaa.",
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIEaaaaaaaaaaaaaaaaaa\n",
        "[redacted:jwt:01234567] token=",
        "curl -u ",
        "a",
        " ",
    ],
)
def test_hostile_text(unit: str) -> None:
    """A large text made to mislead the patterns is read to its end; quadratic time would not come back."""
    assert all(a < b for a, b, _ in secrets(unit * (300_000 // len(unit))))
