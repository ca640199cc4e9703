// The screen of a terminal: what a program writes becomes rows of characters. It knows what shells, editors and pagers
// use of an xterm. What it does not know is swallowed, and it never answers: nothing that a program writes comes back as
// if it had been typed, sets a title, opens a link or reaches the clipboard.

/** Rows that have left the screen and are kept. */
const KEPT_MAX = 2000;
/** What a sequence may be long before it counts as none. */
const SEQUENCE_MAX = 256;
const STRING_MAX = 4096;
const BLANK = { text: " ", style: "" };
/** What lines are drawn with, from ` on: the letters that stand for them. */
const DRAWN = "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·";

export class Screen {
  constructor(columns, rows) {
    Object.assign(this, { columns, rows });
    this.reset();
  }

  reset() {
    /** Rows that have left the screen since somebody took them. */
    this.left = [];
    this.lines = this.blanks(this.rows);
    this.other = null;
    Object.assign(this, { x: 0, y: 0, top: 0, bottom: this.rows - 1, style: "", look: { colours: {}, marks: new Set() } });
    Object.assign(this, { state: this.ground, sequence: "", hidden: false, pasting: false, keypad: false, wraps: true, overflow: false, draws: false });
    this.saved = { x: 0, y: 0, look: this.look, style: "" };
  }

  blanks(count) {
    return Array.from({ length: count }, () => this.blank());
  }

  blank() {
    return new Array(this.columns).fill(BLANK);
  }

  resize(columns, rows) {
    const fit = (line) => [...line.slice(0, columns), ...new Array(Math.max(0, columns - line.length)).fill(BLANK)];
    this.columns = columns;
    const change = (lines, at, kept) => {
      const all = lines.map(fit);
      while (all.length > rows) {
        // Below the cursor there is nothing that would be missed.
        if (at < all.length - 1) all.pop();
        else {
          kept?.push(all.shift());
          at -= 1;
        }
      }
      while (all.length < rows) all.push(this.blank());
      return [all, at];
    };
    [this.lines, this.y] = change(this.lines, this.y, this.other ? null : this.left);
    if (this.other) [this.other.lines] = change(this.other.lines, this.other.y, this.left);
    Object.assign(this, { rows, top: 0, bottom: rows - 1, x: Math.min(this.x, columns - 1), y: Math.max(0, this.y), overflow: false });
    this.saved = { ...this.saved, x: Math.min(this.saved.x, columns - 1), y: Math.min(this.saved.y, rows - 1) };
  }

  write(text) {
    for (const character of text) this.state(character);
    if (this.left.length > KEPT_MAX) this.left.splice(0, this.left.length - KEPT_MAX);
  }

  ground(character) {
    const code = character.codePointAt(0);
    if (code >= 0x20 && code !== 0x7f && !(code >= 0x80 && code < 0xa0)) this.put(character);
    else this.control(character);
  }

  control(character) {
    switch (character) {
      case "\x1b": this.state = this.escaped; this.sequence = ""; break;
      case "\n": case "\v": case "\f": this.down(); break;
      case "\r": this.go(0, this.y); break;
      case "\b": this.go(this.x - 1, this.y); break;
      case "\t": this.go(Math.min(this.columns - 1, (Math.floor(this.x / 8) + 1) * 8), this.y); break;
      default: break;
    }
  }

  put(character) {
    // Marks that belong to the character before, and those that turn the direction around, have no place of their own.
    if (character > "\x9f" && /^[\p{M}\p{Cf}]$/u.test(character)) return;
    if (this.overflow) {
      this.x = 0;
      this.down();
    }
    const drawn = this.draws && DRAWN[character.codePointAt(0) - 0x60];
    this.lines[this.y][this.x] = { text: drawn || character, style: this.style };
    this.overflow = this.wraps && this.x === this.columns - 1;
    this.x = Math.min(this.x + 1, this.columns - 1);
  }

  go(x, y) {
    this.overflow = false;
    this.x = Math.max(0, Math.min(x, this.columns - 1));
    this.y = Math.max(0, Math.min(y, this.rows - 1));
  }

  down() {
    this.overflow = false;
    if (this.y === this.bottom) this.scroll(this.top, 1);
    else this.go(this.x, this.y + 1);
  }

  up() {
    if (this.y === this.top) this.scroll(this.top, -1);
    else this.go(this.x, this.y - 1);
  }

  /** Moves the rows from one on to the end of the region: up where `by` is more than nothing. */
  scroll(from, by) {
    const height = this.bottom - from + 1;
    const count = Math.min(Math.abs(by), height);
    if (by === 1 && from === 0 && this.bottom === this.rows - 1) {
      const gone = this.lines.shift();
      this.lines.push(this.blank());
      if (!this.other) this.left.push(gone);
    } else if (by > 0) {
      const gone = this.lines.splice(from, count);
      this.lines.splice(this.bottom - count + 1, 0, ...this.blanks(count));
      if (from === 0 && !this.other) this.left.push(...gone);
    } else {
      this.lines.splice(this.bottom - count + 1, count);
      this.lines.splice(from, 0, ...this.blanks(count));
    }
  }

  escaped(character) {
    this.state = this.ground;
    switch (character) {
      case "[": this.state = this.numbered; break;
      case "]": case "P": case "X": case "^": case "_": this.state = this.worded; break;
      case "(": this.state = this.lettered; break;
      case ")": case "*": case "+": case "#": case "%": case " ": this.state = this.skipped; break;
      case "7": this.save(); break;
      case "8": this.restore(); break;
      case "D": this.down(); break;
      case "E": this.x = 0; this.down(); break;
      case "M": this.up(); break;
      case "c": this.reset(); break;
      case "\x1b": this.state = this.escaped; break;
      default: break;
    }
  }

  lettered(character) {
    this.state = this.ground;
    this.draws = character === "0";
  }

  skipped() {
    this.state = this.ground;
  }

  /** Titles, links, colours of the palette, what is for the clipboard: nothing of it is done. */
  worded(character) {
    this.sequence += ".";
    if (character === "\x07" || character === "\x18" || character === "\x1a" || this.sequence.length > STRING_MAX) this.state = this.ground;
    else if (character === "\x1b") this.state = this.ending;
  }

  ending(character) {
    this.state = this.ground;
    if (character !== "\\") this.escaped(character);
  }

  numbered(character) {
    const code = character.codePointAt(0);
    if (character === "\x1b" || character === "\x18" || character === "\x1a") {
      this.state = this.ground;
      if (character === "\x1b") this.control(character);
    } else if (code < 0x20) this.control(character);
    else if (code >= 0x40 && code <= 0x7e) {
      this.state = this.ground;
      this.act(character);
    } else if (this.sequence.length < SEQUENCE_MAX && code < 0x40) this.sequence += character;
    else this.state = this.ground;
  }

  act(final) {
    const marked = /^[<=>?]/.exec(this.sequence)?.[0] ?? "";
    if (/[ -/]/.test(this.sequence)) return;
    const numbers = this.sequence.slice(marked.length).split(/[;:]/).map((number) => Number.parseInt(number, 10) || 0);
    if (marked === "?" && (final === "h" || final === "l")) for (const mode of numbers) this.mode(mode, final === "h");
    if (marked) return;
    const [first, second = 0] = numbers;
    const count = Math.min(first || 1, Math.max(this.columns, this.rows));
    switch (final) {
      case "A": this.go(this.x, Math.max(this.y - count, this.y >= this.top ? this.top : 0)); break;
      case "B": case "e": this.go(this.x, Math.min(this.y + count, this.y <= this.bottom ? this.bottom : this.rows)); break;
      case "C": case "a": this.go(this.x + count, this.y); break;
      case "D": this.go(this.x - count, this.y); break;
      case "E": this.go(0, this.y + count); break;
      case "F": this.go(0, this.y - count); break;
      case "G": case "`": this.go(count - 1, this.y); break;
      case "d": this.go(this.x, count - 1); break;
      case "H": case "f": this.go((second || 1) - 1, (first || 1) - 1); break;
      case "J": this.erase(first); break;
      case "K": this.eraseLine(first); break;
      case "L": if (this.inRegion()) this.scroll(this.y, -count); break;
      case "M": if (this.inRegion()) this.scroll(this.y, count); break;
      case "S": this.scroll(this.top, count); break;
      case "T": this.scroll(this.top, -count); break;
      case "@": this.shift(count); break;
      case "P": this.shift(-count); break;
      case "X": this.clear(this.y, this.x, this.x + count); break;
      case "m": this.paint(numbers); break;
      case "r": this.region(first, second); break;
      case "s": this.save(); break;
      case "u": this.restore(); break;
      default: break;
    }
  }

  inRegion() {
    return this.y >= this.top && this.y <= this.bottom;
  }

  region(first, last) {
    const top = (first || 1) - 1;
    const bottom = Math.min(last || this.rows, this.rows) - 1;
    if (top >= bottom) return;
    Object.assign(this, { top, bottom });
    this.go(0, 0);
  }

  mode(mode, on) {
    if (mode === 1) this.keypad = on;
    else if (mode === 7) this.wraps = on;
    else if (mode === 25) this.hidden = !on;
    else if (mode === 2004) this.pasting = on;
    else if ([47, 1047, 1049].includes(mode)) this.alternate(on);
  }

  /** A second screen, which editors and pagers write on. */
  alternate(on) {
    if (on === Boolean(this.other)) return;
    if (on) {
      this.other = { lines: this.lines, x: this.x, y: this.y };
      this.lines = this.blanks(this.rows);
    } else {
      const { lines, x, y } = this.other;
      this.lines = lines;
      this.other = null;
      this.go(x, y);
    }
    Object.assign(this, { top: 0, bottom: this.rows - 1 });
  }

  save() {
    this.saved = { x: this.x, y: this.y, look: this.look, style: this.style };
  }

  restore() {
    Object.assign(this, { look: this.saved.look, style: this.saved.style });
    this.go(this.saved.x, this.saved.y);
  }

  clear(y, from, to) {
    this.lines[y].fill(BLANK, Math.max(0, from), Math.min(to, this.columns));
  }

  eraseLine(which) {
    if (which === 0) this.clear(this.y, this.x, this.columns);
    else if (which === 1) this.clear(this.y, 0, this.x + 1);
    else if (which === 2) this.clear(this.y, 0, this.columns);
  }

  erase(which) {
    if (which > 2) return;
    if (which < 2) this.eraseLine(which);
    const [from, to] = [[this.y + 1, this.rows], [0, this.y], [0, this.rows]][which];
    for (let y = from; y < to; y += 1) this.clear(y, 0, this.columns);
  }

  /** Makes room in the line, or takes some away. */
  shift(by) {
    const line = this.lines[this.y];
    const count = Math.min(Math.abs(by), this.columns - this.x);
    const blanks = Array.from({ length: count }, () => BLANK);
    if (by > 0) {
      line.splice(this.x, 0, ...blanks);
      line.length = this.columns;
    } else {
      line.splice(this.x, count);
      line.push(...blanks);
    }
    this.overflow = false;
  }

  /** The sixteen colours, bold and the like; of the other colours it is only known that they are some. */
  paint(numbers) {
    let { colours, marks } = { colours: { ...this.look.colours }, marks: new Set(this.look.marks) };
    const words = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse" };
    for (let at = 0; at < numbers.length; at += 1) {
      const number = numbers[at];
      const place = Math.floor(number / 10) % 10 === 4 || number >= 100 ? "back" : "fore";
      if (number === 0) [colours, marks] = [{}, new Set()];
      else if (words[number]) marks.add(words[number]);
      else if (number === 22) ["bold", "dim"].forEach((word) => marks.delete(word));
      else if (words[number - 20]) marks.delete(words[number - 20]);
      else if (number === 38 || number === 48) {
        const indexed = numbers[at + 1] === 5;
        const index = numbers[at + 2];
        delete colours[place];
        if (indexed && index < 16) colours[place] = index;
        at += indexed ? 2 : 4;
      } else if (number === 39 || number === 49) delete colours[place];
      else if ((number >= 30 && number < 38) || (number >= 40 && number < 48)) colours[place] = number % 10;
      else if ((number >= 90 && number < 98) || (number >= 100 && number < 108)) colours[place] = (number % 10) + 8;
    }
    this.look = { colours, marks };
    this.style = [...marks, ...Object.entries(colours).map(([which, colour]) => `${which}-${colour}`)].join(" ");
  }
}
