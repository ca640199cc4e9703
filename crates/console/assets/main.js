// Where a person is, and what is shown there. The address is that of the object in the API, behind a #:
//
//   #/                                                     what there is
//   #/apis/GROUP/VERSION[/namespaces/PROJECT]/PLURAL       the objects of a kind;  ?new  makes one
//   #/apis/.../PLURAL/NAME                                 one of them;  ?edit  changes it
//   #/apis/.../PLURAL/NAME?log&copy=COPY                   what its copies write;  ?exec  runs commands beside one

import { Refusal, answered, discover, get, pathOf, token } from "./api.js";
import { el, fill, problem } from "./dom.js";
import { edit } from "./edit.js";
import { list } from "./list.js";
import { logs } from "./logs.js";
import { show } from "./object.js";
import { overview } from "./overview.js";
import { terminal } from "./terminal.js";

const view = document.getElementById("view");
const nav = document.getElementById("kinds");
const chooser = document.getElementById("project");
const connection = document.getElementById("connection");
const signOut = document.getElementById("sign-out");

let kinds = [];
let projects = [];
let leave = new AbortController();

/** A part of an address; one that is no encoding of anything stands for itself. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** What an address means. */
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  if (parts[0] !== "apis" || parts.length < 4) return { project: new URLSearchParams(query).get("project") ?? "" };
  const [, group, version, ...rest] = parts;
  const project = rest[0] === "namespaces" && rest.length > 2 ? rest.splice(0, 2)[1] : "";
  const copy = new URLSearchParams(query).get("copy") ?? "";
  return { group, version, project, plural: rest[0], name: rest[1], action: query.split("&")[0], copy };
}

async function go() {
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  const at = parse(location.hash);
  const kind = kinds.find((known) => known.group === at.group && known.plural === at.plural);
  drawNav(kind, at.project);
  connection.textContent = "";
  const state = (words) => {
    if (!signal.aborted) connection.textContent = words;
  };
  const here = { kind, kinds, projects, project: at.project, name: at.name, copy: at.copy, signal, state };
  document.title = [at.name, kind?.kind, "Orrery"].filter(Boolean).join(" · ");
  try {
    if (!at.plural) await overview(view, here);
    else if (!kind) fill(view, problem(new Error(`This server has no kind ${at.plural} in ${at.group}.`)));
    else if (at.action === "new" || at.action === "edit") await edit(view, here, (made) => visit(kind, made));
    else if (at.action === "log" && kind.subresources.includes("log")) await logs(view, here);
    else if (at.action === "exec" && kind.subresources.includes("exec")) await terminal(view, here);
    else if (at.name) await show(view, here);
    else await list(view, here);
  } catch (error) {
    if (!signal.aborted) failed(error);
  }
}

function visit(kind, { metadata }) {
  location.hash = pathOf(kind, metadata.namespace, metadata.name);
}

function failed(error) {
  if (error instanceof Refusal && error.code === 401) signIn(token.get() ? "The server does not take this token." : "");
  else fill(view, problem(error));
}

function drawNav(current, project) {
  const groups = new Map();
  for (const kind of kinds) groups.set(kind.group, [...(groups.get(kind.group) ?? []), kind]);
  const link = (kind) =>
    el("li", {}, el("a", { href: `#${pathOf(kind, project)}`, "aria-current": kind === current ? "page" : null }, kind.kind));
  const home = el("ul", {}, el("li", {}, el("a", { href: project ? `#/?project=${project}` : "#/", "aria-current": current ? null : "page" }, "Overview")));
  fill(nav, home, [...groups].map(([group, members]) => el("section", {}, el("h2", {}, group.replace(/\.orrery\.dev$/, "")), el("ul", {}, members.map(link)))));
  const option = (name) => el("option", { value: name, selected: name === project }, name || "all projects");
  fill(chooser, ["", ...new Set([...projects, ...(project ? [project] : [])])].map(option));
}

chooser.addEventListener("change", () => {
  const at = parse(location.hash);
  const kind = kinds.find((known) => known.group === at.group && known.plural === at.plural);
  location.hash = kind ? pathOf(kind, chooser.value) : `/?project=${encodeURIComponent(chooser.value)}`;
});

function signIn(why) {
  const dialog = document.getElementById("sign-in");
  document.getElementById("sign-in-why").textContent = why;
  const field = document.getElementById("token");
  field.value = "";
  dialog.onclose = () => {
    if (field.value) token.set(field.value.trim());
    start();
  };
  if (!dialog.open) dialog.showModal();
}

signOut.addEventListener("click", () => {
  token.clear();
  leave.abort();
  fill(view);
  fill(nav);
  start();
});

/** Learns what this server has, and shows where the person is. */
async function start() {
  signOut.hidden = !token.get();
  const state = (words) => (connection.textContent = words);
  try {
    kinds = await answered(discover, state);
    const all = kinds.find((kind) => kind.kind === "Project");
    const named = (found) => found.items.map((project) => project.metadata.name);
    projects = await answered(() => get(pathOf(all)), state).then(named).catch((error) => {
      // Whoever may not list projects can still name one in the address.
      if (error.code === 403) return [];
      throw error;
    });
  } catch (error) {
    failed(error);
    return;
  }
  window.onhashchange = go;
  await go();
}

start();
