/**
 * A list of thousands of rows of which the page holds only those in sight, read page by page.
 *
 * Rows have one height, which the style sheet says (`--row`), so that places are arithmetic.
 */

import { failed, fill, h, state } from "./dom.js";

const OVERSCAN = 8; // rows beyond either edge
const EAGER = 6000; // rows that are read unasked, so that the scroll bar tells the truth
const AHEAD = 100; // beyond these, read on when so many are left below

let lists = 0;

export class VirtualList {
    #options;
    #rows = new Map(); // index -> element
    #places = new Map(); // key -> index
    #next = null;
    #done = false;
    #loading = false;
    #error = null;
    #turn = 0;
    #id = `list${++lists}`;
    #frame = 0;
    #space = h("div", { class: "list-space" });
    #foot = h("div", { class: "list-foot" });
    #observer = new ResizeObserver(() => this.paint());

    items = [];
    active = -1;

    /**
     * @param options.label What the list is of, for who cannot see it.
     * @param options.load Cursor or null -> {items, next}.
     * @param options.key Item -> what it is known by.
     * @param options.render Item -> children of its row.
     * @param options.kind Item -> class of its row.
     * @param options.empty -> what stands there if there is nothing.
     * @param options.onopen Item: somebody wants to look at it.
     * @param options.onchange The items, or which one is active, changed.
     */
    constructor(options) {
        this.#options = options;
        this.element = h(
            "div",
            { class: "list", role: "listbox", tabindex: "0", "aria-label": options.label, id: this.#id },
            this.#space,
            this.#foot,
        );
        this.element.addEventListener("scroll", () => this.paint(), { passive: true });
        this.element.addEventListener("keydown", (event) => this.#key(event));
        this.element.addEventListener("click", (event) => {
            const row = event.target.closest("[data-index]");
            if (row) this.open(Number(row.dataset.index));
        });
        this.#observer.observe(this.element);
    }

    /** Forget all and read anew. */
    reset() {
        this.#turn += 1;
        this.items = [];
        this.#places.clear();
        this.active = -1;
        this.#next = null;
        this.#done = false;
        this.#error = null;
        this.#loading = false;
        this.element.scrollTop = 0;
        this.#clear();
        return this.#more();
    }

    /** The index of a key, or -1. */
    find(key) {
        return this.#places.get(key) ?? -1;
    }

    /** Read on until a key is there; its index, or -1. */
    async reach(key) {
        const turn = this.#turn;
        while (this.find(key) < 0 && !this.#done && !this.#error && turn === this.#turn) {
            if (this.#loading) await new Promise((resolve) => setTimeout(resolve, 20));
            else await this.#more();
        }
        return turn === this.#turn ? this.find(key) : -1;
    }

    /** Everything was read. */
    get complete() {
        return this.#done;
    }

    /** At its top, where what is new appears. */
    get atTop() {
        return this.element.scrollTop < this.#height();
    }

    /** Another item in the place of one that is known. */
    update(key, change) {
        const index = this.find(key);
        if (index < 0) return false;
        this.items[index] = change(this.items[index]);
        this.#drop(index);
        this.paint();
        return true;
    }

    /** New first rows; those that were known are moved there. */
    lead(items) {
        const known = new Set(items.map(this.#options.key));
        const chosen = this.active >= 0 ? this.#options.key(this.items[this.active]) : null;
        this.items = [...items, ...this.items.filter((item) => !known.has(this.#options.key(item)))];
        this.#number();
        this.active = chosen === null ? -1 : this.find(chosen);
        this.#clear();
        this.paint();
        this.#changed();
    }

    /** One more row at the end, if the end is known. Who looks at the end goes on looking at it. */
    append(item) {
        if (!this.#done || this.find(this.#options.key(item)) >= 0) return;
        const { scrollTop, clientHeight, scrollHeight } = this.element;
        const follows = this.items.length > 0 && scrollTop + clientHeight >= scrollHeight - this.#height();
        this.#add([item]);
        this.paint();
        if (follows) this.element.scrollTop = this.element.scrollHeight;
        this.#changed();
    }

    /** Mark a row, and bring it into sight. */
    select(index) {
        if (!this.items.length) return;
        const chosen = Math.max(0, Math.min(index, this.items.length - 1));
        const old = this.active;
        this.active = chosen;
        this.#drop(old);
        this.#drop(chosen);
        this.#show(chosen);
        this.paint();
        this.#changed();
    }

    /** The next row, or the one before. */
    step(by) {
        this.select(this.active < 0 ? (by > 0 ? this.#first() : 0) : this.active + by);
    }

    /** Look at a row. */
    open(index = this.active) {
        if (index < 0 || index >= this.items.length) return;
        this.select(index);
        this.#options.onopen?.(this.items[index]);
    }

    focus() {
        this.element.focus({ preventScroll: true });
    }

    destroy() {
        this.#turn += 1;
        this.#observer.disconnect();
        cancelAnimationFrame(this.#frame);
    }

    /** Draw anew all that is in sight. */
    refresh() {
        this.#clear();
        this.paint();
    }

    /** Draw what came into sight, before the next frame. */
    paint() {
        if (this.#frame) return;
        this.#frame = requestAnimationFrame(() => {
            this.#frame = 0;
            this.#draw();
        });
    }

    #draw() {
        const height = this.#height();
        const { scrollTop, clientHeight } = this.element;
        const first = Math.max(0, Math.floor(scrollTop / height) - OVERSCAN);
        const last = Math.min(this.items.length, Math.ceil((scrollTop + clientHeight) / height) + OVERSCAN);
        this.#space.style.height = `${this.items.length * height}px`;
        for (const [index, row] of this.#rows) {
            if (index >= first && index < last) continue;
            row.remove();
            this.#rows.delete(index);
        }
        let below = null; // rows stand in the page as they stand in the list, for whoever has it read out
        for (let index = last - 1; index >= first; index -= 1) {
            const row = this.#rows.get(index) ?? this.#row(index, below);
            row.style.transform = `translateY(${index * height}px)`;
            below = row;
        }
        if (this.active >= first && this.active < last) {
            this.element.setAttribute("aria-activedescendant", `${this.#id}-${this.active}`);
        } else this.element.removeAttribute("aria-activedescendant");
        this.#tell();
        if (this.items.length - last < AHEAD && !this.#error) this.#more();
    }

    #row(index, below) {
        const item = this.items[index];
        const row = h(
            "div",
            {
                class: `row ${this.#options.kind?.(item) ?? ""}`,
                role: "option",
                id: `${this.#id}-${index}`,
                "data-index": index,
                "aria-selected": String(index === this.active),
                "aria-posinset": index + 1,
                "aria-setsize": this.#done ? this.items.length : -1,
            },
            this.#options.render(item),
        );
        this.#rows.set(index, row);
        this.#space.insertBefore(row, below);
        return row;
    }

    /** What stands below the rows: that more is coming, that there is nothing, or why it failed. */
    #tell() {
        const { items } = this;
        let told = "end";
        if (this.#error) told = "error";
        else if (!this.#done) told = items.length ? "more" : "loading";
        else if (!items.length) told = "empty";
        if (this.#foot.dataset.told === told) return;
        this.#foot.dataset.told = told;
        if (told === "error") fill(this.#foot, failed(this.#error, () => this.retry()));
        else if (told === "empty") fill(this.#foot, this.#options.empty());
        else if (told === "loading") fill(this.#foot, state("loading", "Loading"));
        else fill(this.#foot, told === "more" && h("p", { class: "hint" }, "Loading more"));
    }

    /** Read on if reading failed. */
    retry() {
        if (!this.#error) return;
        this.#error = null;
        this.#more();
        this.paint();
    }

    async #more() {
        if (this.#loading || this.#done) return;
        this.#loading = true;
        const turn = this.#turn;
        this.paint();
        try {
            const { items, next } = await this.#options.load(this.#next);
            if (turn !== this.#turn) return;
            this.#add(items);
            this.#next = next;
            this.#done = next === null || next === undefined;
        } catch (error) {
            if (turn !== this.#turn) return;
            this.#error = error;
        }
        this.#loading = false;
        this.paint();
        this.#changed();
        if (!this.#done && !this.#error && this.items.length < EAGER) setTimeout(() => turn === this.#turn && this.#more());
    }

    #add(items) {
        for (const item of items) {
            const key = this.#options.key(item);
            if (this.#places.has(key)) continue; // it moved while we read
            this.#places.set(key, this.items.length);
            this.items.push(item);
        }
    }

    #number() {
        this.#places = new Map(this.items.map((item, index) => [this.#options.key(item), index]));
    }

    #changed() {
        this.#options.onchange?.();
    }

    #clear() {
        for (const row of this.#rows.values()) row.remove();
        this.#rows.clear();
        delete this.#foot.dataset.told;
    }

    #drop(index) {
        this.#rows.get(index)?.remove();
        this.#rows.delete(index);
    }

    #show(index) {
        const height = this.#height();
        const { scrollTop, clientHeight } = this.element;
        // The room may not have been made yet.
        this.#space.style.height = `${this.items.length * height}px`;
        if (index * height < scrollTop) this.element.scrollTop = index * height;
        else if ((index + 1) * height > scrollTop + clientHeight) {
            this.element.scrollTop = (index + 1) * height - clientHeight;
        }
    }

    #first() {
        return Math.ceil(this.element.scrollTop / this.#height());
    }

    #height() {
        return Number.parseFloat(getComputedStyle(this.element).getPropertyValue("--row")) || 40;
    }

    #key(event) {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const page = Math.max(1, Math.floor(this.element.clientHeight / this.#height()) - 1);
        const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
        if (event.key in moves) this.step(moves[event.key]);
        else if (event.key === "Home") this.select(0);
        else if (event.key === "End") this.select(this.items.length - 1);
        else return;
        event.preventDefault();
    }
}
