"""What `[[notify]]` of a configuration asks for."""

import os
from collections.abc import Callable

import structlog

from verifierd.config import NotifyConfig
from verifierd.errors import ConfigError
from verifierd.metrics import Metrics
from verifierd.sinks.command import Command
from verifierd.sinks.outbox import Courier, Outbox
from verifierd.sinks.webhook import Webhook, key
from verifierd.store import Store

__all__ = ("named_secret", "open_outbox")

_log = structlog.get_logger(component="notify")


async def open_outbox(config: NotifyConfig, *, store: Store, metrics: Metrics, secret: Callable[[], bytes]) -> Outbox:
    """An outbox that is ready to run.

    Args:
        config: What is asked for.
        store: Where verdicts are.
        metrics: Where deliveries are counted.
        secret: Gives the secret of this install, which signs where none was named.

    Raises:
        ConfigError: The secret is not there, or is none.
        StateError: The store, or the secret of this install, cannot be used.
    """
    courier: Courier
    if config.webhook is None:
        courier = Command(config.command, seconds=config.timeout)
    else:
        signs = secret() if config.secret_env is None else named_secret(config.secret_env)
        courier = Webhook(config.webhook, signs, seconds=config.timeout)
        if config.is_open:
            _log.warning(
                "webhook_unencrypted", target=courier.target, hint="whoever is on the way can read it: use https"
            )
    outbox = Outbox(
        store,
        courier,
        name=config.key,
        on=config.on,
        parallel=1 if config.webhook is not None else config.parallel,
        count=lambda result: metrics.notifications_total.labels(courier.kind, result).inc(),
    )
    await outbox.open()
    return outbox


def named_secret(variable: str) -> bytes:
    """What an environment variable holds to sign with.

    Raises:
        ConfigError: It is not set, or holds no secret.
    """
    hint = "`secret-env` of a [[notify]] names what holds the webhook's secret: a text, or `whsec_` and Base64."
    if not (text := os.environ.get(variable)):
        raise ConfigError(f"the environment variable {variable} is not set", hint=hint)
    try:
        return key(text)
    except ValueError as error:
        raise ConfigError(f"the environment variable {variable}: {error}", hint=hint) from error
