"""verifierd watches AI agents: it predicts each next observation and says where reality departed from it."""

__version__ = "0.1.0"
