// The console in a real browser: node console.mjs LIBRARY URL WHAT [TOKEN]
import assert from "node:assert/strict";
import { browse } from "../../../testkit/clients/browser.mjs";

const [library, url, what, token] = process.argv.slice(2);
const WORKLOADS = "/apis/apps.orrery.dev/v1/namespaces/default/workloads";

const { page, visit, check } = await browse(library);
const asked = [];
page.on("request", (request) => asked.push(new URL(request.url()).origin));

const api = async (method, path, body, type = "application/json") => {
  const answer = await fetch(url + path, { method, headers: { "content-type": type }, body: JSON.stringify(body) });
  assert.ok(answer.ok, `${method} ${path}: ${await answer.clone().text()}`);
  return answer.json();
};
const workload = (name, more = {}) => ({
  apiVersion: "apps.orrery.dev/v1", kind: "Workload", metadata: { name, ...more },
  spec: { process: { command: "sleep" }, placement: { nodes: ["n1"] } },
});
const row = (name) => page.locator("tbody tr", { has: page.getByRole("link", { name, exact: true }) });

const checks = {
  /** What is lost on the way, parts of the page or its first questions, is asked for again. */
  async persists() {
    for (const lost of ["**/dom.js", "**/main.js", "**/apis", "**/projects"]) {
      await page.route(lost, (route) => route.abort("connectionreset"), { times: 1 });
    }
    await visit(url);
    await page.getByText("Not connected, trying again…").waitFor();
    await page.locator("#connection").filter({ hasText: "Not connected, trying again: " }).waitFor();
    await page.locator(".card", { hasText: "Project" }).waitFor();
    await page.locator("#connection:empty").waitFor({ state: "attached" });
  },

  /** What is there is shown, and what happens to it is shown without asking again. */
  async follows() {
    await api("POST", WORKLOADS, workload("first", { annotations: { note: "<img src=x onerror=\"document.title='pwned'\">" } }));
    await visit(url);
    assert.equal(new URL(page.url()).pathname, "/console/");
    await page.locator(".card", { hasText: "Workload" }).first().click();
    await row("first").waitFor();
    await api("POST", WORKLOADS, workload("second"));
    await row("second").waitFor();
    await page.getByRole("searchbox").fill("sec");
    await row("first").waitFor({ state: "detached" });
    await page.getByRole("searchbox").fill("");
    await page.getByRole("link", { name: "first", exact: true }).click();
    await page.getByRole("heading", { name: "Conditions" }).waitFor();
    // Texts of resources are texts.
    await page.getByText("<img src=x onerror").waitFor();
    assert.equal(await page.title(), "first · Workload · Orrery");
    await page.getByRole("heading", { name: "Copies" }).waitFor();
    await page.locator("tbody a", { hasText: "first-n1-" }).waitFor();
    await api("DELETE", `${WORKLOADS}/second`);
    await page.getByRole("navigation").getByRole("link", { name: "Workload", exact: true }).click();
    await row("first").waitFor();
    await row("second").waitFor({ state: "detached" });
  },

  /** An object is made in a form that says what is wrong where it is wrong. */
  async makes() {
    await visit(`${url}/console/#/apis/apps.orrery.dev/v1/workloads?new`);
    await page.locator("[data-path='metadata.name']").fill("made");
    await page.getByLabel("one of process, podman").selectOption("process");
    await page.locator("[data-path='spec.stopGraceSeconds']").fill("-1");
    await page.getByRole("button", { name: "Create" }).click();
    const wrong = page.locator("[data-path='spec.process.command'][aria-invalid]");
    await wrong.waitFor();
    assert.match(await page.locator("label", { has: wrong }).locator(".wrong").innerText(), /must be set/);
    await page.locator("[data-path='spec.stopGraceSeconds'][aria-invalid]").waitFor();
    await page.locator("[data-path='spec.process.command']").fill("sleep");
    await page.locator("[data-path='spec.stopGraceSeconds']").fill("3");
    const placement = page.locator("fieldset[data-path='spec.placement']");
    await placement.locator("fieldset[data-path='spec.placement.nodes']").getByRole("button", { name: "Add" }).click();
    await page.locator("[data-path='spec.placement.nodes[0]']").fill("n1");
    await page.getByRole("button", { name: "Check" }).click();
    await page.getByText("The server would take it as it is.").waitFor();
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "made", exact: true }).waitFor();
    const made = await api("GET", `${WORKLOADS}/made`);
    assert.deepEqual([made.spec.process.command, made.spec.stopGraceSeconds, made.spec.placement.nodes], ["sleep", 3, ["n1"]]);
  },

  /** It is changed in the form and as YAML; what somebody else changed meanwhile is not lost. */
  async changes() {
    await api("POST", WORKLOADS, workload("changed", { labels: { tier: "1" }, annotations: { kept: "yes" } }));
    const edit = `${url}/console/#${WORKLOADS}/changed?edit`;
    await visit(edit);
    await page.locator("[data-path='spec.restartPolicy']").selectOption("never");
    // What the server says of it in between is no change of somebody's.
    await api("PATCH", `${WORKLOADS}/changed/status`, { status: { message: "told meanwhile" } }, "application/merge-patch+json");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { name: "changed", exact: true }).waitFor();
    const { metadata, spec } = await api("GET", `${WORKLOADS}/changed`);
    assert.deepEqual([spec.restartPolicy, metadata.labels.tier, metadata.annotations.kept], ["never", "1", "yes"]);
    await visit(edit);
    await page.getByRole("tab", { name: "YAML" }).click();
    const document = page.getByLabel("YAML");
    await document.fill((await document.inputValue()).replace("restartPolicy: never", "restartPolicy: onFailure"));
    await api("PUT", `${WORKLOADS}/changed`, { ...workload("changed"), metadata: { name: "changed", labels: { tier: "2" } } });
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Somebody else has changed it meanwhile").waitFor();
    assert.equal((await api("GET", `${WORKLOADS}/changed`)).metadata.labels.tier, "2");
  },

  /** What is made goes where the address says, and what was entered goes with its user from the form to the YAML. */
  async keeps() {
    await visit(`${url}/console/`);
    await page.getByRole("heading", { name: "Everything" }).waitFor();
    const project = { apiVersion: "core.orrery.dev/v1", kind: "Project", metadata: { name: "late" } };
    await api("POST", "/apis/core.orrery.dev/v1/projects", project);
    const late = "/apis/apps.orrery.dev/v1/namespaces/late/workloads";
    await visit(`${url}/console/#${late}?new`);
    await page.locator("[data-path='metadata.name']").fill("made");
    assert.equal(await page.locator("[data-path='metadata.namespace']").inputValue(), "late");
    await page.getByLabel("one of process, podman").selectOption("process");
    await page.locator("[data-path='spec.process.command']").fill("sleep");
    await page.locator("fieldset[data-path='spec.placement.nodes']").getByRole("button", { name: "Add" }).click();
    await page.locator("[data-path='spec.placement.nodes[0]']").fill("n1");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "made", exact: true }).waitFor();
    await visit(`${url}/console/#${late}/made?edit`);
    await page.locator("[data-path='spec.process.command']").fill("entered");
    await page.getByRole("tab", { name: "YAML" }).click();
    const document = page.getByLabel("YAML");
    assert.match(await document.inputValue(), /command: entered/);
    await document.fill((await document.inputValue()).replace("command: entered", "command: typed"));
    let asked = "";
    page.once("dialog", (dialog) => {
      asked = dialog.message();
      dialog.dismiss();
    });
    await page.getByRole("tab", { name: "Form" }).click();
    assert.match(asked, /does not know what was changed/);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { name: "made", exact: true }).waitFor();
    assert.equal((await api("GET", `${late}/made`)).spec.process.command, "typed");
    await visit(`${url}/console/#${late}/%zz`);
    await page.getByText("%zz").first().waitFor();
  },

  /** It goes only when that is confirmed. */
  async deletes() {
    const project = { apiVersion: "core.orrery.dev/v1", kind: "Project", metadata: { name: "shop" } };
    await api("POST", "/apis/core.orrery.dev/v1/projects", project);
    await visit(`${url}/console/#/apis/core.orrery.dev/v1/projects/shop`);
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("button", { name: "Keep" }).click();
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("There is no Project shop any more.").waitFor();
  },

  /** What is secret is not on the screen until somebody asks for it. */
  async hides() {
    const secret = { apiVersion: "core.orrery.dev/v1", kind: "Secret", metadata: { name: "door" }, spec: { stringData: { code: "open sesame" } } };
    await api("POST", "/apis/core.orrery.dev/v1/namespaces/default/secrets", secret);
    await visit(`${url}/console/#/apis/core.orrery.dev/v1/namespaces/default/secrets/door`);
    const show = page.getByRole("button", { name: "Show" });
    await show.waitFor();
    const kept = Buffer.from("open sesame").toString("base64");
    assert.ok(!(await page.content()).includes(kept), "it is hidden");
    await show.click();
    await page.getByText(kept).waitFor();
    await visit(`${url}/console/#/apis/core.orrery.dev/v1/namespaces/default/secrets/door?edit`);
    await page.locator("input[type=password][data-path='spec.data[code]']").waitFor();
  },

  /** Who is not known is asked who they are, and sees what they may see. */
  async signs_in() {
    await visit(url);
    const dialog = page.getByRole("dialog", { name: "Sign in" });
    await dialog.waitFor();
    await dialog.getByLabel("Access token").fill("orrery1.nobody.guessed");
    await dialog.getByRole("button").click();
    await dialog.getByText("The server does not take this token.").waitFor();
    await dialog.getByLabel("Access token").fill(token);
    await dialog.getByRole("button").click();
    await page.locator(".card", { hasText: "Project" }).waitFor();
    await page.getByRole("navigation").getByRole("link", { name: "Secret", exact: true }).click();
    await page.getByRole("alert").waitFor();
    assert.match(await page.getByRole("alert").innerText(), /secrets.* is forbidden/);
    assert.ok(!(await page.content()).includes(token), "the token is on no page");
    await page.getByRole("button", { name: "Sign out" }).click();
    await dialog.waitFor();
  },
};

await check(async () => {
  await checks[what]();
  const elsewhere = asked.filter((origin) => origin !== new URL(url).origin);
  assert.deepEqual(elsewhere, [], "nothing is loaded from elsewhere");
});
