// The console's logs and its terminal in a real browser: node console.mjs LIBRARY URL WHAT [TOKEN]
// With SHOTS, pictures of what is seen are left in that folder.
import assert from "node:assert/strict";
import { join } from "node:path";
import { browse } from "../../../testkit/clients/browser.mjs";

const [library, url, what, token] = process.argv.slice(2);
const TALKER = "/apis/apps.orrery.dev/v1/namespaces/default/workloads/talker";

const { page, errors, visit, check } = await browse(library, { viewport: { width: 1280, height: 800 } });
page.on("dialog", (dialog) => errors.push(dialog.message()));
const shot = async (name) => {
  if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `${name}.png`) });
};
const lines = page.locator(".output .line:not([hidden])");
const screen = page.getByLabel("Terminal");
const said = page.locator("form [role=status]");
/** Waits until the screen says so. */
const says = async (words) => screen.locator(".rows div", { hasText: words }).last().waitFor();

const PROMPT = /^[#$]\s*$/;
/** That a socket was refused is what was looked at. */
const refused = () => errors.splice(0, errors.length, ...errors.filter((error) => !error.includes("WebSocket")));

const checks = {
  /** What the copies write is shown as it comes, chosen and found. */
  async logs() {
    await visit(`${url}/console/#${TALKER}`);
    await page.getByRole("link", { name: "Logs" }).click();
    await page.getByRole("heading", { name: "Logs of talker" }).waitFor();
    await page.getByLabel("Lines before the end").selectOption("5000");
    // Colours and titles are left out, and texts are texts.
    await lines.filter({ hasText: /^.*talker-.*: green <img src=x onerror=alert\(1\)>$/ }).first().waitFor();
    assert.ok(!(await lines.first().innerText()).includes("pwned"));
    const last = (await lines.last().innerText()).replace(/.* /, "");
    await lines.filter({ hasText: new RegExp(`line ${Number(last) + 5}$`) }).first().waitFor();
    const copy = await page.getByLabel("Copy").locator("option").nth(1).innerText();
    await page.getByLabel("Copy").selectOption(copy);
    await lines.filter({ hasText: /^[\d:]*( [AP]M)?green/ }).first().waitFor();
    assert.equal(await lines.filter({ hasText: /talker-/ }).count(), 0, "one copy's lines need no name");
    await page.getByRole("searchbox").fill("LINE 1");
    await page.waitForFunction(() => [...document.querySelectorAll(".output .line:not([hidden])")].every((line) => line.textContent.includes("line 1")));
    await page.getByLabel("Times").check();
    await page.locator(".output .line:not([hidden])").filter({ hasText: /^\d+:\d\d:\d\d\.\d{3}.*line 1/ }).first().waitFor();
    await shot("logs");
    await page.getByRole("searchbox").fill("");
    await page.getByLabel("Wrap").uncheck();
    // Who does not follow sees what there is.
    await page.getByLabel("Follow").uncheck();
    await page.waitForFunction(() => !document.querySelector("[role=status]").textContent.includes("Loading"));
    await visit(`${url}/console/#/apis/apps.orrery.dev/v1/namespaces/default/workloadinstances/${copy}`);
    await page.getByRole("link", { name: "Logs" }).click();
    await page.getByRole("heading", { name: "Logs of talker" }).waitFor();
    assert.equal(await page.getByLabel("Copy").inputValue(), copy);
  },

  /** A shell, an editor's screen, what is pasted, and how it ends. */
  async terminal() {
    await visit(`${url}/console/#${TALKER}`);
    await page.getByRole("link", { name: "Terminal" }).click();
    await page.getByLabel("Command").fill("sh -c 'echo one two; exec sh'");
    await page.getByLabel("Command").press("Enter");
    await says("one two");
    await page.keyboard.type("echo $ORRERY_WORKLOX");
    await page.keyboard.press("Backspace");
    await page.keyboard.type("AD; stty size\n");
    await says(/^talker/);
    const [, rows, columns] = /(\d+) (\d+)\s*$/m.exec(await screen.locator(".rows div", { hasText: /^\d+ \d+/ }).innerText());
    assert.ok(Number(rows) > 10 && Number(columns) > 60, `${rows} ${columns}`);
    // It never answers what a program asks of a terminal, and a title is nobody's.
    await page.keyboard.type("printf '\\033]0;pwned\\007\\033[6n\\033[c\\033[31mred\\033[0m\\n'\n");
    await screen.locator(".fore-1", { hasText: "red" }).waitFor();
    assert.match(await page.title(), /talker/);
    await screen.evaluate((element) => {
      const clipboardData = new DataTransfer();
      clipboardData.setData("text/plain", "echo pas\u0003ted\n");
      element.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
    });
    await says(/^pasted/);
    await shot("terminal");
    await page.keyboard.type("seq 1 200 | more\n");
    await says("More");
    await page.keyboard.type("q");
    await says(PROMPT);
    await page.keyboard.type("sleep 600\n");
    await says("sleep 600");
    await page.keyboard.press("Control+c");
    await says(PROMPT);
    await page.keyboard.type("exit 7\n");
    await said.filter({ hasText: "Ended with 7" }).waitFor();
    await page.getByLabel("Command").fill("/no/such/program");
    await page.getByRole("button", { name: "Run anew" }).click();
    await said.filter({ hasText: "Ended with 127" }).waitFor();
    await page.getByLabel("Command").fill("cat");
    await page.getByRole("button", { name: "Run anew" }).click();
    await said.filter({ hasText: "Running" }).waitFor();
    await page.getByRole("button", { name: "End" }).click();
    await said.filter({ hasText: "Ended by you" }).waitFor();
    await visit(`${url}/console/#${TALKER}?exec&copy=ghost`);
    await page.getByRole("button", { name: "Run" }).click();
    await page.getByRole("alert").filter({ hasText: "could not be opened" }).waitFor();
    refused();
  },

  /** Over TLS, with a token, and refused with a reason where it is not good. */
  async signed_in() {
    await visit(`${url}/console/#${TALKER}?exec`);
    const dialog = page.getByRole("dialog", { name: "Sign in" });
    await dialog.getByLabel("Access token").fill(token);
    await dialog.getByRole("button").click();
    await page.getByRole("button", { name: "Run" }).click();
    await said.filter({ hasText: "Running" }).waitFor();
    await page.keyboard.type("echo $ORRERY_WORKLOAD\n");
    await says(/^talker/);
    await page.evaluate((path) => {
      location.hash = `${path}?log`;
    }, TALKER);
    await lines.filter({ hasText: /line \d/ }).first().waitFor();
    await page.evaluate((path) => {
      location.hash = `${path.replace("talker", "nobody")}?exec`;
    }, TALKER);
    await page.getByRole("heading", { name: "Terminal beside nobody" }).waitFor();
    await page.getByRole("button", { name: "Run" }).click();
    await page.getByRole("alert").waitFor();
    refused();
  },

  /** Whatever page a browser shows, a terminal is opened by the console alone. */
  async foreign() {
    const open = (address) => page.evaluate((address) => new Promise((resolve) => {
      const socket = new WebSocket(address, ["v5.channel.k8s.io"]);
      socket.onopen = () => resolve("open");
      socket.onerror = () => resolve("refused");
    }), address);
    const address = `${url.replace(/^http/, "ws")}${TALKER}/exec?command=true`;
    await visit(`${url}/console/`);
    assert.equal(await open(address), "open", "the console itself");
    // Another name for the same place, which is another origin and has no policy of ours.
    const other = new URL(url);
    other.hostname = "localhost";
    for (const elsewhere of ["data:text/html,elsewhere", `${other.origin}/livez`]) {
      await visit(elsewhere);
      assert.equal(await open(address), "refused", elsewhere);
    }
    refused();
  },
};

await check(checks[what]);
