// A command beside a copy, in a terminal of the page's own.

import { get, pathOf, socket } from "./api.js";
import { copies, copyChooser } from "./copies.js";
import { el, fill, problem } from "./dom.js";
import { Screen } from "./vt.js";

/** The channels of the socket. */
const [STDIN, STDOUT, STDERR, ERROR, RESIZE] = [0, 1, 2, 3, 4];
const ROWS_MIN = 5;
const ROWS_MAX = 60;
const COLUMNS_MIN = 20;
const COLUMNS_MAX = 250;
/** Rows that have left the screen and are still shown. */
const HISTORY_MAX = 2000;
/** What is pasted goes out in pieces of this size. */
const PASTE_LENGTH = 4096;

/** What keys send that are no characters; those with two words follow the mode of the keypad. */
const KEYS = {
  Enter: "\r", Backspace: "\x7f", Tab: "\t", Escape: "\x1b", Delete: "\x1b[3~", Insert: "\x1b[2~",
  PageUp: "\x1b[5~", PageDown: "\x1b[6~", ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F",
};

/** Runs a command beside one copy. */
export async function terminal(view, here) {
  const page = new Page(here);
  fill(view, page.element());
  page.measure();
  await copies(here, (names) => page.chooser.offer(names));
}

class Page {
  constructor({ kind, project, name, signal, copy }) {
    Object.assign(this, { kind, project, name, signal, copy });
    this.path = pathOf(kind, project, name);
    this.screen = new Screen(80, 24);
    this.shown = [];
    this.drawing = false;
    signal.addEventListener("abort", () => this.leave());
  }

  element() {
    this.chooser = copyChooser("the first that runs", this.copy, (copy) => {
      this.copy = copy;
    });
    this.command = el("input", { value: "sh", "aria-label": "Command", spellcheck: "false", autocomplete: "off" });
    this.start = el("button", { type: "submit", className: "main" }, "Run");
    this.stop = el("button", { type: "button", onclick: () => this.leave(), hidden: true }, "End");
    this.said = el("span", { className: "quiet", role: "status" });
    this.trouble = el("div");
    this.history = el("div", { className: "history" });
    this.rows = el("div", { className: "rows" });
    this.probe = el("span", { className: "probe", "aria-hidden": "true" }, "0".repeat(50));
    this.body = el("div", { className: "output terminal", tabindex: "0", role: "log", "aria-label": "Terminal", onkeydown: (event) => this.typed(event), onpaste: (event) => this.pasted(event) }, this.probe, this.history, this.rows);
    const form = el("form", { className: "bar", onsubmit: (event) => { event.preventDefault(); this.run(); } }, this.chooser, this.command, this.start, this.stop, this.said);
    const back = el("a", { href: `#${this.path}` }, this.name);
    return el("article", {},
      el("p", { className: "quiet" }, el("a", { href: `#${pathOf(this.kind, this.project)}` }, this.kind.kind), " / ", this.project, " / ", back),
      el("div", { className: "title" }, el("h1", {}, `Terminal beside ${this.name}`)),
      form, this.trouble, this.body,
      el("p", { className: "quiet" }, "All keys go to the command while the terminal has the focus. Shift and Tab leave it; Control, Shift and V paste."),
    );
  }

  /** How many characters fit, told to the command when it changes. */
  measure() {
    const observer = new ResizeObserver(() => {
      const { width, height } = this.probe.getBoundingClientRect();
      if (!width || !height) return;
      const columns = bounded(Math.floor((this.body.clientWidth - 24) / (width / 50)), COLUMNS_MIN, COLUMNS_MAX);
      const rows = bounded(Math.floor((this.body.clientHeight - 20) / height), ROWS_MIN, ROWS_MAX);
      if (columns === this.screen.columns && rows === this.screen.rows) return;
      this.screen.resize(columns, rows);
      this.tellSize();
      this.draw();
    });
    observer.observe(this.body);
    this.signal.addEventListener("abort", () => observer.disconnect());
  }

  run() {
    this.leave();
    const command = words(this.command.value);
    if (!command.length) return;
    const { columns, rows } = this.screen;
    this.screen = new Screen(columns, rows);
    this.shown = [];
    fill(this.history);
    fill(this.rows);
    fill(this.trouble);
    this.say("Connecting…");
    const query = new URLSearchParams([...command.map((word) => ["command", word]), ["stdin", "true"], ["tty", "true"]]);
    if (this.copy) query.set("container", this.copy);
    const path = `${this.path}/exec?${query}`;
    const line = socket(path);
    const decoder = new TextDecoder();
    Object.assign(this, { line, status: null, opened: false });
    line.onopen = () => {
      this.opened = true;
      this.say("Running");
      this.tellSize();
      this.body.focus();
    };
    line.onmessage = (event) => {
      if (line === this.line) this.heard(new Uint8Array(event.data), decoder);
    };
    line.onclose = () => {
      if (line === this.line) this.closed(path);
    };
    this.start.textContent = "Run anew";
    this.stop.hidden = false;
    this.draw();
  }

  heard(message, decoder) {
    const [channel] = message;
    const data = message.subarray(1);
    if (channel === STDOUT || channel === STDERR) {
      this.screen.write(decoder.decode(data, { stream: true }));
      this.later();
    } else if (channel === ERROR && data.length) this.status = JSON.parse(new TextDecoder().decode(data));
  }

  async closed(path) {
    this.line = null;
    this.stop.hidden = true;
    this.draw();
    if (this.status) {
      const code = this.status.details?.causes?.find((cause) => cause.reason === "ExitCode")?.message;
      const failed = this.status.status !== "Success" && !code;
      this.say(failed ? "Ended" : `Ended with ${code ?? "0"}`);
      if (failed) fill(this.trouble, problem(new Error(this.status.message)));
      return;
    }
    this.say(this.opened ? "The connection is lost" : "");
    if (this.opened) return;
    // A page is not told why a socket was refused; the same without a socket says it.
    try {
      await get(path);
    } catch (error) {
      const why = error.code === 400 && /WebSocket/.test(error.message) ? new Error("The connection could not be opened.") : error;
      fill(this.trouble, problem(why));
    }
  }

  leave() {
    const { line } = this;
    this.line = null;
    if (!line) return;
    line.close();
    this.stop.hidden = true;
    this.say("Ended by you");
    this.draw();
  }

  say(words) {
    this.said.textContent = words;
  }

  send(channel, text) {
    if (this.line?.readyState !== WebSocket.OPEN) return;
    const data = new TextEncoder().encode(text);
    const message = new Uint8Array(data.length + 1);
    message[0] = channel;
    message.set(data, 1);
    this.line.send(message);
  }

  tellSize() {
    this.send(RESIZE, JSON.stringify({ Width: this.screen.columns, Height: this.screen.rows }));
  }

  typed(event) {
    const sent = this.line && keys(event, this.screen.keypad);
    if (!sent) return;
    event.preventDefault();
    this.send(STDIN, sent);
    this.body.scrollTop = this.body.scrollHeight;
  }

  pasted(event) {
    event.preventDefault();
    const own = (event.clipboardData?.getData("text/plain") ?? "").replace(/\r?\n/g, "\r");
    // What ends a paste, or acts in any other way, is not part of one.
    const text = own.replace(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g, "");
    const whole = this.screen.pasting ? `\x1b[200~${text}\x1b[201~` : text;
    for (let at = 0; at < whole.length; at += PASTE_LENGTH) this.send(STDIN, whole.slice(at, at + PASTE_LENGTH));
  }

  later() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.draw();
    });
  }

  draw() {
    const { screen, body } = this;
    const atEnd = body.scrollHeight - body.scrollTop - body.clientHeight < 30;
    this.history.append(...screen.left.splice(0).map((line) => el("div", {}, spans(line))));
    while (this.history.childElementCount > HISTORY_MAX) this.history.firstChild.remove();
    while (this.rows.childElementCount > screen.rows) this.rows.lastChild.remove();
    while (this.rows.childElementCount < screen.rows) this.rows.append(el("div"));
    screen.lines.forEach((line, y) => {
      const at = this.line && !screen.hidden && y === screen.y ? screen.x : -1;
      // Only what has changed is drawn.
      const key = `${at}\n${line.map((cell) => `${cell.text}\t${cell.style}`).join("\n")}`;
      if (this.shown[y] === key) return;
      this.shown[y] = key;
      fill(this.rows.children[y], spans(line, at));
    });
    this.shown.length = screen.rows;
    if (atEnd) body.scrollTop = body.scrollHeight;
  }
}

/** A row as texts, each with its look; one character of it may be where the cursor is. */
function spans(line, cursor = -1) {
  const made = [];
  let last = null;
  line.forEach((cell, at) => {
    const style = at === cursor ? `${cell.style} cursor` : cell.style;
    if (last?.style === style) last.text += cell.text;
    else made.push((last = { text: cell.text, style }));
  });
  if (made.length && !made.at(-1).style) made.at(-1).text = made.at(-1).text.trimEnd();
  return made.map(({ text, style }) => (style ? el("span", { className: style.trim() }, text) : text));
}

/** What a key sends; nothing where it is the browser's. */
function keys(event, keypad) {
  const { key, ctrlKey, altKey, metaKey, shiftKey, isComposing } = event;
  if (metaKey || isComposing || (shiftKey && key === "Tab")) return "";
  if (event.getModifierState("AltGraph")) return key.length === 1 ? key : "";
  // Copying what is selected and pasting are the browser's.
  if (ctrlKey && (shiftKey || (key === "c" && !getSelection().isCollapsed))) return "";
  const alt = altKey ? "\x1b" : "";
  if (ctrlKey) {
    const code = key === " " ? 0 : key.length === 1 ? key.toUpperCase().codePointAt(0) & 0x1f : -1;
    return /^[a-z@[\\\]^_ ]$/i.test(key) ? alt + String.fromCodePoint(code) : "";
  }
  if (key.length === 1 || [...key].length === 1) return alt + key;
  const own = KEYS[key];
  if (!own) return "";
  return own.length > 1 || own < "A" || own > "Z" ? alt + own : `\x1b${keypad ? "O" : "["}${own}`;
}

/** The words of a command line: what stands in quotes is one. */
export function words(text) {
  const found = text.match(/"[^"]*"|'[^']*'|[^\s"']+/g) ?? [];
  return found.map((word) => (/^["']/.test(word) ? word.slice(1, -1) : word));
}

const bounded = (value, least, most) => Math.max(least, Math.min(value, most));
