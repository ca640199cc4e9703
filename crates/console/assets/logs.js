// What the copies of a workload write, as it comes.

import { Refusal, pathOf, text } from "./api.js";
import { copies, copyChooser } from "./copies.js";
import { el, fill, problem } from "./dom.js";

/** Lines that are kept; older ones go when newer ones come. */
const LINES_MAX = 5000;
/** What is longer is broken, so that no line makes the page slow. */
const LINE_LENGTH_MAX = 4000;
const TAILS = [100, 1000, LINES_MAX];
/** How long to wait before output that ended is read again. */
const RETRY_MS = 1000;
const RETRY_MS_MAX = 15000;

/** Shows the output of one copy, or of all of them. */
export async function logs(view, here) {
  const page = new Page(here);
  fill(view, page.element());
  await Promise.all([page.watchCopies(), page.read()]);
}

class Page {
  constructor({ kind, kinds, project, name, signal, state, copy }) {
    Object.assign(this, { kind, kinds, project, name, signal, state });
    this.path = pathOf(kind, project, name);
    this.copy = copy;
    this.lines = [];
    this.waiting = [];
    this.drawing = false;
    this.again = new AbortController();
  }

  element() {
    const again = () => this.again.abort();
    const redraw = () => this.redraw();
    const box = (words, title, on, onchange) => {
      const input = el("input", { type: "checkbox", checked: on, onchange });
      return [input, el("label", { className: "check", title }, input, words)];
    };
    const [following, follow] = box("Follow", "Go on with what is written later", true, again);
    const [wrapping, wrap] = box("Wrap", "Break lines that are too long", true, () => this.body.classList.toggle("wrap", wrapping.checked));
    const [timing, times] = box("Times", "When each line was written, by the clock of its node", false, () => {
      this.body.classList.toggle("times", timing.checked);
      again();
    });
    this.following = following;
    this.timing = timing;
    this.chooser = copyChooser("all copies", this.copy, (copy) => {
      this.copy = copy;
      again();
    });
    this.tail = el("select", { "aria-label": "Lines before the end", onchange: again }, TAILS.map((count) => el("option", { value: String(count) }, `last ${count}`)));
    this.filter = el("input", { type: "search", placeholder: "Filter", "aria-label": "Filter", oninput: redraw });
    this.count = el("span", { className: "quiet", role: "status" }, "Loading…");
    this.body = el("div", { className: "output wrap", tabindex: "0", role: "log", "aria-label": "Logs" });
    this.trouble = el("div");
    const back = el("a", { href: `#${this.path}` }, this.name);
    return el("article", {},
      el("p", { className: "quiet" }, el("a", { href: `#${pathOf(this.kind, this.project)}` }, this.kind.kind), " / ", this.project, " / ", back),
      el("div", { className: "title" }, el("h1", {}, `Logs of ${this.name}`)),
      el("div", { className: "bar" }, this.chooser, this.tail, this.filter, follow, wrap, times, this.count),
      this.trouble, this.body,
    );
  }

  async watchCopies() {
    let before;
    await copies(this, (names) => {
      this.chooser.offer(names);
      const now = names.join(" ");
      // A new copy is not part of what is being read.
      if (before !== undefined && before !== now && !this.copy) this.again.abort();
      before = now;
    });
  }

  /** Reads until the page is left. What ends is begun anew, with its last lines. */
  async read() {
    let wait = RETRY_MS;
    while (!this.signal.aborted) {
      this.again = new AbortController();
      const stop = AbortSignal.any([this.signal, this.again.signal]);
      try {
        this.begin();
        await this.readOnce(stop);
        this.flush();
        wait = this.lines.length ? RETRY_MS : wait;
        this.state("");
      } catch (error) {
        if (this.signal.aborted) return;
        if (!stop.aborted) {
          if (error instanceof Refusal && error.code === 401) throw error;
          fill(this.trouble, problem(error));
        }
      }
      if (this.signal.aborted) return;
      if (this.again.signal.aborted) continue;
      // Whoever does not follow reads again when they want something else.
      await pause(this.following.checked ? wait : Infinity, stop);
      wait = this.again.signal.aborted ? RETRY_MS : Math.min(wait * 2, RETRY_MS_MAX);
    }
  }

  begin() {
    this.fresh = true;
  }

  async readOnce(signal) {
    const query = new URLSearchParams({ tailLines: this.tail.value });
    if (this.following.checked) query.set("follow", "true");
    if (this.copy) query.set("container", this.copy);
    this.timed = this.timing.checked;
    if (this.timed) query.set("timestamps", "true");
    let rest = "";
    for await (const piece of text(`${this.path}/log?${query}`, signal)) {
      fill(this.trouble);
      const parts = (rest + piece).split("\n");
      rest = parts.pop();
      for (; rest.length > LINE_LENGTH_MAX; rest = rest.slice(LINE_LENGTH_MAX)) parts.push(rest.slice(0, LINE_LENGTH_MAX));
      this.take(parts);
    }
    if (rest) this.take([rest]);
  }

  take(lines) {
    if (this.fresh) this.clear();
    for (const all of lines) {
      const { written, line } = this.timed ? split(all) : { written: "", line: all };
      for (let at = 0; at === 0 || at < line.length; at += LINE_LENGTH_MAX) {
        this.waiting.push({ written, words: shown(line.slice(at, at + LINE_LENGTH_MAX)) });
      }
    }
    if (this.waiting.length > LINES_MAX) this.waiting.splice(0, this.waiting.length - LINES_MAX);
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => this.flush());
  }

  clear() {
    this.fresh = false;
    this.lines = [];
    this.waiting = [];
    fill(this.body);
  }

  flush() {
    this.drawing = false;
    if (this.fresh) this.clear();
    const { body } = this;
    const atEnd = body.scrollHeight - body.scrollTop - body.clientHeight < 30;
    const fits = this.fits();
    const made = this.waiting.splice(0).map((line) => Object.assign(line, { row: row(line) }));
    this.lines.push(...made);
    for (const line of made) line.row.hidden = !fits(line);
    body.append(...made.map((line) => line.row));
    for (const line of this.lines.splice(0, Math.max(0, this.lines.length - LINES_MAX))) line.row.remove();
    if (atEnd) body.scrollTop = body.scrollHeight;
    this.tell();
  }

  redraw() {
    const fits = this.fits();
    for (const line of this.lines) line.row.hidden = !fits(line);
    this.body.scrollTop = this.body.scrollHeight;
    this.tell();
  }

  fits() {
    const wanted = this.filter.value.trim().toLowerCase();
    return (line) => !wanted || line.words.toLowerCase().includes(wanted);
  }

  tell() {
    const all = this.lines.length;
    const found = this.lines.filter((line) => !line.row.hidden).length;
    const most = all === LINES_MAX ? `the last ${all}` : `${all}`;
    this.count.textContent = `${found === all ? most : `${found} of ${most}`} ${all === 1 ? "line" : "lines"}`;
  }
}

function row({ written, words }) {
  const own = words.startsWith("[orrery] ");
  const time = el("span", { className: "written", title: written }, written && clock(written));
  return el("div", { className: own ? "line own" : "line" }, time, el("span", {}, words || " "));
}

/** The time before a line, which stands behind the name of its copy where there are several; and the line without it. */
export function split(line) {
  const found = /^((?:[a-z0-9.-]+: )?)(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z) /.exec(line);
  if (!found) return { written: "", line };
  const [all, copy, written] = found;
  return { written, line: copy + line.slice(all.length) };
}

/** The time of day of this person, with the date where it is not today's. */
function clock(written) {
  const at = new Date(written);
  const time = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString()} ${time}`;
}

/**
 * A line without what would change how it looks: colours and the like are left out, other characters that are not
 * printed are shown as signs, and those that turn the direction of a text around as well.
 */
export function shown(line) {
  return line
    .replace(/\r$/, "")
    .replace(/\x1b(\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(\x07|\x1b\\)?|[ -/]*[0-~])/g, "")
    .replace(/[\0-\x08\x0a-\x1f]/g, (character) => String.fromCodePoint(0x2400 + character.codePointAt(0)))
    .replace(/[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, "\ufffd");
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const timer = Number.isFinite(ms) ? setTimeout(resolve, ms) : undefined;
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}
