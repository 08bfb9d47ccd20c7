/** What lies over the page: the question for the token, the keys, and short notices. */

import { openSession } from "./api.js";
import { h } from "./dom.js";

const KEYS = [
    ["j, k", "next and previous row, or step"],
    ["Enter", "open it"],
    ["Esc", "back; leave a field"],
    ["/", "search"],
    ["l then o", "label: really off-path"],
    ["l then f", "label: false alarm, it was on path"],
    ["l then u", "label: unsure"],
    ["l then z", "take the last label back"],
    ["g then t", "trajectories"],
    ["g then a", "alarms"],
    ["g then f", "figures"],
    ["g then q", "quarantine"],
    ["g then u", "unknown records"],
    ["t", "light, dark or as the system has it"],
    ["?", "this help"],
];

const FILE = /Mac OS/.test(navigator.userAgent) ? "~/Library/Application\\ Support/verifierd/token" : "~/.local/state/verifierd/token";

let asked = null;

/** Ask for the token, once at a time; whether there is a session now. */
export function askForToken() {
    asked ??= ask().finally(() => {
        asked = null;
    });
    return asked;
}

function ask() {
    return new Promise((resolve) => {
        const trouble = h("p", { class: "trouble", role: "alert" });
        const field = h("input", { type: "password", id: "token", autocomplete: "off", required: true, spellcheck: "false" });
        const form = h(
            "form",
            {},
            h("h2", { id: "token-title" }, "The token, please"),
            h("p", {}, "It is in the file ", h("code", {}, "token"), " of the state folder; that is, unless ", h("code", {}, "--state"), " names another one:"),
            h("pre", { tabindex: "0" }, `cat ${FILE}`),
            h("label", { for: "token" }, "Token"),
            field,
            trouble,
            h(
                "div",
                { class: "buttons" },
                h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
                h("button", { type: "submit", class: "primary" }, "Unlock"),
            ),
        );
        const dialog = h("dialog", { "aria-labelledby": "token-title" }, form);
        let session = false;
        form.addEventListener("submit", async (event) => {
            event.preventDefault();
            trouble.textContent = "";
            try {
                await openSession(field.value.trim());
                session = true;
                dialog.close();
            } catch (error) {
                trouble.textContent = error.status === 401 ? "That is not the token." : error.message;
                field.select();
            }
        });
        dialog.addEventListener("close", () => {
            dialog.remove();
            resolve(session);
        });
        document.body.append(dialog);
        dialog.showModal();
        field.focus();
    });
}

/** Say which keys there are. */
export function help() {
    if (document.querySelector("dialog")) return;
    const dialog = h(
        "dialog",
        { class: "help", "aria-labelledby": "help-title" },
        h("h2", { id: "help-title" }, "Keys"),
        h("dl", { class: "keys" }, KEYS.flatMap(([keys, text]) => [h("dt", {}, keys.split(" then ").flatMap((key, i) => [i > 0 && " then ", h("kbd", {}, key)])), h("dd", {}, text)])),
        h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Close")),
    );
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
}

/** Say something shortly, with a way to undo it. What has the same key takes the other's place. */
export function toast(text, { undo = null, bad = false, key = null } = {}) {
    const box = document.getElementById("toasts");
    for (const other of [...box.children]) if (key && other.dataset.key === key) other.remove();
    const note = h("div", { class: `toast ${bad ? "bad" : ""}`, "data-key": key }, h("span", {}, text));
    const leave = () => note.remove();
    if (undo) {
        const act = () => {
            leave();
            undo.act();
        };
        note.append(h("button", { type: "button", onclick: act }, undo.text));
    }
    note.append(h("button", { type: "button", class: "plain", "aria-label": "Dismiss", onclick: leave }, "×"));
    box.append(note);
    while (box.children.length > 3) box.firstChild.remove();
    setTimeout(leave, bad ? 12_000 : 8000);
}
