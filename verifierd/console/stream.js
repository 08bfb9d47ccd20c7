/**
 * What happens, as it happens: server-sent events, resumed where they broke off.
 *
 * The browser resumes a broken connection by itself; one that was refused is tried again here, later and later. A tab
 * that nobody sees listens to nothing: browsers open no more than six connections to a host, for all tabs together.
 */

const KINDS = ["verdict", "alarm", "label", "summary"];
const FIRST = 1000; // milliseconds to the second try
const LAST = 30_000;

export class Stream extends EventTarget {
    #source = null;
    #after = null;
    #wait = FIRST;
    #timer = 0;
    #opened = false;

    /** `connecting`, `live`, `lost`, or `resting` while nobody sees it. */
    state = "connecting";

    /** Begin after an event's number. */
    start(after) {
        this.#after = after;
        addEventListener("online", () => this.again());
        document.addEventListener("visibilitychange", () => (document.hidden ? this.#rest() : this.again()));
        if (document.hidden) this.#rest();
        else this.#connect();
    }

    /** Try now: there may be a session since. */
    again() {
        if (this.state === "live" || this.#after === null) return;
        this.#source?.close();
        this.#connect();
    }

    #rest() {
        clearTimeout(this.#timer);
        this.#source?.close();
        this.#become("resting");
    }

    #connect() {
        clearTimeout(this.#timer);
        const source = new EventSource(`/api/events?after=${encodeURIComponent(this.#after)}`);
        this.#source = source;
        source.addEventListener("open", () => {
            this.#wait = FIRST;
            const resumed = this.#opened;
            this.#opened = true;
            this.#become("live");
            // What was missed is sent again as far as the daemon has it; views look anew in any case.
            if (resumed) this.dispatchEvent(new Event("resumed"));
        });
        source.addEventListener("error", () => {
            this.#become("lost");
            if (source.readyState !== EventSource.CLOSED) return;
            this.#timer = setTimeout(() => this.#connect(), this.#wait);
            this.#wait = Math.min(LAST, this.#wait * 2);
        });
        for (const kind of KINDS) {
            source.addEventListener(kind, (event) => {
                if (event.lastEventId) this.#after = event.lastEventId;
                this.dispatchEvent(new CustomEvent(kind, { detail: JSON.parse(event.data) }));
            });
        }
        source.addEventListener("reset", (event) => {
            if (event.lastEventId) this.#after = event.lastEventId; // too much was missed to be told one by one
            this.dispatchEvent(new Event("resumed"));
        });
    }

    #become(state) {
        if (state === this.state) return;
        this.state = state;
        this.dispatchEvent(new Event("state"));
    }
}
