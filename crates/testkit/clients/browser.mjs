// A page of a real browser, for tests of the console.
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

/** Opens a browser with a profile of its own; `errors` are what the page did not expect. */
export async function browse(library, options = {}) {
  const { chromium } = await import(library);
  const profile = await mkdtemp(join(tmpdir(), "console-"));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: "/usr/bin/chromium", headless: true, args: FLAGS, ignoreHTTPSErrors: true, ...options,
  });
  const page = await browser.newPage();
  const [errors, failed] = [[], []];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => {
    // That the server refuses something is part of what is looked at.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) errors.push(message.text());
  });
  page.on("requestfailed", (request) => failed.push(`${request.url()}: ${request.failure()?.errorText}`));

  /** Goes there. Other tests make networks on this machine, and a browser then drops what it is loading: it goes again. */
  const visit = async (address) => {
    for (;;) {
      try {
        return await page.goto(address);
      } catch (error) {
        // The second is what comes of the first: the browser's page about it, or the page that loads itself again.
        if (!/net::ERR_NETWORK_CHANGED|is interrupted by another navigation/.test(error.message)) throw error;
      }
    }
  };

  /** Does the check, says what was to be seen if it fails, and closes the browser. */
  const check = async (doing) => {
    try {
      await doing();
      assert.deepEqual(errors, []);
    } catch (error) {
      console.error(await page.locator("body").innerText().catch(() => "no page"), errors, failed);
      throw error;
    } finally {
      await browser.close();
      await rm(profile, { recursive: true, force: true });
    }
    console.log("all good");
  };
  return { page, errors, visit, check };
}
