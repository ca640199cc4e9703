// The screen of the console's terminal by itself: node screen.mjs SCREEN
import assert from "node:assert/strict";

const { Screen } = await import(process.argv[2]);
const rows = (screen) => screen.lines.map((line) => line.map((cell) => cell.text).join("").trimEnd());

/** What stands on a screen of ten columns and three rows after this was written. */
function check(text, ...expect) {
  const screen = new Screen(10, 3);
  screen.write(text);
  assert.deepEqual(rows(screen), expect, JSON.stringify(text));
  return screen;
}

check("ab\r\ncd", "ab", "cd", "");
check("0123456789x", "0123456789", "x", "");
check("0123456789\r\nx", "0123456789", "x", "");
check("abc\b\b\x1b[Kx", "ax", "", "");
check("abc\x1b[2D\x1b[@-", "a-bc", "", "");
check("abcd\x1b[3D\x1b[P", "acd", "", "");
check("1\r\n2\r\n3\x1b[1;2r\x1b[2;1H\nx", "2", "x", "3");
check("1\r\n2\r\n3\x1b[2;1H\x1b[Lx", "1", "x", "2");
check("1\r\n2\r\n3\x1b[H\x1bMx", "x", "1", "2");
check("a\x1b[2J\x1b[Hb", "b", "", "");
check("\x1b[3;3Hx\x1b[1Jy", "", "", "   y");
check("a\x1b[?1049hzzz\x1b[?1049lb", "ab", "", "");
check("\x1b(0lqk\x1b(Blqk", "┌─┐lqk", "", "");
assert.equal(check("1\r\n2\r\n3\r\n4", "2", "3", "4").left.length, 1, "what has left is kept");

// What is not known, or not for a screen, is swallowed, and numbers of any size do no harm.
check("\x1b]0;title\x07ok\x1b]52;c;AAAA\x1b\\!", "ok!", "", "");
check("\x1b[6n\x1b[c\x1bZ\x1bP$q\x1b\\ok", "ok", "", "");
check("\x1b[999999999999999999999Bx", "", "", "x");
check("\u202eevil\u0301\x9b31m", "evil31m", "", "");
check(`\x1b]0;${"x".repeat(4090)}`, "", "", "");

const look = (text) => {
  const screen = new Screen(10, 3);
  screen.write(`${text}x`);
  return screen.lines[0].find((cell) => cell.text === "x").style;
};
assert.equal(look("\x1b[1;31m"), "bold fore-1");
assert.equal(look("\x1b[1;31m\x1b[0m"), "");
assert.equal(look("\x1b[38;5;200m"), "");
assert.equal(look("\x1b[38;5;12;48;2;1;2;3;4m"), "underline fore-12");
assert.equal(look("\x1b[97;104m"), "fore-15 back-12");

const changed = new Screen(10, 3);
changed.write("1\r\n2\r\n3");
changed.resize(4, 2);
assert.deepEqual([rows(changed), changed.left.length], [["2", "3"], 1]);
changed.resize(20, 5);
changed.write("x");
assert.equal(rows(changed)[1], "3x");

// Whatever is written, a screen is as large as it is, and its cursor is on it.
let seed = 1;
const random = (below) => {
  seed = (seed * 1103515245 + 12345) % 2147483648;
  return Math.floor((seed / 2147483648) * below);
};
const LETTERS = "\x1b\x1b\x1b[[[]P?;0123456789HJKLMPXmrhlABCDsu@ST78DEMc(\n\r\b\tabc\x07\\\x18";
for (let round = 0; round < 2000; round += 1) {
  const screen = new Screen(1 + random(12), 1 + random(6));
  for (let part = 0; part < 6; part += 1) {
    screen.write(Array.from({ length: 120 }, () => LETTERS[random(LETTERS.length)]).join(""));
    if (random(2)) screen.resize(1 + random(12), 1 + random(6));
    const { lines, columns, x, y } = screen;
    assert.ok(lines.length === screen.rows && lines.every((line) => line.length === columns && line.every((cell) => cell?.text)));
    assert.ok(x >= 0 && x < columns && y >= 0 && y < screen.rows && screen.left.length <= 2000);
  }
}
console.log("all good");
