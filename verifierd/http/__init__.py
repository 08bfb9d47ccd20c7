"""The admin endpoint: metrics, health, what was judged and the console, for this machine alone unless somebody says so.

    GET /               what there is
    GET /livez          the process answers
    GET /readyz         it has looked at all sources once; else 503
    GET /metrics        Prometheus or OpenMetrics text
    GET /console/       the console, and the files it is made of
    GET /api/verdicts   recent verdicts, newest first: ?limit=100&verdict=off_path&after=SEQ
    GET /api/alarms     open alarms, then those that somebody acknowledged, newest first: ?limit=100
    POST /api/alarms/ID/ack   acknowledge one: {"by": "...", "note": "..."}; the first one counts
    GET /api/labels     what was said of a step, oldest first: ?id=ID
    POST /api/labels    say what is true of one: {"id": "...", "label": "on_path|off_path|unsure|undo", "by": "...",
                        "note": "..."}; 202 if the id's verdict is yet to come
    GET /api/steps      what became of one call: ?session=NAME, and &call_id=ID or &step=NUMBER; null if unknown,
                        for which &wait=SECONDS takes up to 30
    POST /-/reload      read the settings and the policy again: all of it, or 409 and nothing

What the console shows; lists say in `next` what `after` takes for the next page:

    GET /api/summary    how much there is, rates with their intervals, the budget of false alarms, who judges
    GET /api/trajectories     those judged last first: ?limit&after&q=NAME&agent=FORMAT|NAME&verdict=KIND&alarm=open
    GET /api/trajectories/ID/steps     oldest first: ?limit&after&verdict=KIND&tool=NAME&q=TEXT
    GET /api/verdicts/ID      a whole one, by its id, its step's id or the beginning of one, with what was said of it
    GET /api/verdicts/ID/record        the line of the log that it came from, as it is now
    GET /api/quarantine       lines that could not be read, the last ones first: ?limit&after
    GET /api/unknown    records of types that no adapter knows, as counted since the start
    GET /api/events     all that happens, as server-sent events; goes on after Last-Event-ID, or ?after=SEQ
    POST /api/session   {"token": "..."} for a cookie that counts as the token; DELETE ends that

A web page must not reach it: requests are checked for a Host that is ours, and anything but reading needs the token, a
JSON body and no foreign Origin. It knows no sink: it is handed what it shows.
"""

from verifierd.http.app import RecentVerdicts, app
from verifierd.http.changes import Alarms, Labels, Reload
from verifierd.http.figures import Console, Facts, summary
from verifierd.http.server import serve
from verifierd.http.token import announce, token

__all__ = (
    "Alarms",
    "Console",
    "Facts",
    "Labels",
    "RecentVerdicts",
    "Reload",
    "announce",
    "app",
    "serve",
    "summary",
    "token",
)
