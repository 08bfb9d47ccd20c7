/** The console: which view an address means, what the keys do, what the event stream brings. */

import { askForTokenBy, get, post } from "./api.js";
import { askForToken, help, toast } from "./dialogs.js";
import { failed, fill, h, icon, loadIcons } from "./dom.js";
import * as figures from "./figures.js";
import * as labels from "./labels.js";
import { AlarmsView, FiguresView, QuarantineView, UnknownView } from "./pages.js";
import { Stream } from "./stream.js";
import { FILTERS as STEP_FILTERS, TrajectoryView, VerdictView } from "./trajectory.js";
import { FILTERS, TrajectoriesView } from "./trajectories.js";

const PAGES = [
    ["", "Trajectories", "t"],
    ["alarms", "Alarms", "a"],
    ["figures", "Figures", "f"],
    ["quarantine", "Quarantine", "q"],
    ["unknown", "Unknown", "u"],
];
const THEMES = { auto: "As the system has it", light: "Light", dark: "Dark" };
const SEQUENCE = 2000; // milliseconds to the second key
const BACKGROUND = 30_000; // milliseconds between two looks at the figures from a tab that nobody sees
const LABELS = { o: "off_path", f: "on_path", u: "unsure", z: "undo" };

const main = document.getElementById("main");
const stream = new Stream();
let view = null;
let place = null;
let pending = { key: "", timer: 0 };

const context = {
    summary: null,
    toast,
    route,
    go,
    retitle,
    say: (verdictId, label) => labels.say(verdictId, label, toast),
    async acknowledge(id) {
        try {
            return await post(`/api/alarms/${encodeURIComponent(id)}/ack`, { by: labels.name() });
        } catch (error) {
            if (error.status !== 401) toast(error.message, { bad: true });
            return null;
        }
    },
};

/** The address of a view: `t/ID` and filters. */
function route(path, query = {}) {
    const kept = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
    return `#/${path}${kept.size ? `?${kept}` : ""}`;
}

function go(address, { replace = false } = {}) {
    if (replace) location.replace(address);
    else location.hash = address;
}

function parse() {
    const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
    return { parts: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

function decoded(part) {
    try {
        return decodeURIComponent(part);
    } catch {
        return part; // an address that somebody mistyped names nothing, and breaks nothing
    }
}

function show() {
    const { parts, query } = parse();
    const [name = "", id, verdictId] = parts;
    const wanted = (names) => Object.fromEntries(names.map((key) => [key, query.get(key) ?? ""]));
    const key = name === "t" || name === "v" ? `${name}/${id}` : name;
    const filters = name === "t" ? wanted(STEP_FILTERS) : wanted(FILTERS);
    if (key !== place) {
        const first = view === null; // nobody was anywhere yet, and a ring around the list would only puzzle
        view?.leave();
        view = open(name, id, filters);
        place = key;
        fill(main, view.element);
        view.update(filters, verdictId ?? null);
        if (!first) view.focus();
    } else view.update(filters, verdictId ?? null);
    for (const link of document.querySelectorAll("#nav a")) {
        const here = link.dataset.page === (name === "t" || name === "v" ? "" : name);
        if (here) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
    }
    retitle();
}

function open(name, id, filters) {
    if (name === "t" && id) return new TrajectoryView(context, id, filters);
    if (name === "v" && id) return new VerdictView(context, id);
    if (name === "alarms") return new AlarmsView(context);
    if (name === "figures") return new FiguresView(context);
    if (name === "quarantine") return new QuarantineView();
    if (name === "unknown") return new UnknownView();
    return new TrajectoriesView(context, filters);
}

function retitle() {
    const alarms = context.summary?.alarms_open;
    document.title = `${alarms ? `(${alarms}) ` : ""}${view?.title ?? ""} · verifierd`;
}

function summarise(summary) {
    context.summary = summary;
    figures.strip(document.getElementById("strip"), summary);
    view?.happened("summary", summary);
    for (const [page, count] of [["alarms", summary.alarms_open], ["quarantine", summary.quarantined]]) {
        const badge = document.querySelector(`#nav [data-page="${page}"] .count`);
        badge.textContent = count ? String(count) : "";
    }
    retitle();
}

function connection() {
    const text = { connecting: "connecting", live: "live", lost: "disconnected", resting: "paused" }[stream.state];
    const element = document.getElementById("connection");
    element.dataset.state = stream.state;
    element.title = stream.state === "lost" ? "The daemon does not answer; the page tries again by itself." : "";
    fill(element, h("span", { class: "dot", "aria-hidden": "true" }), h("span", {}, text));
    document.body.classList.toggle("is-lost", stream.state === "lost");
}

function theme(next = false) {
    const root = document.documentElement;
    const names = Object.keys(THEMES);
    let now = root.dataset.theme ?? "auto";
    if (next) {
        now = names[(names.indexOf(now) + 1) % names.length];
        if (now === "auto") delete root.dataset.theme;
        else root.dataset.theme = now;
        try {
            localStorage.setItem("verifierd.theme", now);
        } catch {
            // It is asked for again next time.
        }
        dispatchEvent(new Event("verifierd-theme"));
    }
    const button = document.getElementById("theme");
    button.title = `Theme: ${THEMES[now].toLowerCase()} (t)`;
    button.setAttribute("aria-label", button.title);
    fill(button, icon({ auto: "auto", light: "sun", dark: "moon" }[now]));
}

/** The second key of two, or the first of them. */
function sequence(key) {
    const first = pending.key;
    clearTimeout(pending.timer);
    pending = { key: "", timer: 0 };
    if (first === "l" && key in LABELS) {
        view.say?.(LABELS[key]);
        return true;
    }
    if (first === "g") {
        const page = PAGES.find(([, , letter]) => letter === key);
        if (page) go(`#/${page[0]}`);
        return Boolean(page);
    }
    if (key === "l" || key === "g") {
        pending = { key, timer: setTimeout(() => (pending = { key: "", timer: 0 }), SEQUENCE) };
        return true;
    }
    return false;
}

function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
    const writing = event.target.closest?.("input, textarea, select");
    if (writing) {
        if (event.key !== "Escape") return;
        writing.blur();
        view.focus();
        event.preventDefault();
        return;
    }
    if (!sequence(event.key) && !act(event)) return;
    event.preventDefault();
}

function act(event) {
    switch (event.key) {
        case "j":
        case "k": {
            const by = event.key === "j" ? 1 : -1;
            if (view.step) view.step.move(by);
            else view.list?.step(by);
            return true;
        }
        case "Enter":
            if (event.target.closest("a, button, summary")) return false;
            view.list?.open();
            return Boolean(view.list);
        case "Escape":
            view.up?.();
            return Boolean(view.up);
        case "/":
            view.search?.();
            return Boolean(view.search);
        case "?":
            help();
            return true;
        case "t":
            theme(true);
            return true;
        default:
            return false;
    }
}

async function begin() {
    try {
        const summary = await get("/api/summary");
        summarise(summary);
        if (stream.state !== "live") stream.start(summary.seq);
    } catch (error) {
        fill(document.getElementById("strip"), failed(error, begin));
        if (error.status === 0) setTimeout(begin, 5000);
    }
}

async function refresh() {
    try {
        summarise(await get("/api/summary"));
    } catch {
        // The connection's state says it.
    }
}

askForTokenBy(async () => {
    const session = await askForToken();
    if (session) stream.again();
    return session;
});
for (const kind of ["verdict", "alarm", "label"]) stream.addEventListener(kind, ({ detail }) => view?.happened(kind, detail));
stream.addEventListener("summary", ({ detail }) => summarise(detail));
stream.addEventListener("resumed", async () => {
    view?.happened("resumed");
    await refresh();
});
stream.addEventListener("state", connection);
setInterval(() => stream.state === "resting" && refresh(), BACKGROUND); // open alarms stand in the tab's title
addEventListener("hashchange", show);
addEventListener("keydown", pressed);
document.getElementById("help").addEventListener("click", help);
document.getElementById("theme").addEventListener("click", () => theme(true));
document.getElementById("skip").addEventListener("click", () => (view?.list ? view.focus() : main.focus()));
fill(
    document.getElementById("nav"),
    PAGES.map(([path, name, key]) => h("a", { href: `#/${path}`, "data-page": path, title: `g then ${key}` }, name, h("span", { class: "count" }))),
);
loadIcons().catch(() => {}); // without them everything is still said in words
theme();
connection();
show();
begin();
