/** A search field, selects and toggles whose values stand in the address. */

import { h } from "./dom.js";

const PATIENCE = 250; // milliseconds after the last letter

/**
 * @param options.query Name -> value.
 * @param options.go Called with the changed query.
 * @param options.search What the field finds.
 * @param options.selects {name, title, options: [value, text]}.
 * @param options.toggles {name, value, text}.
 */
export function filters({ query, go, search, selects, toggles = [] }) {
    let now = { ...query };
    let timer = 0;
    const change = (name, value) => go({ ...now, [name]: value });
    const field = h("input", {
        type: "search",
        class: "search",
        placeholder: search,
        "aria-label": search,
        "aria-keyshortcuts": "/",
        value: now.q ?? "",
        maxlength: "200",
        oninput: () => {
            clearTimeout(timer);
            timer = setTimeout(() => change("q", field.value.trim()), PATIENCE);
        },
    });
    const choices = new Map(
        selects.map(({ name, title, options }) => {
            const select = h("select", { "aria-label": title, "data-filter": name, onchange: () => change(name, select.value) });
            select.append(new Option(`Any ${title.toLowerCase()}`, ""), ...options.map(([value, text]) => new Option(text, value)));
            return [name, select];
        }),
    );
    const buttons = toggles.map(({ name, value, text }) => {
        const button = h(
            "button",
            { type: "button", class: "switch", "data-filter": name, onclick: () => change(name, now[name] === value ? "" : value) },
            text,
        );
        return { name, value, button };
    });
    const told = h("span", { class: "told", role: "status" });
    const show = (changed) => {
        now = { ...changed };
        if (document.activeElement !== field) field.value = now.q ?? "";
        for (const [name, select] of choices) {
            const wanted = now[name] ?? "";
            if (![...select.options].some((option) => option.value === wanted)) select.append(new Option(wanted, wanted));
            select.value = wanted;
        }
        for (const { name, value, button } of buttons) button.setAttribute("aria-pressed", String(now[name] === value));
    };
    show(now);
    return {
        element: h("div", { class: "filters", role: "search" }, field, ...choices.values(), buttons.map(({ button }) => button), told),
        show,
        tell: (text) => {
            if (told.textContent !== text) told.textContent = text;
        },
        focus: () => field.select(),
        /** More options of a select, beside those it has. */
        offer: (name, options) => {
            const select = choices.get(name);
            const known = new Set([...select.options].map((option) => option.value));
            for (const [value, text] of options) if (!known.has(value)) select.append(new Option(text, value));
        },
    };
}
