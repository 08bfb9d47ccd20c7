/** Elements made of attributes and text nodes alone: whatever a transcript holds, here it stays text. */

const SVG = "http://www.w3.org/2000/svg";

/** An element. Attributes that are null, undefined or false are left out; `on...` are listeners. */
export function h(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    set(element, attributes);
    element.append(...present(children));
    return element;
}

/** An SVG element. */
export function svg(tag, attributes = {}, ...children) {
    const element = document.createElementNS(SVG, tag);
    set(element, attributes);
    element.append(...present(children));
    return element;
}

/** A picture of the sprite (`icons.svg`); with a title it speaks, else it is decoration. */
export function icon(name, title = "") {
    const shown = title ? { role: "img", "aria-label": title } : { "aria-hidden": "true" };
    const parts = [svg("use", { href: `#icon-${name}` })];
    if (title) parts.unshift(svg("title", {}, title));
    return svg("svg", { class: `icon icon-${name}`, ...shown }, ...parts);
}

/** Take the sprite into the page, where it stays when the daemon does not answer any more. */
export async function loadIcons() {
    const answer = await fetch("icons.svg");
    const { documentElement: sprite } = new DOMParser().parseFromString(await answer.text(), "image/svg+xml");
    sprite.setAttribute("class", "sprite");
    sprite.setAttribute("aria-hidden", "true");
    document.body.append(document.adoptNode(sprite));
}

/** Text of a transcript or a log: set apart, so that its writing direction reaches no further. */
export function data(text, attributes = {}) {
    return h("bdi", { ...attributes, class: `data ${attributes.class ?? ""}` }, text);
}

/** Put other children in the place of those there are. */
export function fill(element, ...children) {
    element.replaceChildren(...present(children));
    return element;
}

/** A whole view's empty, loading or error state. */
export function state(kind, title, text = "", ...actions) {
    const picture = kind === "loading" ? h("span", { class: "spinner", "aria-hidden": "true" }) : icon(kind);
    return h(
        "div",
        { class: `state state-${kind}`, role: kind === "trouble" ? "alert" : "status" },
        picture,
        h("h2", {}, title),
        text && h("p", {}, text),
        actions,
    );
}

/** What to say of an error, and a way to try again. */
export function failed(error, again) {
    const retry = h("button", { type: "button", onclick: again }, "Try again");
    return state("trouble", error.message || "That did not work", error.hint || "", retry);
}

/** Words that are read out, and not seen. */
export function unseen(text) {
    return h("span", { class: "unseen" }, text);
}

function set(element, attributes) {
    for (const [name, value] of Object.entries(attributes)) {
        if (value === null || value === undefined || value === false) continue;
        if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
        else element.setAttribute(name, value === true ? "" : String(value));
    }
}

function present(children) {
    return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false && child !== "");
}
